// The small parts of the durable engine, each alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/listener.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/core/limits.h"
#include "keystore/engine/ballast.h"
#include "keystore/engine/durable_file.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/epoch_files.h"
#include "keystore/engine/rocksdb_logger.h"
#include "keystore/engine/space_watch.h"
#include "keystore/engine/store_health.h"
#include "keystore/engine/stored_value.h"
#include "keystore/engine/throttle.h"
#include "keystore/engine/token_ceiling.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"
#include "tests/support/temp_directory.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// --- Files -------------------------------------------------------------------------------------

TEST(DurableFile, IsReplacedWhole) {
  const TempDirectory directory;
  const std::string path = directory.file("state");
  EXPECT_EQ(ReadSmallFile(path, 100)->has_value(), false);
  for (const std::string& bytes : {std::string("one"), std::string(), std::string(50, '\0')}) {
    ASSERT_TRUE(WriteFileDurably(path, bytes).ok());
    EXPECT_EQ(**ReadSmallFile(path, 100), bytes);
  }
  EXPECT_EQ((*ReadSmallFile(path, 10))->size(), 10u);
  EXPECT_FALSE(fs::exists(path + ".new"));
}

TEST(DurableFile, SaysWhatFailedAndWhere) {
  const TempDirectory directory;
  const absl::Status status = WriteFileDurably(directory.file("no/such"), "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(::testing::HasSubstr("no/such.new"), ::testing::HasSubstr("No such file")));
}

TEST(EpochFiles, TheTextIsAContract) {
  const Epoch epoch{.epoch = 3, .token_ceiling = 3'145'729};
  EXPECT_EQ(EncodeEpoch(epoch),
            "idempotency epoch 1\nepoch 3\ntoken_ceiling 3145729\ncrc32 89ea5ad1\n");
  EXPECT_EQ(DecodeEpoch(EncodeEpoch(epoch)), epoch);
}

TEST(EpochFiles, EveryFlippedBitAndEveryCutIsNoticed) {
  const std::string text = EncodeEpoch({.epoch = 3, .token_ceiling = 3'145'729});
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeEpoch(flipped), std::nullopt) << "bit " << bit;
  }
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(DecodeEpoch(text.substr(0, size)), std::nullopt) << size;
  }
  EXPECT_EQ(DecodeEpoch(text + "\n"), std::nullopt);
}

TEST(EpochFiles, RefuseCeilingsThatCannotBe) {
  for (const uint64_t ceiling : {uint64_t{0}, core::kMaxFencingToken + 2}) {
    EXPECT_EQ(DecodeEpoch(EncodeEpoch({.epoch = 1, .token_ceiling = ceiling})), std::nullopt);
  }
}

TEST(EpochFiles, TheNewerOfTwoCounts) {
  const TempDirectory directory;
  const EpochFiles files(directory.path());
  EXPECT_FALSE(files.Exist());
  EXPECT_EQ(files.Load()->has_value(), false);
  ASSERT_TRUE(files.Store({.epoch = 2, .token_ceiling = 20}).ok());
  EXPECT_TRUE(files.Exist());
  struct Row {
    std::string name;
    Epoch a;
    Epoch b;
    Epoch expected;
  };
  const std::vector<Row> rows = {
      {"a newer epoch in a", {3, 20}, {2, 90}, {3, 20}},
      {"a newer epoch in b", {2, 90}, {3, 20}, {3, 20}},
      {"a higher ceiling in a", {2, 90}, {2, 20}, {2, 90}},
      {"a higher ceiling in b", {2, 20}, {2, 90}, {2, 90}},
  };
  for (const Row& row : rows) {
    ASSERT_TRUE(WriteFileDurably(directory.file("epoch-a"), EncodeEpoch(row.a)).ok());
    ASSERT_TRUE(WriteFileDurably(directory.file("epoch-b"), EncodeEpoch(row.b)).ok());
    const auto loaded = files.Load();
    ASSERT_TRUE(loaded.ok() && loaded->has_value()) << row.name;
    EXPECT_EQ((*loaded)->epoch, row.expected) << row.name;
    EXPECT_FALSE((*loaded)->repair) << row.name;
  }
}

