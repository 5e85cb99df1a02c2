// Looks at what the store is kept in, when it is asked to: what the engine finds, and what the
// kernel says of the clock. On a thread of its own, since what is asked may not answer.
#ifndef IDEMPOTENCY_SERVICE_ENGINE_CHECKER_H_
#define IDEMPOTENCY_SERVICE_ENGINE_CHECKER_H_

#include <atomic>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "keystore/clock.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/engine_check.h"
#include "service/worker.h"

namespace idempotency::service {

// What follows from the service's clock, and from whether the kernel says that its own is
// synchronised. A pure function.
std::vector<keystore::Finding> JudgeClock(const core::Now& now, bool synchronised);

// Thread safety: all methods may be called from any thread. Destroying it waits for the check that
// was begun; those that wait for their turn are told that they get none.
class EngineChecker {
 public:
  struct Result {
    keystore::EngineCheck check;
    core::Time time;
  };
  using Done = absl::AnyInvocable<void(absl::StatusOr<Result>) &&>;

  // Both must outlive it.
  EngineChecker(keystore::Engine* engine, keystore::Clock* clock);
  ~EngineChecker() { Stop(); }
  EngineChecker(const EngineChecker&) = delete;
  EngineChecker& operator=(const EngineChecker&) = delete;

  // One after the other; `done` runs on the checker's thread, with CANCELLED where the server stops
  // first. False where too many wait.
  [[nodiscard]] bool Start(Done done);
  // From now on no check is begun.
  void Stop() { stopping_ = true; }

 private:
  Result CheckNow();

  keystore::Engine* const engine_;
  keystore::Clock* const clock_;
  std::atomic<bool> stopping_{false};
  Worker worker_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_ENGINE_CHECKER_H_
