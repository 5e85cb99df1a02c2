#include "keystore/engine/rocksdb_options.h"

#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "keystore/engine/background_priority.h"
#include "keystore/engine/hash_memtable.h"

namespace idempotency::keystore {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// Two families at most fill theirs while a third of each is being flushed.
constexpr int kMemtables = 3;
constexpr size_t kDefaultFamilyMemtableBytes = size_t{1} << 20;
constexpr size_t kBlockBytes = size_t{16} * 1024;
constexpr double kBloomBitsPerKey = 10;
constexpr uint32_t kDictionaryBytes = 16 * 1024;
constexpr uint32_t kDictionaryTrainingBytes = 100 * kDictionaryBytes;
constexpr uint64_t kDictionaryBufferBytes = uint64_t{8} << 20;
// A file that no write stirs is compacted after this, so that what has expired in it goes.
constexpr seconds kPeriodicCompaction = hours(24);

rocksdb::BlockBasedTableOptions MakeTableOptions(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  // Bounds what index and filters take.
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.block_size = kBlockBytes;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBitsPerKey));
  table.whole_key_filtering = true;
  return table;
}

void SetCompression(rocksdb::ColumnFamilyOptions& family) {
  family.compression = rocksdb::kLZ4Compression;
  // Records of one namespace resemble each other more than anything inside one of them does.
  family.bottommost_compression = rocksdb::kZSTD;
  family.bottommost_compression_opts.enabled = true;
  family.bottommost_compression_opts.max_dict_bytes = kDictionaryBytes;
  family.bottommost_compression_opts.zstd_max_train_bytes = kDictionaryTrainingBytes;
  family.bottommost_compression_opts.max_dict_buffer_bytes = kDictionaryBufferBytes;
}

rocksdb::ColumnFamilyOptions MakeRecordFamily(const StoreTuning& tuning,
                                              const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions family;
  family.write_buffer_size = tuning.memtable_bytes;
  family.max_write_buffer_number = kMemtables;
  family.memtable_factory = NewHashMemtableFactory(tuning.memtable_bytes);
  family.level_compaction_dynamic_level_bytes = true;
  family.disable_auto_compactions = tuning.disable_auto_compactions;
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(MakeTableOptions(cache)));
  SetCompression(family);
  return family;
}

}  // namespace

rocksdb::DBOptions MakeDbOptions(const StoreTuning& tuning) {
  rocksdb::DBOptions options;
  options.info_log = tuning.info_log;
  options.listeners.push_back(tuning.listener);
  options.listeners.push_back(std::make_shared<BackgroundPriority>());
  if (tuning.env != nullptr) options.env = tuning.env;
  options.paranoid_checks = true;
  // A WAL that was synced and closed must be there with its size when the store is opened.
  options.track_and_verify_wals_in_manifest = true;
  // After a crash the last batch may be cut, and it was not acknowledged. Damage before the
  // tail is refused. AbsoluteConsistency would refuse every crash, too.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Nothing is acknowledged after an error until the store has been opened again.
  options.max_bgerror_resume_count = 0;
  options.manual_wal_flush = false;
  options.unordered_write = false;
  // Lanes write one batch at a time; hash memtables take one writer.
  options.allow_concurrent_memtable_write = false;
  options.max_total_wal_size = 4 * tuning.memtable_bytes;
  options.bytes_per_sync = uint64_t{1} << 20;
  options.max_open_files = 512;
  // Statistics go out as metrics, not as lines.
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

rocksdb::WriteOptions MakeWriteOptions() {
  rocksdb::WriteOptions options;
  options.sync = true;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> MakeFamilies(const StoreTuning& tuning) {
  const std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(tuning.block_cache_bytes);
  rocksdb::ColumnFamilyOptions meta;
  meta.write_buffer_size = kDefaultFamilyMemtableBytes;
  meta.disable_auto_compactions = true;  // one key
  meta.table_factory.reset(rocksdb::NewBlockBasedTableFactory(MakeTableOptions(cache)));
  rocksdb::ColumnFamilyOptions open = MakeRecordFamily(tuning, cache);
  rocksdb::ColumnFamilyOptions finished = MakeRecordFamily(tuning, cache);
  finished.compaction_filter_factory = tuning.expiry;
  finished.periodic_compaction_seconds = static_cast<uint64_t>(kPeriodicCompaction.count());
  return {{rocksdb::kDefaultColumnFamilyName, meta},
          {kOpenFamilyName, open},
          {kFinishedFamilyName, finished}};
}

}  // namespace idempotency::keystore
