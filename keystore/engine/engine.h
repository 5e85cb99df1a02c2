// The one seam between decision and storage: batch-shaped, so that one sync or one round trip
// carries many operations. It speaks core records; how they become bytes is an engine's affair.
//
// Completions may run before the call returns (RocksDB, memory) or later on another thread
// (etcd, PostgreSQL). An engine calls each exactly once, also when it fails or is destroyed,
// and never while holding a lock of its own.
//
// Order of use by the key store, per lane:
//   Read(keys) -> step the commands -> Commit(writes, guarded by the versions read) -> reply
//
// Thread safety: every method may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/core/transition.h"
#include "keystore/engine/backup_values.h"
#include "keystore/engine/engine_check.h"

namespace idempotency::keystore {

// Names one stored state of one key. Never reused for the key, also not after it was erased
// and created again. 0: nothing is stored. An engine that is not exclusive names nothing, too,
// once it has erased the key: a write guarded by the absence that was there before must lose,
// however long it was on its way.
using Version = uint64_t;

struct ReadEntry {
  core::Stored stored;
  Version version = 0;
  // Not read, since what was read of the other keys is large: ask again. Never so of all keys.
  bool put_off = false;
};

struct ReadResult {
  // In the order of the keys asked for.
  std::vector<ReadEntry> entries;
  // Above every fencing token committed, for any key, before this read.
  uint64_t token_floor = 1;
};

struct GuardedWrite {
  core::Key key;
  // The version read; the write loses the race where something else is stored by now. An
  // exclusive engine need not check it outside debug and conformance builds.
  Version expected = 0;
  // Null erases the key.
  core::RecordPtr record;
};

enum class WriteOutcome : uint8_t {
  kCommitted,
  // Something else was stored since the read: nothing was written; read and step again.
  kLostRace,
  // It may have been written or not: read linearizably and step the same command again. It must
  // not take effect any more: what is answered after that read would be undone by it. From an
  // exclusive engine it is final: the engine is dead, and so is everything after it.
  kUnknown,
};

// Which records a scan visits. Strings are exact bytes.
struct ScanFilter {
  // Empty: every namespace (then scope and key_prefix must be empty).
  std::string name_space;
  // Unset: every scope.
  std::optional<std::string> scope;
  // Looked at inside the scope, or inside every scope where none is set.
  std::string key_prefix;
  // Only records stored as PENDING or UNRESOLVED.
  bool open_only = false;
};

struct ScanEntry {
  core::Key key;
  // Never Absent. As stored: the caller observes it.
  core::Stored stored;
};

struct ScanResult {
  std::vector<ScanEntry> entries;
  // Opaque: pass it back to go on behind the last entry. Empty: that was all. A page may be
  // empty and yet not the last. A record that changes during a scan over several pages is
  // seen at least once if it matched all along.
  std::string resume_key;
};

struct Traits {
  // The process is the only writer of the store: guards are not needed for correctness, and
  // kUnknown is final.
  bool exclusive = true;
  size_t max_batch_writes = 1024;
  size_t max_value_bytes = size_t{8} * 1024 * 1024;
  // How far the clocks of several replicas may be apart; zero where one process decides.
  core::Duration clock_skew{0};
  // When somebody last accepted that the store had lost records: of what was done before, it may
  // know nothing. Unset: never.
  core::Time lost_before;
};

// How the store stands; cheap enough to ask for every command.
struct Pressure {
  // False once a write has failed in a way that ends the engine: nothing is acknowledged any
  // more, and the process should exit and open the store again.
  bool alive = true;
  // Writes are being slowed down or stopped: do not add new keys now.
  bool stalled = false;
  // Little space is left: refuse new keys so that finishing verbs still land.
  bool full = false;
  // A server of the store has retired it (transfer/retirement.h): nothing but marks is written any
  // more, and what is read may be old. As was seen last, some seconds ago at most; a write that
  // comes before loses all the same.
  bool retired = false;
};

// How much is stored and done, for metrics. Zero where an engine has nothing to say.
struct StoreStats {
  uint64_t table_bytes = 0;     // in files
  uint64_t memtable_bytes = 0;  // not in files yet, but for the log
  uint64_t cache_bytes = 0;
  uint64_t estimated_keys = 0;
  uint64_t level0_files = 0;
  uint64_t pending_compaction_bytes = 0;
  uint64_t running_compactions = 0;
  uint64_t running_flushes = 0;
  uint64_t background_errors = 0;
  // Since the store was opened; compactions include flushes.
  double compaction_read_bytes = 0;
  double compaction_written_bytes = 0;
  double compaction_seconds = 0;
  double wal_written_bytes = 0;
  double stalled_seconds = 0;
  // There is a ballast file to give up; false also where none is asked for.
  bool ballast_held = false;
};

class Engine {
 public:
  using ReadDone = absl::AnyInvocable<void(absl::StatusOr<ReadResult>) &&>;
  using CommitDone = absl::AnyInvocable<void(std::vector<WriteOutcome>) &&>;
  using ScanDone = absl::AnyInvocable<void(absl::StatusOr<ScanResult>) &&>;

