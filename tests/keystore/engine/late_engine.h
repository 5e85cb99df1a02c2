// An engine as etcd or a distributed database will be one: it answers later and out of order,
// on a thread of its own; another replica writes in between, so that races are lost; and it
// sometimes cannot tell whether a write took effect. What happens is drawn from a seed.
//
// It keeps its records in a MemoryEngine. What it cannot do: keep them over a reopening, hold
// bytes that cannot be read, or be exclusive.
//
// Thread safety: all methods may be called from any thread. Destroying it answers everything
// that was asked.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_LATE_ENGINE_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_LATE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/memory_engine.h"

namespace idempotency::keystore {

struct LateScript {
  uint64_t seed = 1;
  // Of a hundred writes. Half of those that are unknown took effect.
  int lost_race_percent = 0;
  int unknown_percent = 0;
  core::Duration clock_skew{0};
};

class LateEngine final : public Engine {
 public:
  explicit LateEngine(LateScript script);
  ~LateEngine() override;

  void Read(std::vector<core::Key> keys, ReadDone done) override;
  void Commit(std::vector<GuardedWrite> writes, CommitDone done) override;
  void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) override;
  // Called for every write of the other replica, on the engine's thread.
  void OnForeignChange(std::function<void(const core::Key&)> hint) override;
  Traits traits() const override;
  Pressure pressure() const override { return memory_.pressure(); }

  // While held, nothing takes effect and nothing is answered.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  void Resume() ABSL_LOCKS_EXCLUDED(mutex_);

  // How often the script has struck.
  size_t lost_races() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t unknowns() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Task = absl::AnyInvocable<void() &&>;

  void Enqueue(Task request) ABSL_LOCKS_EXCLUDED(mutex_);
  void AnswerLater(Task answer) ABSL_LOCKS_EXCLUDED(mutex_);
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // A request in the order asked, or any answer that is due.
  Task TakeTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Draw(int percent) ABSL_LOCKS_EXCLUDED(mutex_);

  // On the engine's thread.
  std::vector<WriteOutcome> Apply(std::vector<GuardedWrite> writes);
  WriteOutcome ApplyOne(GuardedWrite write);
  void WriteAsAnotherReplica(const core::Key& key);

  const LateScript script_;
  MemoryEngine memory_;
  std::function<void(const core::Key&)> hint_;
  mutable absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  std::deque<Task> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<Task> answers_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  size_t lost_races_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t unknowns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_LATE_ENGINE_H_
