// The zeros in front of the log: that they are there, that they are never in anybody's way, and
// that a store opens whatever a crash leaves of them.
#include "keystore/engine/log_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "keystore/engine/rocksdb_logger.h"
#include "keystore/engine/rocksdb_store.h"
#include "keystore/engine/store_health.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"
#include "tests/support/becomes_true.h"
#include "tests/support/copy_directory.h"
#include "tests/support/temp_directory.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;
using ::testing::HasSubstr;

constexpr uint64_t kAhead = uint64_t{64} * 1024;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool AllZero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == '\0'; });
}

// --- The file
// --------------------------------------------------------------------------------------

// Asked before each call of the second handle, on the thread that makes the zeros.
struct Hooks {
  std::function<IOStatus()> on_open = [] { return IOStatus::OK(); };
  std::function<IOStatus()> on_write = [] { return IOStatus::OK(); };
  std::function<IOStatus()> on_sync = [] { return IOStatus::OK(); };
};

class HookedFile final : public rocksdb::FSRandomRWFileOwnerWrapper {
 public:
  HookedFile(std::unique_ptr<rocksdb::FSRandomRWFile> file, const Hooks& hooks)
      : FSRandomRWFileOwnerWrapper(std::move(file)), hooks_(hooks) {}
  IOStatus Write(uint64_t offset, const Slice& data, const IOOptions& options,
                 IODebugContext* debug) override {
    IOStatus status = hooks_.on_write();
    if (!status.ok()) return status;
    return FSRandomRWFileOwnerWrapper::Write(offset, data, options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = hooks_.on_sync();
    return status.ok() ? FSRandomRWFileOwnerWrapper::Sync(options, debug) : status;
  }

 private:
  const Hooks& hooks_;
};

class HookedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit HookedFileSystem(const Hooks& hooks)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), hooks_(hooks) {}
  const char* Name() const override { return "HookedFileSystem"; }
  IOStatus NewRandomRWFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                           IODebugContext* debug) override {
    IOStatus status = hooks_.on_open();
    if (status.ok()) status = FileSystemWrapper::NewRandomRWFile(path, options, file, debug);
    if (status.ok()) *file = std::make_unique<HookedFile>(std::move(*file), hooks_);
    return status;
  }

 private:
  const Hooks& hooks_;
};

