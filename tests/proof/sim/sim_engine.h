// The engine of one simulated replica, over the disk that all share. Exclusive: as RocksDB, where
// the replica is the only writer, a failed sync is the end, and a crash takes back what was not
// synced. Not exclusive: as etcd, where every write is guarded, races are lost, and a write that
// timed out may have happened or not. One whose asker has died may still come.
//
// Calls are completed before they return or stand in `pending` until the scheduler completes
// them, in any order.
//
// Thread safety: none; one history is one thread's.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_SIM_ENGINE_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_SIM_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "keystore/engine/engine.h"
#include "tests/proof/sim/disk.h"
#include "tests/proof/sim/history.h"
#include "tests/proof/sim/mistakes.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof {

// How far a compaction stays behind the clock, as in the product's filter.
inline constexpr core::Duration kFilterMargin = std::chrono::hours(1);

// How the engines of one history behave.
struct EngineManners {
  int late_percent = 0;          // of calls that are completed later
  int unknown_percent = 0;       // of guarded writes that time out
  int read_error_percent = 0;    // of reads that cannot be answered
  int sync_failure_percent = 0;  // of exclusive commits
  EngineMistake mistake = EngineMistake::kNone;
};

class SimEngine final : public keystore::Engine {
 public:
  // All must outlive it.
  SimEngine(History* history, SimDisk* disk, Random* random, size_t replica,
            const EngineManners* manners);

  void Read(std::vector<core::Key> keys, ReadDone done) override;
  void Commit(std::vector<keystore::GuardedWrite> writes, CommitDone done) override;
  void Scan(keystore::ScanFilter filter, size_t limit, std::string resume_key,
            ScanDone done) override;
  void OnForeignChange(std::function<void(const core::Key&)> hint) override;
  keystore::Traits traits() const override;
  keystore::Pressure pressure() const override { return pressure_; }

  size_t pending() const { return pending_.size(); }
  void CompleteOne();
  // Completes calls before they return from now on, and all that stand in pending.
  void StopBeingLate();
  // The process is gone: whatever it asks for fails, and what it had asked for is never told.
  void Vanish();

  void SetPressure(bool stalled, bool full);
  void Hint(size_t key);
  // A compaction, at a moment that `now` was told.
  void Compact(const core::Now& now);

 private:
  using Task = absl::AnyInvocable<void() &&>;

  bool Late();
  size_t IndexOf(const core::Key& key) const;
  keystore::ReadEntry ReadOne(size_t key) const;
  absl::StatusOr<keystore::ReadResult> ReadAll(const std::vector<core::Key>& keys);
  std::vector<AskedWrite> Asked(std::vector<keystore::GuardedWrite> writes) const;
  void Apply(std::vector<AskedWrite>& writes);
  std::vector<keystore::WriteOutcome> Finish(size_t writes);
  std::vector<keystore::WriteOutcome> ApplyGuarded(std::vector<AskedWrite> writes);
  keystore::WriteOutcome ApplyOne(AskedWrite write);
  keystore::WriteOutcome TimeOut(AskedWrite write);
  void CommitExclusive(std::vector<AskedWrite> writes, CommitDone done);

  History* const history_;
  SimDisk* const disk_;
  Random* const random_;
  const size_t replica_;
  const EngineManners* const manners_;
  const uint64_t first_floor_;
  keystore::Pressure pressure_;
  std::function<void(const core::Key&)> hint_;
  std::vector<Task> pending_;
  bool never_late_ = false;
  bool gone_ = false;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_SIM_ENGINE_H_
