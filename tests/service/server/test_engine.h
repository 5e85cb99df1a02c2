// An engine in memory that a test can put under pressure, hold back, spoil and kill.
#ifndef IDEMPOTENCY_TESTS_SERVICE_SERVER_TEST_ENGINE_H_
#define IDEMPOTENCY_TESTS_SERVICE_SERVER_TEST_ENGINE_H_

#include <atomic>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/engine.h"

namespace idempotency::testing {

// What the test holds; the engine itself belongs to the server.
class EngineControls {
 public:
  void SetPressure(keystore::Pressure pressure) ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on the key's stored bytes cannot be read.
  void Spoil(core::Key key) ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on every write fails, and the engine is dead.
  void Kill() { dead_ = true; }
  // From now on commits are held back ...
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  // ... until they are let go, on the caller's thread; none is held back any more.
  void LetGo() ABSL_LOCKS_EXCLUDED(mutex_);
  // Commits that are held back now.
  size_t held() const ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on a commit keeps the thread that makes it, as a sync does ...
  void Block() ABSL_LOCKS_EXCLUDED(mutex_);
  // ... until this.
  void Unblock() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class TestEngine;
  struct HeldCommit {
    std::vector<keystore::GuardedWrite> writes;
    keystore::Engine::CommitDone done;
  };

  mutable absl::Mutex mutex_;
  keystore::Pressure pressure_ ABSL_GUARDED_BY(mutex_);
  std::set<core::Key> spoilt_ ABSL_GUARDED_BY(mutex_);
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  bool blocking_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<HeldCommit> held_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> dead_{false};
  keystore::Engine* engine_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// `controls` must outlive the engine.
std::unique_ptr<keystore::Engine> MakeTestEngine(EngineControls* controls);

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SERVICE_SERVER_TEST_ENGINE_H_