TEST(TokenCeiling, IsDurableBeforeATokenAboveItIsCovered) {
  const TempDirectory directory;
  const EpochFiles files(directory.path());
  auto ceiling = TokenCeiling::Begin(files, Epoch{});
  ASSERT_TRUE(ceiling.ok()) << ceiling.status();
  EXPECT_EQ((*ceiling)->floor(), 1u);
  const auto stored = [&files] { return (*files.Load())->epoch; };
  EXPECT_EQ(stored(), (Epoch{.epoch = 1, .token_ceiling = 1 + kTokensPerExtension}));
  ASSERT_TRUE((*ceiling)->Cover(kTokensPerExtension).ok());
  EXPECT_EQ((*ceiling)->floor(), kTokensPerExtension + 1);
  EXPECT_EQ(stored().token_ceiling, 1 + kTokensPerExtension) << "not yet needed";
  ASSERT_TRUE((*ceiling)->Cover(kTokensPerExtension + 1).ok());
  EXPECT_EQ(stored().token_ceiling, 2 + 2 * kTokensPerExtension);
  ASSERT_TRUE((*ceiling)->Cover(7).ok());
  EXPECT_EQ((*ceiling)->floor(), kTokensPerExtension + 2) << "never falls";
}

TEST(TokenCeiling, StopsAtTheLastTokenThereIs) {
  const TempDirectory directory;
  auto ceiling = TokenCeiling::Begin(EpochFiles(directory.path()),
                                     {.epoch = 1, .token_ceiling = core::kMaxFencingToken - 5});
  ASSERT_TRUE(ceiling.ok()) << ceiling.status();
  ASSERT_TRUE((*ceiling)->Cover(core::kMaxFencingToken).ok());
  EXPECT_EQ((*ceiling)->floor(), core::kMaxFencingToken + 1);
  // No token is left: the core grants none, and everything else goes on.
  auto next = TokenCeiling::Begin(EpochFiles(directory.path()),
                                  (*EpochFiles(directory.path()).Load())->epoch);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->floor(), core::kMaxFencingToken + 1);
}

TEST(TokenCeiling, DoesNotRiseWhereItCannotBeStored) {
  const TempDirectory directory;
  auto ceiling = TokenCeiling::Begin(EpochFiles(directory.path()), Epoch{});
  ASSERT_TRUE(ceiling.ok()) << ceiling.status();
  fs::create_directory(directory.file("epoch-b.new"));
  EXPECT_EQ((*ceiling)->Cover(uint64_t{1} << 40).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*ceiling)->floor(), 1u);
}

// --- Space -------------------------------------------------------------------------------------

constexpr uint64_t kMinFree = 1000;
constexpr uint64_t kBallast = 4096;

class Space : public ::testing::Test {
 protected:
  void CheckWith(std::optional<uint64_t> free) {
    free_ = free;
    watch_.Check();
  }
  bool OnDisk() const { return fs::exists(directory_.file("ballast")); }

  TempDirectory directory_;
  Surroundings surroundings_;
  std::optional<uint64_t> free_ = 1'000'000;
  Ballast ballast_{directory_.file("ballast"), kBallast};
  SpaceWatch watch_{&ballast_, kMinFree, [this] { return free_; },
                    [this](int level, std::string_view line) { surroundings_.Log(level, line); }};
};

TEST_F(Space, TheBallastIsMadeOnlyWhereItLeavesRoom) {
  free_ = kMinFree + kBallast - 1;
  watch_.MakeBallast();
  EXPECT_FALSE(OnDisk());
  free_ = kMinFree + kBallast;
  watch_.MakeBallast();
  EXPECT_TRUE(OnDisk());
  EXPECT_EQ(fs::file_size(directory_.file("ballast")), kBallast);
}

TEST_F(Space, FullBelowTheMinimumAndBallastReleasedBelowAQuarter) {
  struct Row {
    std::string name;
    std::optional<uint64_t> free;
    bool full;
    bool ballast;
  };
  const std::vector<Row> rows = {
      {"enough", kMinFree, false, true},
      {"one byte less", kMinFree - 1, true, true},
      {"enough again", kMinFree, false, true},
      {"a quarter", kMinFree / 4, true, true},
      {"the system does not say", std::nullopt, true, true},
      {"under a quarter", kMinFree / 4 - 1, true, false},
      {"what the ballast made room for is not room", kMinFree / 4 - 1 + kBallast, true, false},
      {"enough without the ballast", kMinFree + kBallast, false, false},
  };
  watch_.MakeBallast();
  for (const Row& row : rows) {
    CheckWith(row.free);
    EXPECT_EQ(watch_.full(), row.full) << row.name;
    EXPECT_EQ(ballast_.held(), row.ballast) << row.name;
    EXPECT_EQ(OnDisk(), row.ballast) << row.name;
  }
  EXPECT_TRUE(surroundings_.Logged(kLogError, "new keys are refused"));
  EXPECT_TRUE(surroundings_.Logged(kLogWarning, "given up"));
  EXPECT_TRUE(surroundings_.Logged(kLogInfo, "room again"));
}

