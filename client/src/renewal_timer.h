// One thread that does small things when they are due, for all running operations of a client:
// no operation has a thread of its own.
#ifndef IDEMPOTENCY_CLIENT_SRC_RENEWAL_TIMER_H_
#define IDEMPOTENCY_CLIENT_SRC_RENEWAL_TIMER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "idempotency/policies.h"

namespace idempotency::internal {

// Thread safety: every method may be called from any thread.
class RenewalTimer {
 public:
  // kManual: there is no thread, and actions run in RunDue alone; for tests whose clock stands
  // still.
  enum class Drive { kThread, kManual };

  explicit RenewalTimer(std::shared_ptr<Environment> environment, Drive drive = Drive::kThread);
  // Drops what is not due yet, and waits for what is running (unless called from it).
  ~RenewalTimer();
  RenewalTimer(const RenewalTimer&) = delete;
  RenewalTimer& operator=(const RenewalTimer&) = delete;

  // Names an action. The default names none.
  using Place = std::pair<std::chrono::nanoseconds, uint64_t>;

  // Calls `action` once, on the timer's thread, when the environment's monotonic clock has
  // reached `due`. It must not block.
  Place At(std::chrono::nanoseconds due, std::function<void()> action);

  // Drops the action; where it is running, returns when it has run (unless called from it).
  void Cancel(Place place);

  // Runs what is due, on the calling thread.
  void RunDue();

 private:
  struct State;

  static void RunDue(State& state);
  static void Loop(State& state);

  const Drive drive_;
  // Shared with the thread, which outlives the timer where it is itself the one that ends it.
  const std::shared_ptr<State> state_;
  absl::Mutex thread_mutex_;
  // Started with the first action: a client that renews nothing has none.
  std::thread thread_ ABSL_GUARDED_BY(thread_mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_RENEWAL_TIMER_H_
