// A disk below the engine that fails when it is told to, and loses in a power cut whatever a real
// one may lose: bytes that were not synced, whole sectors of them in any order, and names that were
// made, changed or removed since their directory was synced.
//
// Its files are real ones, in place; a sync only notes what would be durable, so that thousands of
// cuts take minutes. RocksDB reaches it through env(); what the engine writes without RocksDB
// (own_calls.h) finds its way by itself.
//
// Thread safety: all methods may be called from any thread, but PowerFails.
#ifndef IDEMPOTENCY_TESTS_PROOF_CRASH_HOSTILE_DISK_H_
#define IDEMPOTENCY_TESTS_PROOF_CRASH_HOSTILE_DISK_H_

#include <rocksdb/env.h>
#include <rocksdb/io_status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tests/proof/sim/random.h"

namespace idempotency::proof {

class JudgedDisk;

enum class DiskCall : uint8_t {
  kCreate,
  kAppend,
  kOverwrite,
  kSync,
  kTruncate,
  kClose,
  kRename,
  kDelete,
  kSyncDirectory,
  kOpenForRead,
  kRead,
  kLookUp,  // sizes, lists, directories
};

// Whether a call changes the disk.
bool Changes(DiskCall call);

struct DiskVerdict {
  // Not OK: the call fails with this.
  rocksdb::IOStatus status;
  // kAppend, kOverwrite: half of the bytes are written all the same. kSync, kRename, kDelete: it
  // takes effect.
  bool half_done = false;
};
using DiskJudge = std::function<DiskVerdict(DiskCall call, const std::string& path)>;

class HostileDisk {
 public:
  // Everything below `directory` is on this disk. Removed names are kept there until they are gone
  // for good.
  explicit HostileDisk(const std::string& directory);
  ~HostileDisk();
  HostileDisk(const HostileDisk&) = delete;
  HostileDisk& operator=(const HostileDisk&) = delete;

  rocksdb::Env* env() { return env_.get(); }

  // Asked before every call, on any thread; empty: nothing fails.
  void SetJudge(DiskJudge judge);
  // From now on syncs of files whose names end in this do nothing, and say that they have.
  void LieAboutSyncs(const std::string& suffix);

  // What a power cut leaves, drawn from `random`. The store must be closed.
  void PowerFails(Random& random);

 private:
  class FileSystem;
  const std::string directory_;
  const std::shared_ptr<JudgedDisk> disk_;
  const std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_CRASH_HOSTILE_DISK_H_
