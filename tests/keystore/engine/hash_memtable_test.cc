// The memtable of record families against RocksDB's own: two stores that are written alike must
// read alike, whatever is asked, also by those who read an older state.
#include "keystore/engine/hash_memtable.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "keystore/engine/rocksdb_logger.h"
#include "tests/support/temp_directory.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kMemtableBytes = size_t{256} << 10;

class Store {
 public:
  Store(const std::string& path, bool hash) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = kMemtableBytes;
    options.info_log = std::make_shared<RocksDbLogger>([](int, std::string_view) {});
    options.allow_concurrent_memtable_write = false;
    if (hash) options.memtable_factory = NewHashMemtableFactory(kMemtableBytes);
    rocksdb::DB* db = nullptr;
    const rocksdb::Status opened = rocksdb::DB::Open(options, path, &db);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    db_.reset(db);
  }

  rocksdb::DB& operator*() { return *db_; }
  rocksdb::DB* operator->() { return db_.get(); }

 private:
  std::unique_ptr<rocksdb::DB> db_;
};

std::string Get(rocksdb::DB& db, const std::string& key, const rocksdb::Snapshot* snapshot) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  std::string value;
  const rocksdb::Status status = db.Get(options, key, &value);
  return status.ok() ? "=" + value : status.ToString();
}

// Forward from `from`, or backward from `from` on.
std::string Walk(rocksdb::DB& db, const std::string& from, bool forward,
                 const rocksdb::Snapshot* snapshot) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
  std::string seen;
  forward ? at->Seek(from) : at->SeekForPrev(from);
  while (at->Valid()) {
    seen += at->key().ToString() + "=" + at->value().ToString() + " ";
    forward ? at->Next() : at->Prev();
  }
  EXPECT_TRUE(at->status().ok()) << at->status().ToString();
  return seen;
}

// One that has nothing in common with the others but their neighbours.
std::string RandomKey(std::mt19937_64& random) {
  return std::string(random() % 3, 'p') + std::to_string(random() % 200) +
         std::string(random() % 2, '\0');
}

class Twins {
 public:
  void Write(std::mt19937_64& random) {
    const std::string key = RandomKey(random);
    const bool erase = random() % 4 == 0;
    const std::string value = std::to_string(++writes_) + std::string(random() % 300, 'v');
    for (Store* store : {&ours_, &theirs_}) {
      const rocksdb::Status status = erase ? (*store)->Delete(rocksdb::WriteOptions(), key)
                                           : (*store)->Put(rocksdb::WriteOptions(), key, value);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }

  void TakeSnapshot() { snapshots_.emplace_back(ours_->GetSnapshot(), theirs_->GetSnapshot()); }
  void ReleaseSnapshot() {
    if (snapshots_.empty()) return;
    ours_->ReleaseSnapshot(snapshots_.back().first);
    theirs_->ReleaseSnapshot(snapshots_.back().second);
    snapshots_.pop_back();
  }
  void Flush() {
    ASSERT_TRUE(ours_->Flush(rocksdb::FlushOptions()).ok());
    ASSERT_TRUE(theirs_->Flush(rocksdb::FlushOptions()).ok());
  }

  void Compare(std::mt19937_64& random) {
    std::pair<const rocksdb::Snapshot*, const rocksdb::Snapshot*> at{};
    if (!snapshots_.empty() && random() % 2 == 0) at = snapshots_[random() % snapshots_.size()];
    const std::string key = RandomKey(random);
    ASSERT_EQ(Get(*ours_, key, at.first), Get(*theirs_, key, at.second));
    if (random() % 20 != 0) return;
    const bool forward = random() % 2 == 0;
    ASSERT_EQ(Walk(*ours_, key, forward, at.first), Walk(*theirs_, key, forward, at.second));
  }

 private:
  TempDirectory directory_;
  Store ours_{directory_.path() + "/ours", true};
  Store theirs_{directory_.path() + "/theirs", false};
  std::vector<std::pair<const rocksdb::Snapshot*, const rocksdb::Snapshot*>> snapshots_;
  int writes_ = 0;

 public:
  ~Twins() {
    while (!snapshots_.empty()) ReleaseSnapshot();
  }
};

TEST(HashMemtableTest, ReadsAsASkipListDoesOverTenThousandRandomSteps) {
  constexpr unsigned kSeed = 20'261'129;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  Twins twins;
  for (int step = 0; step < 10'000 && !testing::Test::HasFatalFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const auto kind = random() % 1000;
    if (kind < 500) {
      twins.Write(random);
    } else if (kind < 503) {
      twins.Flush();
    } else if (kind < 520) {
      twins.TakeSnapshot();
    } else if (kind < 540) {
      twins.ReleaseSnapshot();
    } else {
      twins.Compare(random);
    }
  }
}

TEST(HashMemtableTest, IsReplayedFromTheLogAsItWasWritten) {
  TempDirectory directory;
  std::map<std::string, std::string> expected;
  std::mt19937_64 random(7);
  {
    Store store(directory.path(), true);
    for (int i = 0; i < 500; ++i) {
      const std::string key = RandomKey(random);
      expected[key] = std::to_string(i);
      ASSERT_TRUE(store->Put(rocksdb::WriteOptions(), key, expected[key]).ok());
    }
  }
  Store store(directory.path(), true);
  for (const auto& [key, value] : expected) EXPECT_EQ(Get(*store, key, nullptr), "=" + value);
}

TEST(HashMemtableTest, IsReadWhileItIsWritten) {
  constexpr int kKeys = 3000;
  TempDirectory directory;
  Store store(directory.path(), true);
  std::atomic<int> written{0};
  std::thread writer([&] {
    for (int i = 0; i < kKeys; ++i) {
      const rocksdb::Status status =
          store->Put(rocksdb::WriteOptions(), std::to_string(i), std::string(200, 'v'));
      EXPECT_TRUE(status.ok()) << status.ToString();
      written = i + 1;
    }
  });
  std::thread scanner([&] {
    while (written < kKeys) {
      const int before = written;
      int seen = 0;
      const std::unique_ptr<rocksdb::Iterator> at(store->NewIterator(rocksdb::ReadOptions()));
      for (at->SeekToFirst(); at->Valid(); at->Next()) ++seen;
      EXPECT_GE(seen, before);
    }
  });
  std::mt19937_64 random(1);
  while (written < kKeys) {
    const int below = written;
    if (below == 0) continue;
    const auto key = static_cast<int>(random() % static_cast<unsigned>(below));
    EXPECT_EQ(Get(*store, std::to_string(key), nullptr), "=" + std::string(200, 'v'));
  }
  writer.join();
  scanner.join();
}

}  // namespace
}  // namespace idempotency::keystore
