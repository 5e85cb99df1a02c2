// Opens the engine that --engine names.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_OPEN_ENGINE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_OPEN_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine.h"

namespace idempotency::keystore {

struct EngineOptions {
  // "rocksdb" or "memory".
  std::string engine = "rocksdb";
  // RocksDB: the directory that holds the store; created if its parent exists.
  std::string data_dir;
  size_t block_cache_bytes = size_t{256} * 1024 * 1024;
  size_t memtable_bytes = size_t{64} * 1024 * 1024;  // of one family
  // Deleted when the disk is full, so that finishing verbs still land. Zero: none.
  size_t ballast_bytes = size_t{64} * 1024 * 1024;
  // RocksDB: how many zeros are written in front of the log, so that the sync of a commit changes
  // no size of a file (log_ahead.h). Zero: none.
  size_t log_ahead_bytes = 0;
  // New keys are refused while less than this is free on the volume of data_dir.
  size_t min_free_bytes = size_t{128} * 1024 * 1024;
  // The run after which the store has lost records, as the refusal to open it names it: open it
  // all the same. Zero, or any other run: no loss is accepted.
  uint64_t accept_loss = 0;
  // RocksDB: the directory of the keys that responses and progress are sealed with (key_ring.h).
  // Empty: they are stored as they are.
  std::string response_keys;
  // Ids of keys that are lost for good: what was sealed with them cannot be read, and everything
  // else of those records can.
  std::vector<std::string> lost_response_keys;
  // What is sealed with any other key that is missing counts as a record that cannot be read, and
  // not as one whose response was omitted: for whoever must not take the one for the other.
  bool demand_response_keys = false;
  // Fills the bytes with what nobody can guess; from any thread. Needed where there are keys.
  std::function<void(char* bytes, size_t size)> random_bytes;
  // The guarded clock, for the compaction filter. Must outlive the engine.
  std::function<core::Now()> now;
  // Whether expired records of a namespace may be given up. Unset: all may.
  std::function<bool(std::string_view name_space)> may_reclaim;
  // Of an answer that is larger than the engine takes, what it is to keep: all but the body, which
  // only whoever makes answers can tell from the rest. From any thread. Unset: nothing is kept.
  std::function<core::Response(const core::Response& answer)> without_body;
  // Told when an answer was stored without its body, since the engine takes none so large; from any
  // thread. Must not block. Unset: nobody is told.
  std::function<void(std::string_view name_space)> on_body_omitted;
  // Receives RocksDB's own log lines and ours: level 0 debug .. 3 error. Must not block.
  std::function<void(int level, std::string_view line)> log;
};

// INVALID_ARGUMENT for an unknown engine or a bad option; FAILED_PRECONDITION where the
// directory is in use or is not a store of ours, or the store is gone, or a key is missing or no
// key; DATA_LOSS where it is damaged or has lost records (store_check.h);
// UNAVAILABLE for I/O errors. The message says what to do next.
absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(EngineOptions options);

struct RewrapProgress {
  uint64_t visited = 0;    // records looked at
  uint64_t rewrapped = 0;  // of those, sealed anew, or made plain where no key is current
  // Left as they are: their key is missing; damaged.
  uint64_t key_missing = 0;
  uint64_t unreadable = 0;
  uint64_t estimated = 0;  // how many records there are, roughly
};

// Seals everything of a RocksDB that nobody has open with the current key, and compacts it, so
// that older keys are needed no more; with no current key, makes it plain. Tells how far it is
// every kRewrapTold records. Interrupted it may be begun again. Errors as OpenEngine's.
inline constexpr uint64_t kRewrapTold = 10'000;
absl::StatusOr<RewrapProgress> RewrapStore(EngineOptions options,
                                           const std::function<void(const RewrapProgress&)>& tell);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_OPEN_ENGINE_H_