  virtual ~Engine() = default;

  // Linearizable. `keys` must be distinct. A key whose bytes cannot be read is Unreadable in
  // its entry and harms no other. UNAVAILABLE where the engine cannot answer. An engine that keeps
  // records as bytes puts keys off once it has read core::kMaxReadBytes.
  virtual void Read(std::vector<core::Key> keys, ReadDone done) = 0;

  // Writes each independently, each key at most once, at most max_batch_writes; calls `done`
  // with one outcome a write, in order, when the committed ones are durable.
  virtual void Commit(std::vector<GuardedWrite> writes, CommitDone done) = 0;

  // At most `limit` entries behind `resume_key` (empty: from the start). INVALID_ARGUMENT for
  // a resume key that is not one of this filter's.
  virtual void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) = 0;

  // Tells that another replica may have changed `key`. For speed only, never for truth; an
  // exclusive engine never calls it. Set once, before the first Read.
  virtual void OnForeignChange(std::function<void(const core::Key&)> hint) = 0;

  virtual Traits traits() const = 0;
  virtual Pressure pressure() const = 0;
  // Takes locks of the engine's own: not for every command.
  virtual StoreStats stats() const { return {}; }
  // About how many bytes the records of a namespace take, or of one scope of it: for quotas.
  // Nothing where the engine cannot say. Tens of microseconds: not for every command.
  virtual std::optional<uint64_t> StoredBytes(std::string_view name_space,
                                              std::optional<std::string_view> scope) const {
    return std::nullopt;
  }

  // Copies everything to a directory of backups, while reads and commits go on, and verifies the
  // copy. Blocks for as long as that takes: not for a thread that serves. One at a time. Errors as
  // in backup.h; UNIMPLEMENTED by an engine whose store is backed up by other means.
  virtual absl::StatusOr<VerifiedBackup> BackUp(const BackupOptions& options,
                                                const TellBackup& tell) {
    return absl::UnimplementedError("this engine has no backups of its own");
  }

  // Once it has returned OK, no write takes effect that another server of the store sends without
  // having seen that the store is retired, where it was before. UNAVAILABLE where nobody knows.
  // Blocks. By whoever has noted that the store is retired.
  virtual absl::Status FenceOthers() { return absl::OkStatus(); }

  // Looks at what the store is kept in, and says what is wrong with it. Changes nothing that is
  // stored. Blocks, for up to about ten seconds where what is asked does not answer: not for a
  // thread that serves. One at a time.
  virtual EngineCheck CheckStore();
};

inline EngineCheck Engine::CheckStore() {
  constexpr NamedCheck kUnknown("engine.check",
                                "Nobody knows whether this engine keeps what it says.");
  return {.findings = {kUnknown.NotChecked("this engine has no check of its own",
                                           "look at its own monitoring")}};
}

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_H_
