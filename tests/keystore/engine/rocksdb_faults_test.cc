// RocksDB on a disk that fails, fills up or loses power: nothing is acknowledged that is not
// durable, the engine ends for good, and opening the store again works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/core/record.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/engine_log.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/fault_env.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class RocksDbFaults : public ::testing::Test {
 protected:
  RocksDbFaults() {
    fixture_.options.env = faults_.env();
    // As in production: the guards' own reads are not what fails here.
    fixture_.options.check_guards = false;
    fixture_.options.engine.memtable_bytes = 64 * 1024;
  }
  RocksDbEngine& engine() { return fixture_.engine(); }

  bool IsThere(const std::string& key) {
    return std::holds_alternative<core::Record>(ReadOne(engine(), PayKey(key)).stored);
  }

  void ExpectDead() {
    EXPECT_FALSE(engine().pressure().alive);
    EXPECT_EQ(Read(engine(), {PayKey("before")}).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Scan(engine(), {}, 10).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Commit(engine(), {{.key = PayKey("later"), .record = PendingRecord(9)}}),
                ElementsAre(WriteOutcome::kUnknown));
  }

  FaultEnv faults_;
  RocksDbFixture fixture_;
};

std::vector<GuardedWrite> ThreeWrites() {
  return {{.key = PayKey("x"), .record = PendingRecord(2)},
          {.key = PayKey("y"), .record = CompleteRecord(2)},
          {.key = PayKey("z"), .record = UnresolvedRecord(2)}};
}

struct WriteFault {
  std::string name;
  Fault fault;
  size_t log_ahead_bytes = 0;
};

class WalFaults : public RocksDbFaults, public ::testing::WithParamInterface<WriteFault> {};

INSTANTIATE_TEST_SUITE_P(Faults, WalFaults,
                         ::testing::Values(WriteFault{"SyncFails", Fault::kSyncFails},
                                           WriteFault{"NoSpace", Fault::kNoSpace},
                                           WriteFault{"SyncOverZerosFails", Fault::kSyncFails,
                                                      16 * 1024}),
                         [](const auto& info) { return info.param.name; });

TEST_P(WalFaults, AcknowledgeNothingAndEndTheEngineUntilItIsOpenedAgain) {
  fixture_.options.engine.log_ahead_bytes = GetParam().log_ahead_bytes;
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("before"), CompleteRecord(1));
  faults_.Set(GetParam().fault, ".log");
  EXPECT_THAT(Commit(engine(), ThreeWrites()), AllOf(SizeIs(3), Each(WriteOutcome::kUnknown)));
  ExpectDead();
  // For good, also when the disk works again.
  faults_.Clear();
  ExpectDead();
  EXPECT_TRUE(fixture_.surroundings().Logged(kLogError, "takes no more writes"));

  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_TRUE(engine().pressure().alive);
  EXPECT_TRUE(IsThere("before"));
  EXPECT_FALSE(IsThere("later"));
  // Unknown is all or nothing.
  EXPECT_EQ(IsThere("x"), IsThere("y"));
  EXPECT_EQ(IsThere("y"), IsThere("z"));
  Store(engine(), PayKey("after"), PendingRecord(3));
  EXPECT_TRUE(IsThere("after"));
}

TEST_P(WalFaults, LoseNothingAcknowledgedInAPowerCut) {
  ASSERT_NE(fixture_.Open(), nullptr);
  for (int i = 0; i < 20; ++i) Store(engine(), PayKey(std::to_string(i)), CompleteRecord(1));
  faults_.Set(GetParam().fault, ".log");
  EXPECT_THAT(Commit(engine(), ThreeWrites()), AllOf(SizeIs(3), Each(WriteOutcome::kUnknown)));
  fixture_.Close();
  faults_.Clear();
  faults_.DropUnsynced();
  ASSERT_NE(fixture_.Open(), nullptr);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(IsThere(std::to_string(i))) << i;
}

TEST_F(RocksDbFaults, AFullDiskGivesUpTheBallast) {
  ASSERT_NE(fixture_.Open(), nullptr);
  const std::string ballast = fixture_.data_dir() + "/ballast";
  ASSERT_TRUE(std::filesystem::exists(ballast));
  EXPECT_FALSE(engine().pressure().full);
  faults_.Set(Fault::kNoSpace, ".log");
  Commit(engine(), ThreeWrites());
  EXPECT_FALSE(std::filesystem::exists(ballast));
  EXPECT_TRUE(engine().pressure().full);
}

