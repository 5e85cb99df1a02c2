// Opens the engine that --engine names.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_OPEN_ENGINE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_OPEN_ENGINE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
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
  // New keys are refused while less than this is free on the volume of data_dir.
  size_t min_free_bytes = size_t{128} * 1024 * 1024;
  // The guarded clock, for the compaction filter. Must outlive the engine.
  std::function<core::Now()> now;
  // Whether expired records of a namespace may be given up. Unset: all may.
  std::function<bool(std::string_view name_space)> may_reclaim;
  // Receives RocksDB's own log lines and ours: level 0 debug .. 3 error. Must not block.
  std::function<void(int level, std::string_view line)> log;
};

// INVALID_ARGUMENT for an unknown engine or a bad option; FAILED_PRECONDITION where the
// directory is in use or is not a store of ours; DATA_LOSS where the store is damaged;
// UNAVAILABLE for I/O errors. The message says what to do next.
absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(EngineOptions options);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_OPEN_ENGINE_H_
