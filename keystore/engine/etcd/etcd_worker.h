// A thread for what waits for etcd: scans; or sweeping, and a look at how etcd stands, once a
// second. Not for both: what comes once a second is done when there is nothing else.
//
// Thread safety: all methods may be called from any thread but its own.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_WORKER_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_WORKER_H_

#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace idempotency::keystore {

class EtcdWorker {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // `each_second` runs about once a second.
  explicit EtcdWorker(std::function<void()> each_second)
      : each_second_(std::move(each_second)), thread_([this] { Run(); }) {}
  ~EtcdWorker() { Stop(); }
  EtcdWorker(const EtcdWorker&) = delete;
  EtcdWorker& operator=(const EtcdWorker&) = delete;

  // In order. What is added after Stop runs at once, on the caller's thread.
  void Add(Task task) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!stopping_) {
        tasks_.push_back(std::move(task));
        return;
      }
    }
    std::move(task)();
  }

  // Returns when everything that was added has run.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }

  bool stopping() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return stopping_;
  }

 private:
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !tasks_.empty(); }

  void Run() ABSL_LOCKS_EXCLUDED(mutex_) {
    for (;;) {
      Task task;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.AwaitWithTimeout(absl::Condition(this, &EtcdWorker::HasWork), absl::Seconds(1));
        if (stopping_ && tasks_.empty()) return;
        if (!tasks_.empty()) {
          task = std::move(tasks_.front());
          tasks_.pop_front();
        }
      }
      if (task) {
        std::move(task)();
      } else {
        each_second_();
      }
    }
  }

  const std::function<void()> each_second_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_WORKER_H_