TEST_F(RocksDbFaults, AFailedFlushEndsTheEngineThoughEveryWriteWasAnswered) {
  ASSERT_NE(fixture_.Open(), nullptr);
  faults_.Set(Fault::kSyncFails, ".sst");
  const std::string body(32 * 1024, 'b');
  std::vector<std::string> acknowledged;
  for (int i = 0; engine().pressure().alive && i < 100; ++i) {
    const std::string key = std::to_string(i);
    const auto outcomes =
        Commit(engine(), {{.key = PayKey(key), .record = CompleteRecord(1, body)}});
    if (outcomes.at(0) == WriteOutcome::kCommitted) acknowledged.push_back(key);
  }
  ASSERT_TRUE(fixture_.surroundings().WaitForLog(kLogError, "takes no more writes"));
  ExpectDead();
  faults_.Clear();
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_FALSE(acknowledged.empty());
  for (const std::string& key : acknowledged) EXPECT_TRUE(IsThere(key)) << key;
}

TEST_F(RocksDbFaults, ACompactionWithoutSpaceEndsNothingAndIsDoneOnceThereIsSome) {
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("before"), CompleteRecord(1));
  ASSERT_TRUE(engine().Compact().ok());
  for (int i = 0; i < 3; ++i) {
    faults_.Set(Fault::kNoSpace, ".sst");
    EXPECT_FALSE(engine().Compact().ok());
    EXPECT_TRUE(engine().pressure().alive);
    EXPECT_TRUE(fixture_.surroundings().Logged(kLogError, "goes on after an error"));
    faults_.Clear();
    Store(engine(), PayKey(std::to_string(i)), CompleteRecord(2));
    // Flushes that, so that the next fault is of a compaction alone.
    EXPECT_TRUE(engine().Compact().ok());
  }
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_TRUE(IsThere("before"));
  EXPECT_TRUE(IsThere("2"));
}

TEST_F(RocksDbFaults, WritesThatAreHeldUpShowAsAStall) {
  ASSERT_NE(fixture_.Open(), nullptr);
  Surroundings& surroundings = fixture_.surroundings();
  const auto stalled_at = [&](core::Time now) {
    surroundings.SetNow(core::At(now));
    ReadOne(engine(), PayKey("a"));
    return engine().pressure().stalled;
  };
  EXPECT_FALSE(stalled_at(kStart));
  faults_.Set(Fault::kWritesWait, ".sst");
  std::thread writer([this] {
    const std::string body(32 * 1024, 'b');
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(
          Commit(engine(), {{.key = PayKey(std::to_string(i)), .record = CompleteRecord(1, body)}}),
          ElementsAre(WriteOutcome::kCommitted));
    }
  });
  EXPECT_TRUE(surroundings.WaitForLog(kLogWarning, "Stopping writes"));
  // Reads go on, and look once a second.
  EXPECT_TRUE(stalled_at(kStart + std::chrono::seconds(1)));
  EXPECT_TRUE(engine().pressure().alive);
  EXPECT_TRUE(surroundings.Logged(kLogWarning, "are held up"));
  faults_.Clear();
  writer.join();
  // What the last writes left is flushed.
  EXPECT_TRUE(engine().Compact().ok());
  EXPECT_FALSE(stalled_at(kStart + std::chrono::seconds(2)));
  EXPECT_TRUE(surroundings.Logged(kLogWarning, "run freely again"));
}

TEST_F(RocksDbFaults, AStallThatEndsIsNoticedByPressureAloneWithoutReadOrCommit) {
  ASSERT_NE(fixture_.Open(), nullptr);
  Surroundings& surroundings = fixture_.surroundings();
  faults_.Set(Fault::kWritesWait, ".sst");
  std::atomic<bool> enough{false};
  std::thread writer([this, &enough] {
    const std::string body(32 * 1024, 'b');
    for (int i = 0; !enough && i < 20; ++i) {
      Commit(engine(), {{.key = PayKey(std::to_string(i)), .record = CompleteRecord(1, body)}});
    }
  });
  EXPECT_TRUE(surroundings.WaitForLog(kLogWarning, "Stopping writes"));
  surroundings.SetNow(core::At(kStart + std::chrono::seconds(1)));
  ReadOne(engine(), PayKey("a"));
  EXPECT_TRUE(engine().pressure().stalled);
  // It is held up within its last Commit, which has looked already.
  enough = true;
  surroundings.SetNow(core::At(kStart + std::chrono::seconds(2)));
  EXPECT_TRUE(engine().pressure().stalled);
  faults_.Clear();
  writer.join();
  EXPECT_TRUE(engine().Compact().ok());
  surroundings.SetNow(core::At(kStart + std::chrono::seconds(3)));
  EXPECT_FALSE(engine().pressure().stalled);
  EXPECT_TRUE(surroundings.Logged(kLogWarning, "run freely again"));
}

