// An engine over a map that does what a test tells it: answer at once or when released, on the
// releasing thread; lose races, not know what became of a write, fail reads, be under pressure.
//
//   FakeEngine engine(Replicated());
//   engine.Hold(FakeEngine::Call::kCommit);
//   store.Submit(...);                          // its commit is held: no answer yet
//   engine.NextWrites({FakeEngine::Fate::kUnknownWritten});
//   engine.ReleaseAll();                        // written, reported unknown, stepped again
//
// A held call takes effect when it is released. Every guard is checked, in every mode; every
// record that is written must keep the rules of core/invariants.h, and the tokens of a key must
// rise, each for one attempt.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_SHELL_FAKE_ENGINE_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_SHELL_FAKE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/record.h"
#include "keystore/core/transition.h"
#include "keystore/engine/engine.h"

namespace idempotency::keystore {

// One of several replicas that write to the store: what is unknown can be asked again.
inline Traits Replicated() { return Traits{.exclusive = false}; }

class FakeEngine final : public Engine {
 public:
  enum class Call : uint8_t { kRead, kCommit, kScan };

  // What becomes of a write that its guard lets through.
  enum class Fate : uint8_t { kCommit, kLoseRace, kUnknownWritten, kUnknownNotWritten };

  explicit FakeEngine(Traits traits = {}) : traits_(traits) {}
  // Nothing may be held any more.
  ~FakeEngine() override;

  void Read(std::vector<core::Key> keys, ReadDone done) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Commit(std::vector<GuardedWrite> writes, CommitDone done) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnForeignChange(std::function<void(const core::Key&)> hint) override;
  Traits traits() const override { return traits_; }
  Pressure pressure() const override ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Holding -----------------------------------------------------------------------------
  // Calls of this kind wait, from now on, until they are released.
  void Hold(Call call) ABSL_LOCKS_EXCLUDED(mutex_);
  // They do not any more; those held stay held.
  void HoldNoMore() ABSL_LOCKS_EXCLUDED(mutex_);
  size_t held() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until so many calls are held.
  void AwaitHeld(size_t count) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Does the oldest held call, its completion included. There must be one.
  void ReleaseOne() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same until nothing is held, calls begun meanwhile included.
  void ReleaseAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // Releases whatever is held, as it comes, until Stop.
  void ReleaseUntilStopped() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Trouble -----------------------------------------------------------------------------
  // The fates of the next writes, one by one; after them every write is committed.
  void NextWrites(std::vector<Fate> fates) ABSL_LOCKS_EXCLUDED(mutex_);
  // Asked for each write that has no fate yet; called under the engine's lock.
  void ChooseFates(std::function<Fate()> choose) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called once, right before the next commit takes effect.
  void BeforeNextCommit(std::function<void()> hook) ABSL_LOCKS_EXCLUDED(mutex_);
  void FailNextReads(size_t count) ABSL_LOCKS_EXCLUDED(mutex_);
  void FailNextScans(size_t count) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetPressure(Pressure pressure) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called whenever the pressure is asked for.
  void OnPressure(std::function<void()> hook) ABSL_LOCKS_EXCLUDED(mutex_);
  // Another replica says that it changed this key.
  void TellForeignChange(const core::Key& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // A page ends after this many visited keys, matching or not.
  void LimitVisits(size_t visits) ABSL_LOCKS_EXCLUDED(mutex_);
  // A read puts off all keys but the first so many.
  void LimitReads(size_t keys) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- What is stored ----------------------------------------------------------------------
  void Put(const core::Key& key, core::Stored stored) ABSL_LOCKS_EXCLUDED(mutex_);
  core::Stored At(const core::Key& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

  // How many keys each read, and how many writes each commit had, in order.
  std::vector<size_t> reads() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<size_t> commits() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t scans() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    core::Stored stored;
    Version version = 0;
  };
  using Work = absl::AnyInvocable<void() &&>;

  void Do(Call call, Work work) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ReadResult> ReadNow(const std::vector<core::Key>& keys)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<WriteOutcome> CommitNow(const std::vector<GuardedWrite>& writes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ScanResult> ScanNow(const ScanFilter& filter, size_t limit,
                                     const std::string& resume_key) ABSL_LOCKS_EXCLUDED(mutex_);
  WriteOutcome Write(const GuardedWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Store(const GuardedWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Fate NextFate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Traits traits_;
  mutable absl::Mutex mutex_;
  std::map<core::Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  Version last_version_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t token_floor_ ABSL_GUARDED_BY(mutex_) = 1;
  // The newest token of each key, and the attempt that it was given to; also of erased keys.
  std::map<core::Key, std::pair<uint64_t, core::Digest>> newest_ ABSL_GUARDED_BY(mutex_);
  Pressure pressure_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_pressure_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const core::Key&)> hint_ ABSL_GUARDED_BY(mutex_);
  std::set<Call> holds_ ABSL_GUARDED_BY(mutex_);
  std::deque<Work> held_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Fate> fates_ ABSL_GUARDED_BY(mutex_);
  std::function<Fate()> choose_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> before_commit_ ABSL_GUARDED_BY(mutex_);
  size_t failing_reads_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t failing_scans_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t max_visits_ ABSL_GUARDED_BY(mutex_) = SIZE_MAX;
  size_t max_read_ ABSL_GUARDED_BY(mutex_) = SIZE_MAX;
  std::vector<size_t> reads_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> commits_ ABSL_GUARDED_BY(mutex_);
  size_t scans_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_SHELL_FAKE_ENGINE_H_
