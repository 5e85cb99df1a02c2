// What durability and size rest on in RocksDB's options: a change of one of these is a decision.
#include "keystore/engine/rocksdb_options.h"

#include <gtest/gtest.h>
#include <rocksdb/cache.h>
#include <rocksdb/table.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keystore/engine/expiry_filter.h"
#include "keystore/engine/rocksdb_logger.h"
#include "keystore/engine/store_health.h"
#include "tests/keystore/engine/records.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kBlockCacheBytes = size_t{3} << 20;
constexpr size_t kMemtableBytes = size_t{5} << 20;

void Ignore(int, std::string_view) {}

class RocksDbOptionsTest : public ::testing::Test {
 protected:
  const StoreTuning tuning_{
      .block_cache_bytes = kBlockCacheBytes,
      .memtable_bytes = kMemtableBytes,
      .info_log = std::make_shared<RocksDbLogger>(&Ignore),
      .listener = std::make_shared<StoreHealth>(&Ignore),
      .expiry = std::make_shared<ExpiryFilterFactory>([] { return core::At(kStart); },
                                                      [](std::string_view) { return true; })};
  const rocksdb::DBOptions db_ = MakeDbOptions(tuning_);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families_ = MakeFamilies(tuning_);
};

const rocksdb::BlockBasedTableOptions& TableOf(const rocksdb::ColumnFamilyDescriptor& family) {
  const auto* table = family.options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  EXPECT_NE(table, nullptr) << family.name;
  return *table;
}

TEST_F(RocksDbOptionsTest, AWriteIsInTheSyncedLogWhenItReturns) {
  const rocksdb::WriteOptions write = MakeWriteOptions();
  EXPECT_TRUE(write.sync);
  EXPECT_FALSE(write.disableWAL);
  EXPECT_FALSE(db_.manual_wal_flush);
  EXPECT_FALSE(db_.unordered_write);
}

TEST_F(RocksDbOptionsTest, DamageIsLookedForAndNoErrorIsRepairedBehindOurBack) {
  EXPECT_TRUE(db_.paranoid_checks);
  EXPECT_TRUE(db_.track_and_verify_wals_in_manifest);
  EXPECT_EQ(db_.wal_recovery_mode, rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords);
  EXPECT_EQ(db_.max_bgerror_resume_count, 0);
}

TEST_F(RocksDbOptionsTest, WhatRocksDbSaysReachesOurLogAndHealth) {
  EXPECT_EQ(db_.info_log, tuning_.info_log);
  ASSERT_FALSE(db_.listeners.empty());
  EXPECT_EQ(db_.listeners[0], tuning_.listener);
}

TEST_F(RocksDbOptionsTest, TheFamiliesComeInTheOrderInWhichTheStoreTakesTheirHandles) {
  ASSERT_EQ(families_.size(), 3u);
  EXPECT_EQ(families_[0].name, rocksdb::kDefaultColumnFamilyName);
  EXPECT_EQ(families_[1].name, kOpenFamilyName);
  EXPECT_EQ(families_[2].name, kFinishedFamilyName);
}

TEST_F(RocksDbOptionsTest, RecordsAreInLz4AndAtTheBottomInZstd) {
  for (size_t i : {1, 2}) {
    SCOPED_TRACE(families_[i].name);
    EXPECT_EQ(families_[i].options.compression, rocksdb::kLZ4Compression);
    EXPECT_EQ(families_[i].options.bottommost_compression, rocksdb::kZSTD);
  }
}

TEST_F(RocksDbOptionsTest, AbsentKeysAreToldByBloomFiltersOverWholeKeys) {
  for (size_t i : {1, 2}) {
    SCOPED_TRACE(families_[i].name);
    EXPECT_TRUE(TableOf(families_[i]).whole_key_filtering);
    EXPECT_NE(TableOf(families_[i]).filter_policy, nullptr);
  }
}

TEST_F(RocksDbOptionsTest, RecordsAreWrittenToHashMemtablesOneWriterAtATime) {
  for (size_t i : {1, 2}) {
    EXPECT_STREQ(families_[i].options.memtable_factory->Name(), "HashMemtableFactory");
  }
  EXPECT_FALSE(MakeDbOptions(tuning_).allow_concurrent_memtable_write);
}

TEST_F(RocksDbOptionsTest, OnlyFinishedRecordsAreExpiredByCompaction) {
  for (size_t i : {0, 1}) {
    SCOPED_TRACE(families_[i].name);
    EXPECT_EQ(families_[i].options.compaction_filter_factory, nullptr);
    EXPECT_EQ(families_[i].options.compaction_filter, nullptr);
  }
  EXPECT_EQ(families_[2].options.compaction_filter_factory, tuning_.expiry);
  EXPECT_EQ(families_[2].options.periodic_compaction_seconds, 24u * 60 * 60);
  EXPECT_FALSE(families_[2].options.disable_auto_compactions);
}

TEST_F(RocksDbOptionsTest, MemoryIsBoundedByWhatIsGiven) {
  for (size_t i : {1, 2}) {
    SCOPED_TRACE(families_[i].name);
    EXPECT_EQ(families_[i].options.write_buffer_size, kMemtableBytes);
    EXPECT_EQ(families_[i].options.max_write_buffer_number, 3);
  }
  const auto& cache = TableOf(families_[0]).block_cache;
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(cache->GetCapacity(), kBlockCacheBytes);
  // One for all.
  for (size_t i : {1, 2}) {
    SCOPED_TRACE(families_[i].name);
    EXPECT_EQ(TableOf(families_[i]).block_cache, cache);
    EXPECT_TRUE(TableOf(families_[i]).cache_index_and_filter_blocks);
  }
}

}  // namespace
}  // namespace idempotency::keystore