TEST_F(RocksDbFaults, ABrokenRecordTakesItsBatchWithIt) {
  ASSERT_NE(fixture_.Open(), nullptr);
  auto broken = std::make_shared<core::Record>(*CompleteRecord(1));
  broken->verdict = core::Verdict::kNone;
  EXPECT_THAT(Commit(engine(), {{.key = PayKey("good"), .record = PendingRecord(2)},
                                {.key = PayKey("broken"), .record = broken}}),
              ElementsAre(WriteOutcome::kUnknown, WriteOutcome::kUnknown));
  ExpectDead();
  EXPECT_TRUE(
      fixture_.surroundings().Logged(kLogError, "exactly an ended operation has a verdict"));
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_FALSE(IsThere("good"));
  EXPECT_FALSE(IsThere("broken"));
}

TEST_F(RocksDbFaults, AReadErrorIsUnavailableAndNeverAbsent) {
  fixture_.options.engine.block_cache_bytes = 0;
  // A compaction that cannot read ends the engine; this is about reads alone.
  fixture_.options.disable_auto_compactions = true;
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("before"), CompleteRecord(1));
  ASSERT_TRUE(engine().Compact().ok());
  faults_.Set(Fault::kReadFails, ".sst");
  EXPECT_EQ(Read(engine(), {PayKey("before")}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Scan(engine(), {}, 10).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(engine().pressure().alive);
  faults_.Clear();
  EXPECT_TRUE(IsThere("before"));
}

TEST_F(RocksDbFaults, ADamagedTableIsDataLossAndNeverAbsent) {
  ASSERT_NE(fixture_.Open(), nullptr);
  std::string body(4000, '\0');
  std::mt19937 random(1);
  for (char& byte : body) byte = static_cast<char>(random());
  Store(engine(), PayKey("damaged"), CompleteRecord(1, body));
  ASSERT_TRUE(engine().Compact().ok());
  fixture_.Close();
  for (const auto& file : std::filesystem::directory_iterator(fixture_.data_dir() + "/db")) {
    if (file.path().extension() != ".sst" || file.file_size() < body.size()) continue;
    std::fstream table(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    table.seekp(20);
    table.write("damage", 6);
  }
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("new"), PendingRecord(1));
  const absl::StatusOr<ReadResult> result =
      Read(engine(), {PayKey("damaged"), PayKey("new"), PayKey("absent")});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::holds_alternative<core::Unreadable>(result->entries[0].stored));
  EXPECT_TRUE(std::holds_alternative<core::Record>(result->entries[1].stored));
  EXPECT_TRUE(std::holds_alternative<core::Absent>(result->entries[2].stored));
  EXPECT_EQ(Scan(engine(), {}, 10).status().code(), absl::StatusCode::kDataLoss);
  // A forced Delete is its exit.
  EXPECT_THAT(
      Commit(engine(), {{.key = PayKey("damaged"), .expected = result->entries[0].version}}),
      ElementsAre(WriteOutcome::kCommitted));
  EXPECT_FALSE(IsThere("damaged"));
}

TEST_F(RocksDbFaults, ATokenThatCannotBeCoveredIsNotWritten) {
  ASSERT_NE(fixture_.Open(), nullptr);
  // The epoch files cannot be replaced: their temporary name is taken by a directory.
  std::filesystem::create_directory(fixture_.data_dir() + "/epoch-a.new");
  EXPECT_THAT(Commit(engine(), {{.key = PayKey("low"), .record = PendingRecord(5)}}),
              ElementsAre(WriteOutcome::kCommitted));
  EXPECT_THAT(
      Commit(engine(), {{.key = PayKey("far"), .record = PendingRecord(uint64_t{1} << 40)}}),
      ElementsAre(WriteOutcome::kUnknown));
  ExpectDead();
  EXPECT_EQ(fixture_.TryOpen().code(), absl::StatusCode::kFailedPrecondition);  // still in use
  fixture_.Close();
  EXPECT_EQ(fixture_.TryOpen().code(), absl::StatusCode::kUnavailable);
  std::filesystem::remove(fixture_.data_dir() + "/epoch-a.new");
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_TRUE(IsThere("low"));
  EXPECT_FALSE(IsThere("far"));
}

}  // namespace
}  // namespace idempotency::keystore
