#include "service/worker.h"

#include <utility>

namespace idempotency::service {

Worker::Worker(size_t max_queued) : max_queued_(max_queued), thread_([this] { Loop(); }) {}

Worker::~Worker() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

bool Worker::Run(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || queue_.size() >= max_queued_) return false;
  queue_.push_back(std::move(task));
  return true;
}

void Worker::Loop() {
  for (;;) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Worker::HasWork));
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace idempotency::service