class LogAheadTest : public ::testing::Test {
 protected:
  void Start() {
    below_ = rocksdb::NewCompositeEnv(std::make_shared<HookedFileSystem>(hooks_));
    options_.log = [this](int level, std::string_view line) { said_.Log(level, line); };
    ahead_ = std::make_unique<LogAhead>(below_.get(), options_);
  }
  std::unique_ptr<rocksdb::FSWritableFile> Create(const std::string& name) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    const IOStatus status = ahead_->env()->GetFileSystem()->NewWritableFile(
        directory_.file(name), rocksdb::FileOptions(), &file, nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return file;
  }
  static void Append(rocksdb::FSWritableFile& file, const std::string& bytes) {
    const IOStatus status = file.Append(bytes, IOOptions(), nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  static void Sync(rocksdb::FSWritableFile& file) {
    const IOStatus status = file.Sync(IOOptions(), nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  static void Close(rocksdb::FSWritableFile& file) {
    const IOStatus status = file.Close(IOOptions(), nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  uint64_t SizeOf(const std::string& name) const { return fs::file_size(directory_.file(name)); }

  const TempDirectory directory_;
  Hooks hooks_;
  Surroundings said_;
  LogAheadOptions options_{.bytes = kAhead, .has_room = nullptr, .log = nullptr};
  std::unique_ptr<rocksdb::Env> below_;
  std::unique_ptr<LogAhead> ahead_;
};

TEST_F(LogAheadTest, ZerosAreInFrontOfWhatIsWrittenAndGoWhenItIsClosed) {
  Start();
  const std::string path = directory_.file("000007.log");
  const auto file = Create("000007.log");
  Append(*file, "first");
  ASSERT_TRUE(BecomesTrue([&] { return SizeOf("000007.log") >= 5 + kAhead; }));
  EXPECT_EQ(Contents(path).substr(0, 5), "first");
  EXPECT_TRUE(AllZero(Contents(path).substr(5)));
  Append(*file, "second");
  EXPECT_EQ(Contents(path).substr(0, 11), "firstsecond");
  EXPECT_TRUE(AllZero(Contents(path).substr(11)));
  Sync(*file);
  Close(*file);
  EXPECT_EQ(Contents(path), "firstsecond");
}

TEST_F(LogAheadTest, TheSizeIsWhatWasWritten) {
  Start();
  const std::string path = directory_.file("000007.log");
  const auto file = Create("000007.log");
  Append(*file, "first");
  ASSERT_TRUE(BecomesTrue([&] { return SizeOf("000007.log") >= 5 + kAhead; }));
  uint64_t size = 0;
  ASSERT_TRUE(ahead_->env()->GetFileSize(path, &size).ok());
  EXPECT_EQ(size, 5u);
  EXPECT_EQ(file->GetFileSize(IOOptions(), nullptr), 5u);
  Close(*file);
  ASSERT_TRUE(ahead_->env()->GetFileSize(path, &size).ok());
  EXPECT_EQ(size, 5u);
}

TEST_F(LogAheadTest, MoreAreMadeWhenHalfAreUsedUp) {
  Start();
  const auto file = Create("000007.log");
  for (uint64_t written = 0; written < 8 * kAhead; written += kAhead / 2) {
    Append(*file, std::string(kAhead / 2, 'x'));
    ASSERT_TRUE(BecomesTrue([&] { return SizeOf("000007.log") >= written + kAhead; }));
  }
}

// What is not empty has been written to: so says who looks at a store before it is opened.
TEST_F(LogAheadTest, ALogThatNothingWasWrittenToIsEmpty) {
  Start();
  const auto older = Create("000007.log");
  const auto newer = Create("000008.log");
  Append(*newer, "x");
  ASSERT_TRUE(BecomesTrue([&] { return SizeOf("000008.log") > kAhead; }));
  EXPECT_EQ(SizeOf("000007.log"), 0u);
}

// Else a power cut might leave damage in a log that others follow.
TEST_F(LogAheadTest, AllZerosOfALogAreSyncedWhenTheNextOneIsMade) {
  std::atomic<int> begun{0};
  std::atomic<int> unsynced{0};
  hooks_.on_write = [&] {
    ++unsynced;
    ++begun;
    return IOStatus::OK();
  };
  hooks_.on_sync = [&] {
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    --unsynced;
    return IOStatus::OK();
  };
  Start();
  std::vector<std::unique_ptr<rocksdb::FSWritableFile>> logs;
  for (int i = 0; i < 20; ++i) {
    logs.push_back(Create("0000" + std::to_string(10 + i) + ".log"));
    EXPECT_EQ(unsynced, 0);
    const int before = begun;
    Append(*logs.back(), "x");
    ASSERT_TRUE(BecomesTrue([&] {
      for (int spins = 0; begun == before && spins < 1'000'000; ++spins) std::this_thread::yield();
      return begun != before;
    }));
  }
}

TEST_F(LogAheadTest, OtherFilesAreLeftAlone) {
  Start();
  std::vector<std::unique_ptr<rocksdb::FSWritableFile>> files;
  const std::vector<std::string> names = {"000007.sst", "LOG", "MANIFEST-000007", "x000007.log",
                                          ".log"};
  for (const std::string& name : names) {
    files.push_back(Create(name));
    Append(*files.back(), "x");
  }
  const auto log = Create("000009.log");
  Append(*log, "x");
  ASSERT_TRUE(BecomesTrue([&] { return SizeOf("000009.log") > kAhead; }));
  for (const std::string& name : names) EXPECT_EQ(SizeOf(name), 1u) << name;
}

TEST_F(LogAheadTest, NoZeroIsWrittenOverARecord) {
  std::atomic<int> pieces{0};
  // Gives whoever writes time to get there first.
  hooks_.on_write = [&] {
    ++pieces;
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    return IOStatus::OK();
  };
  options_.bytes = kMinLogAheadBytes;
  Start();
  const std::string path = directory_.file("000007.log");
  const auto file = Create("000007.log");
  std::string all;
  for (size_t i = 0; i < 3000; ++i) {
    const std::string record(1 + i * 7919 % 6000, static_cast<char>('a' + i % 26));
    Append(*file, record);
    all += record;
    if (i % 100 == 0) Sync(*file);
  }
  EXPECT_TRUE(Contents(path).substr(0, all.size()) == all);
  Close(*file);
  EXPECT_TRUE(Contents(path) == all);
  EXPECT_GT(pieces, 0);
}

struct ZeroFault {
  std::string name;
  std::function<void(Hooks&)> plant;
};

class ZeroFaults : public LogAheadTest, public ::testing::WithParamInterface<ZeroFault> {};

INSTANTIATE_TEST_SUITE_P(
    Faults, ZeroFaults,
    ::testing::Values(ZeroFault{"NotOpened",
                                [](Hooks& hooks) {
                                  hooks.on_open = [] { return IOStatus::IOError("planted"); };
                                }},
                      ZeroFault{"NoSpace",
                                [](Hooks& hooks) {
                                  hooks.on_write = [] { return IOStatus::NoSpace("planted"); };
                                }},
                      ZeroFault{"NotWritten",
                                [](Hooks& hooks) {
                                  hooks.on_write = [] { return IOStatus::IOError("planted"); };
                                }},
                      ZeroFault{"NotSynced",
                                [](Hooks& hooks) {
                                  hooks.on_sync = [] { return IOStatus::IOError("planted"); };
                                }}),
    [](const auto& info) { return info.param.name; });

TEST_P(ZeroFaults, AreNoErrorsOfTheLogAndAreToldOnce) {
  GetParam().plant(hooks_);
  Start();
  for (const char* name : {"000007.log", "000008.log"}) {
    const auto file = Create(name);
    std::string all;
    for (int i = 0; i < 100; ++i) {
      const std::string record(1000, static_cast<char>('a' + i % 26));
      Append(*file, record);
      Sync(*file);
      all += record;
    }
    EXPECT_TRUE(said_.WaitForLog(kLogWarning, "planted"));
    Close(*file);
    EXPECT_TRUE(Contents(directory_.file(name)) == all) << name;
  }
  ahead_.reset();
  EXPECT_EQ(said_.lines(), 1u);
}

TEST_F(LogAheadTest, WhereThereIsLittleRoomNoneAreMade) {
  options_.has_room = [] { return false; };
  Start();
  const auto file = Create("000007.log");
  Append(*file, "x");
  ASSERT_TRUE(said_.WaitForLog(kLogWarning, "little room"));
  Append(*file, std::string(2 * kAhead, 'x'));
  EXPECT_EQ(SizeOf("000007.log"), 1 + 2 * kAhead);
  Close(*file);
  EXPECT_EQ(SizeOf("000007.log"), 1 + 2 * kAhead);
}

// --- A store after a crash
// -------------------------------------------------------------------------

// A part of a record, as the log holds it: crc 4, length 2, type 1, bytes.
struct Fragment {
  size_t begin = 0;
  size_t end = 0;
  int type = 0;  // 1: whole; 2, 3, 4: first, in the middle, last
};

std::vector<Fragment> FragmentsOf(const std::string& log) {
  constexpr size_t kHeaderBytes = 7;
  constexpr size_t kBlockBytes = size_t{32} * 1024;
  std::vector<Fragment> fragments;
  for (size_t at = 0; at + kHeaderBytes <= log.size();) {
    const size_t left = kBlockBytes - at % kBlockBytes;
    if (left < kHeaderBytes) {
      at += left;
      continue;
    }
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(log[at + i]); };
    const size_t end = at + kHeaderBytes + byte(4) + 256 * size_t{byte(5)};
    if (byte(6) == 0) break;
    fragments.push_back({.begin = at, .end = end, .type = byte(6)});
    at = end;
  }
  return fragments;
}

void Zero(std::string& bytes, size_t begin, size_t end = std::string::npos) {
  end = std::min(end, bytes.size());
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(begin),
            bytes.begin() + static_cast<ptrdiff_t>(end), '\0');
}

// 50 small commits that the watermark promises, and a large one behind them.
constexpr int kPromised = 50;
constexpr size_t kLargeBytes = 100'000;

class ZerosAfterACrash : public ::testing::Test {
 protected:
  ZerosAfterACrash() {
    fixture_.options.watermark_interval = core::Duration::zero();
    fixture_.options.engine.log_ahead_bytes = kAhead;
    fixture_.Open();
  }
  void Write(int first, int last, size_t body_bytes = 100) {
    for (int i = first; i <= last; ++i) {
      keystore::Store(fixture_.engine(), PayKey(std::to_string(i)),
                      CompleteRecord(++token_, std::string(body_bytes, 'b')));
    }
  }
  void Promise() { ASSERT_TRUE(fixture_.engine().SyncWatermark().ok()); }
  // Of those that are not empty.
  static std::string Newest(const std::string& data_dir) {
    std::string newest;
    for (const auto& entry : fs::directory_iterator(data_dir + "/db")) {
      const std::string path = entry.path();
      if (path.ends_with(".log") && entry.file_size() > 0) newest = std::max(newest, path);
    }
    return newest;
  }
  void AwaitZeros(uint64_t bytes) {
    ASSERT_TRUE(BecomesTrue([this, bytes] {
      const std::string log = Contents(Newest(fixture_.data_dir()));
      return log.size() > bytes && AllZero(log.substr(log.size() - bytes));
    }));
  }
  // The store as kill -9 would leave it now, for another engine.
  void Crash() {
    CopyLiveDirectory(fixture_.data_dir(), crashed_.directory().file("crashed"));
    crashed_.options = fixture_.options;
    crashed_.options.engine.data_dir = crashed_.directory().file("crashed");
    crashed_.options.engine.log = [this](int level, std::string_view line) {
      crashed_.surroundings().Log(level, line);
    };
  }
  // All of them, and a large one; the large one is behind the watermark, or not.
  void CrashBehindALargeOne(bool promised) {
    Write(1, kPromised);
    Promise();
    Write(kPromised + 1, kPromised + 1, kLargeBytes);
    if (promised) Promise();
    AwaitZeros(kAhead);
    Crash();
  }
  void ExpectOpensWith(int keys, bool warns) {
    ASSERT_NE(crashed_.Open(), nullptr);
    EXPECT_EQ(ScanAll(crashed_.engine(), {}, 1000).size(), static_cast<size_t>(keys));
    EXPECT_EQ(crashed_.surroundings().Logged(kLogWarning, ""), warns);
  }

  uint64_t token_ = 0;
  RocksDbFixture fixture_;
  RocksDbFixture crashed_;
};

TEST_F(ZerosAfterACrash, AreTheEndOfTheLog) {
  CrashBehindALargeOne(/*promised=*/true);
  const std::string log = Contents(Newest(crashed_.data_dir()));
  ASSERT_TRUE(AllZero(log.substr(log.size() - kAhead)));
  ExpectOpensWith(kPromised + 1, /*warns=*/false);
}

TEST_F(ZerosAfterACrash, AreTheEndOfTheLogWithoutZerosOfItsOwn) {
  CrashBehindALargeOne(/*promised=*/true);
  crashed_.options.engine.log_ahead_bytes = 0;
  ExpectOpensWith(kPromised + 1, /*warns=*/false);
}

TEST_F(ZerosAfterACrash, AreReplayedAgainAndAgain) {
  CrashBehindALargeOne(/*promised=*/true);
  ExpectOpensWith(kPromised + 1, /*warns=*/false);
  // It is still open: as if it were killed right after it was opened.
  for (int i = 0; i < 3; ++i) {
    RocksDbFixture again;
    CopyLiveDirectory(crashed_.data_dir(), again.directory().file("again"));
    again.options = crashed_.options;
    again.options.engine.data_dir = again.directory().file("again");
    ASSERT_NE(again.Open(), nullptr);
    EXPECT_EQ(ScanAll(again.engine(), {}, 1000).size(), size_t{kPromised} + 1);
  }
}

// A log that another one follows, and that a crash kept from being cut when it was closed.
TEST_F(ZerosAfterACrash, AreTheEndOfALogThatIsNotTheLast) {
  fixture_.options.engine.memtable_bytes = 64 * 1024;
  fixture_.Open();
  keystore::Store(fixture_.engine(), PayKey("pending"), PendingRecord(++token_));
  Write(1, 10, 10'000);
  ASSERT_TRUE(fixture_.surroundings().WaitForLog(kLogDebug, "flush_finished"));
  Write(11, 11);
  Promise();
  Promise();
  Crash();
  size_t logs = 0;
  for (const auto& entry : fs::directory_iterator(crashed_.data_dir() + "/db")) {
    if (entry.path().extension() != ".log" || entry.file_size() == 0) continue;
    ++logs;
    std::ofstream(entry.path(), std::ios::app | std::ios::binary) << std::string(kAhead, '\0');
  }
  ASSERT_GE(logs, 2u);
  ExpectOpensWith(12, /*warns=*/false);
}

TEST_F(ZerosAfterACrash, AClosedStoreHasNone) {
  Write(1, kPromised);
  AwaitZeros(kAhead / 2);
  fixture_.Close();
  for (const auto& entry : fs::directory_iterator(fixture_.data_dir() + "/db")) {
    if (entry.path().extension() != ".log" || entry.file_size() == 0) continue;
    const std::string log = Contents(entry.path());
    EXPECT_EQ(FragmentsOf(log).back().end, log.size()) << entry.path();
  }
}

struct Tail {
  std::string name;
  // Of the large commit.
  std::function<void(std::string& log, const std::vector<Fragment>& large)> tear;
  bool lost;   // the large commit is
  bool warns;  // and it can be seen that there was something
};

class TornOverZeros : public ZerosAfterACrash, public ::testing::WithParamInterface<Tail> {
 protected:
  void Tear() {
    const std::string path = Newest(crashed_.data_dir());
    std::string log = Contents(path);
    std::vector<Fragment> large = FragmentsOf(log);
    while (!large.empty() && large.back().type == 1) large.pop_back();
    large.erase(large.begin(), std::find_if(large.begin(), large.end(),
                                            [](const auto& part) { return part.type == 2; }));
    ASSERT_GE(large.size(), 3u);
    GetParam().tear(log, large);
    std::ofstream(path, std::ios::trunc | std::ios::binary) << log;
  }
};

using Parts = std::vector<Fragment>;
const Tail kTails[] = {
    {"NothingOfIt", [](std::string& log, const Parts& large) { Zero(log, large[0].begin); }, true,
     false},
    {"HalfAHeader", [](std::string& log, const Parts& large) { Zero(log, large[0].begin + 3); },
     true, false},
    {"AHeaderWithoutItsType",
     [](std::string& log, const Parts& large) { Zero(log, large[0].begin + 6); }, true, true},
    {"InTheFirstFragment",
     [](std::string& log, const Parts& large) { Zero(log, large[0].begin + 107); }, true, true},
    {"BehindTheFirstFragment",
     [](std::string& log, const Parts& large) { Zero(log, large[1].begin); }, true, true},
    {"InTheLastFragment",
     [](std::string& log, const Parts& large) { Zero(log, large.back().end - 1); }, true, true},
    {"WithoutTheFirstFragment",
     [](std::string& log, const Parts& large) { Zero(log, large[0].begin, large[0].end); }, true,
     true},
    {"WithoutAMiddleFragment",
     [](std::string& log, const Parts& large) { Zero(log, large[1].begin, large[1].end); }, true,
     true},
    {"ASectorInTheMiddle",
     [](std::string& log, const Parts& large) {
       Zero(log, large[1].begin / 512 * 512 + 512, large[1].begin / 512 * 512 + 1024);
     },
     true, true},
    {"BytesBehindTheZeros",
     [](std::string& log, const Parts& large) {
       const size_t block = (large.back().end / 32768 + 1) * 32768;
       for (size_t i = 0; i < 20; ++i) log[block + i] = 'x';
     },
     false, true},
    {"FewerZeros", [](std::string& log, const Parts& large) { log.resize(large.back().end + 3); },
     false, false},
    {"NoZeros", [](std::string& log, const Parts& large) { log.resize(large.back().end); }, false,
     false},
    {"MoreZeros", [](std::string& log, const Parts&) { log.append(100'001, '\0'); }, false, false},
};
INSTANTIATE_TEST_SUITE_P(Tails, TornOverZeros, ::testing::ValuesIn(kTails),
                         [](const auto& info) { return info.param.name; });

TEST_P(TornOverZeros, WhatWasNotAcknowledgedGoesAndTheRestIsThere) {
  CrashBehindALargeOne(/*promised=*/false);
  Tear();
  ExpectOpensWith(GetParam().lost ? kPromised : kPromised + 1, GetParam().warns);
}

TEST_P(TornOverZeros, WhatWasPromisedIsThereOrItIsRefused) {
  CrashBehindALargeOne(/*promised=*/true);
  Tear();
  if (!GetParam().lost) return ExpectOpensWith(kPromised + 1, GetParam().warns);
  const absl::Status status = crashed_.TryOpen();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has lost records"));
}

// --- The store's own
// -----------------------------------------------------------------------------

// A backup copies as much of the log as RocksDB says there is, while it is written to.
TEST(LogAheadStore, TheLogIsAsLongAsWhatWasWritten) {
  const TempDirectory directory;
  const StoreTuning tuning{
      .block_cache_bytes = size_t{1} << 20,
      .memtable_bytes = size_t{1} << 20,
      .info_log = std::make_shared<RocksDbLogger>([](int, std::string_view) {}),
      .listener = std::make_shared<StoreHealth>([](int, std::string_view) {}),
      .log_ahead = {.bytes = kAhead, .has_room = nullptr, .log = nullptr}};
  const auto store = RocksDbStore::Open(directory.file("db"), true, tuning);
  ASSERT_TRUE(store.ok()) << store.status();
  rocksdb::DB& db = (*store)->db();
  ASSERT_TRUE(db.Put(MakeWriteOptions(), "key", std::string(1000, 'v')).ok());
  rocksdb::VectorLogPtr logs;
  ASSERT_TRUE(db.GetSortedWalFiles(logs).ok());
  const std::string path = directory.file("db") + logs.back()->PathName();
  ASSERT_TRUE(BecomesTrue([&] { return fs::file_size(path) > kAhead; }));
  ASSERT_TRUE(db.GetSortedWalFiles(logs).ok());
  EXPECT_EQ(logs.back()->SizeFileBytes(), FragmentsOf(Contents(path)).back().end);
}

TEST(LogAheadStore, ALogHasAtMostAQuarterOfAMemtableOfZeros) {
  RocksDbFixture fixture;
  fixture.options.engine.memtable_bytes = 64 * 1024;
  fixture.options.engine.log_ahead_bytes = size_t{1} << 30;
  ASSERT_NE(fixture.Open(), nullptr);
  keystore::Store(fixture.engine(), PayKey("key"), CompleteRecord(1));
  const std::string db = fixture.data_dir() + "/db";
  const auto largest = [&] {
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(db)) {
      if (entry.path().extension() == ".log") bytes = std::max(bytes, entry.file_size());
    }
    return bytes;
  };
  ASSERT_TRUE(BecomesTrue([&] { return largest() > 16 * 1024; }));
  keystore::Store(fixture.engine(), PayKey("other"), CompleteRecord(2));
  EXPECT_LT(largest(), 32u * 1024);
}

TEST(LogAheadStore, NearToWhereNewKeysAreRefusedThereAreNone) {
  RocksDbFixture fixture;
  fixture.options.engine.log_ahead_bytes = kAhead;
  fixture.options.free_bytes = [&] { return fixture.options.engine.min_free_bytes + 7 * kAhead; };
  fixture.options.engine.ballast_bytes = 0;
  ASSERT_NE(fixture.Open(), nullptr);
  keystore::Store(fixture.engine(), PayKey("key"), CompleteRecord(1));
  EXPECT_TRUE(fixture.surroundings().WaitForLog(kLogWarning, "no zeros ahead"));
  EXPECT_FALSE(fixture.engine().pressure().full);
}

}  // namespace
}  // namespace idempotency::keystore
