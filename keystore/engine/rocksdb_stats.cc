#include "keystore/engine/rocksdb_stats.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "keystore/codec/key_codec.h"

namespace idempotency::keystore {
namespace {

using Properties = rocksdb::DB::Properties;
using Named = std::map<std::string, std::string>;

constexpr double kGibibyte = 1024.0 * 1024 * 1024;
constexpr double kMicrosecondsPerSecond = 1e6;

uint64_t Number(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, const std::string& property) {
  uint64_t value = 0;
  return db.GetIntProperty(family, property, &value) ? value : 0;
}

double Number(const Named& named, const std::string& name) {
  const auto found = named.find(name);
  double value = 0;
  return found != named.end() && absl::SimpleAtod(found->second, &value) ? value : 0;
}

void AddFamily(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, StoreStats* stats) {
  stats->table_bytes += Number(db, family, Properties::kTotalSstFilesSize);
  stats->memtable_bytes += Number(db, family, Properties::kCurSizeAllMemTables);
  stats->estimated_keys += Number(db, family, Properties::kEstimateNumKeys);
  stats->pending_compaction_bytes +=
      Number(db, family, Properties::kEstimatePendingCompactionBytes);
  stats->level0_files += Number(db, family, Properties::kNumFilesAtLevelPrefix + "0");
  Named named;
  if (!db.GetMapProperty(family, Properties::kCFStatsNoFileHistogram, &named) &&
      !db.GetMapProperty(family, Properties::kCFStats, &named)) {
    return;
  }
  stats->compaction_read_bytes += Number(named, "compaction.Sum.ReadGB") * kGibibyte;
  stats->compaction_written_bytes += Number(named, "compaction.Sum.WriteGB") * kGibibyte;
  stats->compaction_seconds += Number(named, "compaction.Sum.CompSec");
}

}  // namespace

StoreStats ReadStats(const RocksDbStore& store) {
  StoreStats stats;
  rocksdb::DB& db = store.db();
  for (const Family family : {Family::kOpen, Family::kFinished}) {
    AddFamily(db, store.family(family), &stats);
  }
  rocksdb::ColumnFamilyHandle* const open = store.family(Family::kOpen);
  // Of the whole store, or shared by the families.
  stats.cache_bytes = Number(db, open, Properties::kBlockCacheUsage);
  stats.running_compactions = Number(db, open, Properties::kNumRunningCompactions);
  stats.running_flushes = Number(db, open, Properties::kNumRunningFlushes);
  stats.background_errors = Number(db, open, Properties::kBackgroundErrors);
  Named named;
  if (db.GetMapProperty(Properties::kDBStats, &named)) {
    stats.wal_written_bytes = Number(named, "db.wal_bytes_written");
    stats.stalled_seconds = Number(named, "db.user_write_stall_micros") / kMicrosecondsPerSecond;
  }
  return stats;
}

uint64_t TableBytesOf(const RocksDbStore& store, std::string_view prefix) {
  const std::string end = PrefixEnd(prefix);
  const rocksdb::Range range({prefix.data(), prefix.size()}, end);
  rocksdb::SizeApproximationOptions options;
  options.include_files = true;
  options.include_memtables = false;
  uint64_t bytes = 0;
  for (const Family family : {Family::kOpen, Family::kFinished}) {
    uint64_t of_family = 0;
    const rocksdb::Status status =
        store.db().GetApproximateSizes(options, store.family(family), &range, 1, &of_family);
    if (status.ok()) bytes += of_family;
  }
  return bytes;
}

}  // namespace idempotency::keystore