TEST_F(Space, RunningOutReleasesTheBallast) {
  watch_.MakeBallast();
  watch_.RanOut();
  EXPECT_FALSE(OnDisk());
  EXPECT_TRUE(watch_.full());
}

TEST_F(Space, ABallastOfAnotherSizeIsMadeAnew) {
  watch_.MakeBallast();
  Ballast smaller(directory_.file("ballast"), kBallast / 2);
  EXPECT_FALSE(smaller.held());
  ASSERT_TRUE(smaller.Create().ok());
  EXPECT_EQ(fs::file_size(directory_.file("ballast")), kBallast / 2);
  Ballast none(directory_.file("ballast"), 0);
  ASSERT_TRUE(none.Create().ok());
  EXPECT_FALSE(OnDisk());
}

TEST_F(Space, ABallastThatCannotBeMadeIsNoError) {
  Ballast nowhere(directory_.file("no/such"), kBallast);
  SpaceWatch watch(
      &nowhere, kMinFree, [this] { return free_; },
      [this](int level, std::string_view line) { surroundings_.Log(level, line); });
  watch.MakeBallast();
  EXPECT_TRUE(surroundings_.Logged(kLogWarning, "no ballast file"));
}

TEST(FreeBytes, AsksTheSystem) {
  const TempDirectory directory;
  EXPECT_GT(FreeBytes(directory.path()).value_or(0), 0u);
  EXPECT_EQ(FreeBytes(directory.file("no/such")), std::nullopt);
}

TEST(EngineSpace, IsLookedAtOnceASecondByReadsAndWrites) {
  std::atomic<uint64_t> free{uint64_t{1} << 40};
  RocksDbFixture fixture;
  fixture.options.free_bytes = [&free] { return std::optional<uint64_t>(free.load()); };
  ASSERT_NE(fixture.Open(), nullptr);
  const auto look = [&fixture](core::Time now) {
    fixture.surroundings().SetNow(core::At(now));
    fixture.engine().Read({}, [](const auto&) {});
    return fixture.engine().pressure().full;
  };
  EXPECT_FALSE(look(kStart));
  free = 0;
  EXPECT_FALSE(look(kStart + 999ms));
  EXPECT_TRUE(look(kStart + 1s));
  EXPECT_FALSE(fs::exists(fixture.data_dir() + "/ballast"));
  free = uint64_t{1} << 40;
  EXPECT_TRUE(look(kStart + 1999ms));
  EXPECT_FALSE(look(kStart + 2s));
  EXPECT_FALSE(fs::exists(fixture.data_dir() + "/ballast")) << "only when it is opened";
  ASSERT_NE(fixture.Open(), nullptr);
  EXPECT_TRUE(fs::exists(fixture.data_dir() + "/ballast"));
}

TEST(EngineSpace, RoomThatComesBackIsNoticedByPressureAloneWhichLooksOnlyWhileFull) {
  uint64_t free = 0;
  int looks = 0;
  RocksDbFixture fixture;
  fixture.options.free_bytes = [&] {
    ++looks;
    return std::optional<uint64_t>(free);
  };
  ASSERT_NE(fixture.Open(), nullptr);
  const auto full_at = [&fixture](core::Time now) {
    fixture.surroundings().SetNow(core::At(now));
    return fixture.engine().pressure().full;
  };
  EXPECT_TRUE(full_at(kStart));
  free = uint64_t{1} << 40;
  looks = 0;
  EXPECT_TRUE(full_at(kStart + 999ms));
  EXPECT_EQ(looks, 0);
  EXPECT_FALSE(full_at(kStart + 1s));
  EXPECT_EQ(looks, 1);
  EXPECT_FALSE(full_at(kStart + 1min));
  EXPECT_EQ(looks, 1) << "nothing is wrong";
}

TEST(EngineSpace, AFullVolumeGivesUpTheBallastBeforeRocksDbWritesAtOpening) {
  RocksDbFixture fixture;
  ASSERT_NE(fixture.Open(), nullptr);
  fixture.Close();
  ASSERT_TRUE(fs::exists(fixture.data_dir() + "/ballast"));
  fixture.options.free_bytes = [] { return std::optional<uint64_t>(0); };
  ASSERT_NE(fixture.Open(), nullptr);
  EXPECT_FALSE(fs::exists(fixture.data_dir() + "/ballast"));
  EXPECT_TRUE(fixture.engine().pressure().full);
}

