// Threads for calls that may block, made when they are needed, up to a limit.
#ifndef IDEMPOTENCY_CLIENT_SRC_GRPC_WORKER_POOL_H_
#define IDEMPOTENCY_CLIENT_SRC_GRPC_WORKER_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace idempotency::internal {

// Thread safety: Add may be called from any thread.
class WorkerPool {
 public:
  WorkerPool(size_t threads_max, size_t queued_max)
      : threads_max_(threads_max), queued_max_(queued_max) {}
  // Waits for all that has been added.
  ~WorkerPool() ABSL_LOCKS_EXCLUDED(mutex_);

  // False: there is no room, and `work` will not run.
  bool Add(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_ || !queue_.empty(); }

  const size_t threads_max_;
  const size_t queued_max_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_GRPC_WORKER_POOL_H_
