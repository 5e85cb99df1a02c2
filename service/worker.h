// One thread for what may run for a while, such as listing: the threads that answer commands
// must not.
#ifndef IDEMPOTENCY_SERVICE_WORKER_H_
#define IDEMPOTENCY_SERVICE_WORKER_H_

#include <cstddef>
#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace idempotency::service {

// Thread safety: Run may be called from any thread.
class Worker {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  explicit Worker(size_t max_queued);
  // Runs what is queued, then stops.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // False, and the task is not run, where too many are queued.
  [[nodiscard]] bool Run(Task task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); }

  const size_t max_queued_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_WORKER_H_
