// How RocksDB is set up: every option that differs from its default, and why.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_OPTIONS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_OPTIONS_H_

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "keystore/engine/log_ahead.h"
#include "keystore/engine/record_sealer.h"

namespace idempotency::keystore {

inline constexpr char kOpenFamilyName[] = "open";
inline constexpr char kFinishedFamilyName[] = "finished";

struct StoreTuning {
  size_t block_cache_bytes = 0;  // of all families together, index and filter blocks included
  size_t memtable_bytes = 0;     // of one family; up to three of them at a time
  bool disable_auto_compactions = false;
  std::shared_ptr<rocksdb::Logger> info_log;
  std::shared_ptr<rocksdb::EventListener> listener;
  std::shared_ptr<rocksdb::CompactionFilterFactory> expiry;
  rocksdb::Env* env = nullptr;  // null: RocksDB's own
  std::shared_ptr<const RecordSealer> sealer = std::make_shared<RecordSealer>();
  // Ids of keys that may be missing though records are sealed with them.
  std::vector<std::string> lost_keys = {};
  // Of the log of a store that is written to; at most a quarter of memtable_bytes, since a log is
  // left when a memtable is full.
  LogAheadOptions log_ahead = {};
};

rocksdb::DBOptions MakeDbOptions(const StoreTuning& tuning);

// Of every write of records: durable when it returns.
rocksdb::WriteOptions MakeWriteOptions();

// default (what the store says of itself), open, finished: in this order.
std::vector<rocksdb::ColumnFamilyDescriptor> MakeFamilies(const StoreTuning& tuning);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_OPTIONS_H_