// --- Stored values -----------------------------------------------------------------------------

Find Bytes(const std::string& bytes) { return {.kind = Find::Kind::kBytes, .bytes = bytes}; }

// Of a store that seals nothing.
const Place& Plain() {
  static const auto& sealer = *new RecordSealer();
  static const auto& place = *new Place{sealer, "a stored key"};
  return place;
}

std::string Value(uint64_t commit_number, const core::Record& record) {
  std::string value;
  EXPECT_TRUE(EncodeValue(Plain(), commit_number, record, &value));
  return value;
}

TEST(StoredValue, RoundTripsCommitNumbers) {
  for (const uint64_t number :
       {uint64_t{1}, uint64_t{127}, uint64_t{128}, std::numeric_limits<uint64_t>::max() >> 2}) {
    const std::string value = Value(number, *PendingRecord());
    const std::optional<StoredValue> decoded = DecodeValue(Plain(), value);
    ASSERT_TRUE(decoded.has_value()) << number;
    EXPECT_EQ(decoded->commit_number, number);
    EXPECT_EQ(decoded->record, *PendingRecord());
    EXPECT_EQ(VersionOf(Bytes(value), {}) >> 2, number);
  }
}

TEST(StoredValue, EveryFlippedBitOfARecordIsNoticed) {
  const std::string value = Value(1, *CompleteRecord());
  for (size_t bit = 8; bit < value.size() * 8; ++bit) {
    std::string flipped = value;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeValue(Plain(), flipped).has_value(), false) << "bit " << bit;
  }
}

TEST(StoredValue, WhatAKeyIsThatOneOrBothFamiliesHold) {
  const std::string pending = Value(5, *PendingRecord());
  const std::string complete = Value(9, *CompleteRecord());
  const std::string later = Value(10, *PendingRecord());
  const std::string noise = "\x05noise";
  const Find nothing;
  const Find damaged{.kind = Find::Kind::kDamaged};
  struct Row {
    std::string name;
    Find open;
    Find finished;
    core::Stored expected;
    Version version;
  };
  const std::vector<Row> rows = {
      {"nothing", nothing, nothing, core::Absent{}, 0},
      {"open", Bytes(pending), nothing, *PendingRecord(), 5 << 2 | 1},
      {"finished", nothing, Bytes(complete), *CompleteRecord(), 9 << 2 | 2},
      {"both, the finished one newer", Bytes(pending), Bytes(complete), *CompleteRecord(),
       9 << 2 | 3},
      {"both, the open one newer", Bytes(later), Bytes(complete), *PendingRecord(), 10 << 2 | 3},
      {"noise", Bytes(noise), nothing, core::Unreadable{}, 5 << 2 | 1},
      {"no bytes at all", nothing, Bytes(""), core::Unreadable{}, 2},
      {"a damaged block", nothing, damaged, core::Unreadable{}, 2},
      {"one of both cannot be read", Bytes(pending), Bytes(noise), core::Unreadable{}, 5 << 2 | 3},
      {"one of both is damaged", damaged, Bytes(complete), core::Unreadable{}, 9 << 2 | 3},
  };
  for (const Row& row : rows) {
    const ReadEntry entry = Combine(Plain(), row.open, row.finished);
    EXPECT_TRUE(entry.stored == row.expected) << row.name;
    EXPECT_EQ(entry.version, row.version) << row.name;
    EXPECT_EQ(VersionOf(row.open, row.finished), row.version) << row.name;
  }
}

TEST(StoredValue, AKeyLeftInBothFamiliesIsInOneAfterTheNextWrite) {
  RocksDbFixture fixture;
  ASSERT_NE(fixture.Open(), nullptr);
  for (const core::RecordPtr& record : {PendingRecord(), CompleteRecord(), core::RecordPtr()}) {
    fixture.Plant(Family::kOpen, {"n", "s", "k"}, Value(5, *PendingRecord()));
    fixture.Plant(Family::kFinished, {"n", "s", "k"}, Value(9, *CompleteRecord()));
    Version version = 0;
    fixture.engine().Read({{"n", "s", "k"}}, [&version](absl::StatusOr<ReadResult> result) {
      version = result->entries[0].version;
    });
    fixture.engine().Commit(
        {{.key = {"n", "s", "k"}, .expected = version, .record = record}},
        [](const auto& outcomes) { EXPECT_EQ(outcomes[0], WriteOutcome::kCommitted); });
    const Family family = record == nullptr ? Family::kOpen : FamilyOf(record->state);
    EXPECT_EQ(fixture.Stored(family, {"n", "s", "k"}).has_value(), record != nullptr);
    EXPECT_EQ(fixture.Stored(OtherFamily(family), {"n", "s", "k"}), std::nullopt);
  }
}

