// Whether a RocksDB of ours is kept where it keeps what it acknowledges: the disk below it, the
// room on that, and what the store says of itself.
//
// Thread safety: pure functions, but for those of the file system.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_CHECK_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine_check.h"

namespace idempotency::keystore {

// What syncing costs where the store is.
struct SyncProbe {
  absl::Status status;
  // It failed for want of space, which says nothing of syncing.
  bool no_space = false;
  size_t syncs = 0;
  // Of all of them, to the millisecond.
  core::Duration took{0};
};

struct RocksDbCheckFacts {
  std::string data_dir;
  // As statfs(2) numbers it; unset: it does not say.
  std::optional<uint64_t> file_system;
  // The same of RocksDB's own directory below it.
  std::optional<uint64_t> store_file_system;
  SyncProbe sync;
  std::optional<uint64_t> free_bytes;
  uint64_t min_free_bytes = 0;
  // Zero: none is wanted.
  uint64_t ballast_bytes = 0;
  bool ballast_held = false;
  // Of the watermark, as of now.
  absl::Status watermark;
  // The write-ahead log is on the volume of the data directory; unset: it is not known.
  std::optional<bool> log_beside_data;
  bool alive = true;
  bool stalled = false;
  // Of flushes and compactions, since the store was opened.
  uint64_t background_errors = 0;
};

// A finding for each check.
std::vector<Finding> Judge(const RocksDbCheckFacts& facts);

// As statfs(2) numbers it.
std::optional<uint64_t> FileSystemOf(const std::string& path);
// Both are on one volume.
std::optional<bool> OnOneVolume(const std::string& a, const std::string& b);

// Writes a small file of its own in the directory and syncs it, kProbeSyncs times or until a second
// is over, and removes it.
inline constexpr size_t kProbeSyncs = 64;
SyncProbe ProbeSync(const std::string& directory, const std::function<core::Time()>& now);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_CHECK_H_
