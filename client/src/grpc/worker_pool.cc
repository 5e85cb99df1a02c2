#include "client/src/grpc/worker_pool.h"

#include <utility>

namespace idempotency::internal {

WorkerPool::~WorkerPool() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool WorkerPool::Add(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  const bool may_start = threads_.size() < threads_max_;
  const bool all_busy = idle_ <= queue_.size();
  if (all_busy && !may_start && queue_.size() >= idle_ + queued_max_) return false;
  queue_.push_back(std::move(work));
  if (all_busy && may_start) threads_.emplace_back([this] { Work(); });
  return true;
}

void WorkerPool::Work() {
  for (;;) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      ++idle_;
      mutex_.Await(absl::Condition(this, &WorkerPool::HasNews));
      --idle_;
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace idempotency::internal
