// Flushes and compactions run at a lower priority than the threads that commit.
#include "keystore/engine/background_priority.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "tests/support/temp_directory.h"

namespace idempotency::keystore {
namespace {

int NiceOfThisThread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

// Sees the thread after BackgroundPriority, which is named before it.
class Witness final : public rocksdb::EventListener {
 public:
  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override {
    flush = NiceOfThisThread();
  }
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    compaction = NiceOfThisThread();
  }

  std::atomic<int> flush{0};
  std::atomic<int> compaction{0};
};

TEST(BackgroundPriorityTest, FlushesAndCompactionsGiveWayToCommits) {
  const TempDirectory directory;
  const auto witness = std::make_shared<Witness>();
  rocksdb::Options options;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.listeners = {std::make_shared<BackgroundPriority>(), witness};
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, directory.path() + "/db", &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  const int own = NiceOfThisThread();
  for (const char* value : {"1", "2"}) {
    ASSERT_TRUE(db->Put({}, "k", value).ok());
    ASSERT_TRUE(db->Flush({}).ok());
    EXPECT_EQ(witness->flush, std::min(own + kFlushNice, 19))
        << "each time, and not lower each time";
  }
  ASSERT_TRUE(db->CompactRange({}, nullptr, nullptr).ok());
  EXPECT_EQ(witness->compaction, std::min(own + kCompactionNice, 19));
  EXPECT_EQ(NiceOfThisThread(), own);
}

}  // namespace
}  // namespace idempotency::keystore
