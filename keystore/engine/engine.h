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
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/core/transition.h"

namespace idempotency::keystore {

// Names one stored state of one key. Never reused for the key, also not after it was erased
// and created again. 0: nothing is stored.
using Version = uint64_t;

struct ReadEntry {
  core::Stored stored;
  Version version = 0;
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
  // It may have been written or not: read linearizably and step the same command again. From
  // an exclusive engine it is final: the engine is dead, and so is everything after it.
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
};

class Engine {
 public:
  using ReadDone = absl::AnyInvocable<void(absl::StatusOr<ReadResult>) &&>;
  using CommitDone = absl::AnyInvocable<void(std::vector<WriteOutcome>) &&>;
  using ScanDone = absl::AnyInvocable<void(absl::StatusOr<ScanResult>) &&>;

  virtual ~Engine() = default;

  // Linearizable. `keys` must be distinct. A key whose bytes cannot be read is Unreadable in
  // its entry and harms no other. UNAVAILABLE where the engine cannot answer.
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
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_H_
