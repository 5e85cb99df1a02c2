// The embedded engine: one RocksDB in one directory, written by this process alone.
//
//   default     format_version
//   open        records stored as PENDING or UNRESOLVED; no compaction filter
//   finished    records stored as COMPLETE, EXPIRED or FREED; expiry_filter.h gives back space
//
// A Commit is one synced WriteBatch: all of it is durable, or the engine dies. A write that
// moves a key to the other family removes it from the first in the same batch. Everything that
// fails while it writes (RocksDB, the epoch files) and every record that breaks a rule of
// core/invariants.h ends the engine for good: all writes of that Commit are kUnknown, and
// later ones and reads are refused until the process has opened the store again.
//
// A key that is damaged in RocksDB, or whose bytes cannot be decoded, is Unreadable; any other
// read error is UNAVAILABLE and ends nothing. A damaged block ends a Scan with DATA_LOSS.
//
// Every call completes before it returns.
//
// Thread safety: all methods may be called from any thread. No lock is held across I/O, but
// where guards are checked.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_ENGINE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/open_engine.h"
#include "keystore/engine/throttle.h"
#include "keystore/engine/watermark.h"

namespace rocksdb {
class Env;
class WriteBatch;
}  // namespace rocksdb

namespace idempotency::keystore {

class Ballast;
class DataDirectory;
class RocksDbStore;
class SpaceWatch;
class StoreHealth;
class TokenCeiling;
class WatermarkKeeper;

#ifdef NDEBUG
inline constexpr bool kCheckGuardsByDefault = false;
#else
inline constexpr bool kCheckGuardsByDefault = true;
#endif

struct RocksDbOptions {
  EngineOptions engine;
  // Read before every write whether the guard holds, one Commit at a time. The key store's
  // lanes are the only writers and do not need it.
  bool check_guards = kCheckGuardsByDefault;

  // For tests: faults below RocksDB, expiry without compaction, a volume that runs full.
  rocksdb::Env* env = nullptr;  // must outlive the engine
  bool disable_auto_compactions = false;
  std::function<std::optional<uint64_t>()> free_bytes;
  // Zero: the watermark is stored after flushes, and where SyncWatermark says so.
  core::Duration watermark_interval = kWatermarkInterval;
};

class RocksDbEngine final : public Engine {
 public:
  // Errors as OpenEngine's.
  static absl::StatusOr<std::unique_ptr<RocksDbEngine>> Open(RocksDbOptions options);
  // Flushes, so that the next opening has nothing to replay.
  ~RocksDbEngine() override;

  void Read(std::vector<core::Key> keys, ReadDone done) override;
  void Commit(std::vector<GuardedWrite> writes, CommitDone done) override;
  void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) override;
  void OnForeignChange(std::function<void(const core::Key&)>) override {}
  Traits traits() const override { return Traits{.lost_before = lost_before_}; }
  // Looks again, at most as often as reads and writes do, while something is wrong.
  Pressure pressure() const override;
  StoreStats stats() const override;
  std::optional<uint64_t> StoredBytes(std::string_view name_space,
                                      std::optional<std::string_view> scope) const override;
  absl::StatusOr<VerifiedBackup> BackUp(const BackupOptions& options,
                                        const TellBackup& tell) override;
  EngineCheck CheckStore() override;

  // Stores the watermark as of now.
  absl::Status SyncWatermark();
  // As RewrapStore. Nobody may use the engine meanwhile.
  absl::StatusOr<RewrapProgress> Rewrap(const std::function<void(const RewrapProgress&)>& tell);
  // Compacts everything now, and returns when that is done.
  absl::Status Compact();

 private:
  struct Parts;
  explicit RocksDbEngine(RocksDbOptions options, Parts parts);

  absl::StatusOr<ReadResult> ReadNow(const std::vector<core::Key>& keys);
  absl::StatusOr<ScanResult> ScanNow(ScanFilter filter, size_t limit,
                                     const std::string& resume_key);
  std::vector<WriteOutcome> CommitChecked(const std::vector<GuardedWrite>& writes)
      ABSL_LOCKS_EXCLUDED(guards_mutex_);
  // Writes those whose outcome is kCommitted so far.
  std::vector<WriteOutcome> CommitThose(const std::vector<GuardedWrite>& writes,
                                        std::vector<WriteOutcome> outcomes);
  absl::Status FillBatch(const std::vector<GuardedWrite>& writes,
                         const std::vector<WriteOutcome>& outcomes, rocksdb::WriteBatch& batch);
  absl::Status AddToBatch(const GuardedWrite& write, uint64_t commit_number,
                          rocksdb::WriteBatch& batch);
  absl::Status WriteBatchDurably(rocksdb::WriteBatch& batch);
  // Looks at space and stalls once a second, and at stalls after every hint of one.
  void LookAround() const;

  const RocksDbOptions options_;
  // In the order in which they depend on each other.
  const std::unique_ptr<DataDirectory> directory_;
  const std::unique_ptr<Ballast> ballast_;
  const std::unique_ptr<SpaceWatch> space_;
  const std::unique_ptr<TokenCeiling> tokens_;
  const std::shared_ptr<StoreHealth> health_;
  const core::Time lost_before_;
  const std::unique_ptr<RocksDbStore> store_;
  const std::shared_ptr<WatermarkKeeper> watermark_;
  std::atomic<uint64_t> last_commit_number_;
  mutable Throttle look_around_;
  absl::Mutex guards_mutex_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_ENGINE_H_