// --- Small things --------------------------------------------------------------------------------

TEST(Throttle, LetsOneThroughAnInterval) {
  Throttle throttle(1s);
  EXPECT_TRUE(throttle.Due(kStart));
  EXPECT_FALSE(throttle.Due(kStart));
  EXPECT_FALSE(throttle.Due(kStart + 999ms));
  EXPECT_TRUE(throttle.Due(kStart + 1s));
  EXPECT_FALSE(throttle.Due(kStart + 1s));
}

TEST(RocksDbLogger, HandsOnLevelsAndCutsLines) {
  std::vector<std::pair<int, std::string>> lines;
  RocksDbLogger logger(
      [&lines](int level, std::string_view line) { lines.emplace_back(level, std::string(line)); });
  rocksdb::Log(rocksdb::InfoLogLevel::DEBUG_LEVEL, &logger, "%s", "dropped");
  rocksdb::Log(rocksdb::InfoLogLevel::INFO_LEVEL, &logger, "%d files\n", 3);
  rocksdb::Log(rocksdb::InfoLogLevel::HEADER_LEVEL, &logger, "head");
  rocksdb::Log(rocksdb::InfoLogLevel::WARN_LEVEL, &logger, "warning");
  rocksdb::Log(rocksdb::InfoLogLevel::ERROR_LEVEL, &logger, "error");
  rocksdb::Log(&logger, "plain");
  EXPECT_THAT(lines, ::testing::ElementsAre(std::pair(kLogDebug, "rocksdb: 3 files"),
                                            std::pair(kLogDebug, "rocksdb: head"),
                                            std::pair(kLogWarning, "rocksdb: warning"),
                                            std::pair(kLogError, "rocksdb: error"),
                                            std::pair(kLogDebug, "rocksdb: plain")));
  lines.clear();
  rocksdb::Log(rocksdb::InfoLogLevel::WARN_LEVEL, &logger, "%s", std::string(9999, 'x').c_str());
  EXPECT_LT(lines.at(0).second.size(), 2100u);
}

TEST(StoreHealth, OnlyErrorsThatEndWritesEndTheEngine) {
  using rocksdb::Status;
  Surroundings surroundings;
  const auto log = [&surroundings](int level, std::string_view line) {
    surroundings.Log(level, line);
  };
  struct Row {
    std::string name;
    Status::Severity severity;
    bool alive;
  };
  for (const Row& row : {Row{"a compaction without space", Status::kSoftError, true},
                         Row{"a flush that failed", Status::kHardError, false},
                         Row{"a log that failed", Status::kFatalError, false}}) {
    StoreHealth health(log);
    Status error(Status::IOError("planted"), row.severity);
    health.OnBackgroundError(rocksdb::BackgroundErrorReason::kFlush, &error);
    EXPECT_EQ(health.alive(), row.alive) << row.name;
    EXPECT_FALSE(error.ok()) << row.name;
  }
}

// A store that closed while RocksDB recovered by itself stood still for good: nobody tells it that
// the recovery is over.
TEST(StoreHealth, AStoreThatClosesNeverWaitsForARecovery) {
  using rocksdb::Status;
  StoreHealth health([](int, std::string_view) {});
  for (const Status::Severity severity :
       {Status::kSoftError, Status::kHardError, Status::kFatalError}) {
    bool recover = true;
    health.OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason::kCompaction,
                                Status(Status::NoSpace("planted"), severity), &recover);
    EXPECT_FALSE(recover) << severity;
  }
}

TEST(StoreHealth, ANoticeOfAStallIsAHintToAskOnce) {
  StoreHealth health([](int, std::string_view) {});
  EXPECT_FALSE(health.TakeStallHint());
  health.OnStallConditionsChanged({});
  EXPECT_TRUE(health.TakeStallHint());
  EXPECT_FALSE(health.TakeStallHint());
  EXPECT_FALSE(health.stalled());
  health.SetStalled(true);
  EXPECT_TRUE(health.stalled());
}

}  // namespace
}  // namespace idempotency::keystore
