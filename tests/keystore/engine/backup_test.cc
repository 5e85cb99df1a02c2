// Backups: what is in one, what a damaged one is worth, and what a store knows that was made out of
// one while its old self went on.
#include "keystore/engine/backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "keystore/core/transition.h"
#include "keystore/engine/epoch_files.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void TellNobody(const BackupProgress&) {}
absl::Status AddNothing(const std::string&, const BackupFacts&) { return absl::OkStatus(); }

class BackupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fixture_.surroundings().SetNow(core::At(kStart));
    ASSERT_NE(fixture_.Open(), nullptr);
  }

  RocksDbEngine& engine() { return fixture_.engine(); }
  std::string backups() const { return fixture_.directory().file("backups"); }
  std::string restored() const { return fixture_.directory().file("restored"); }

  absl::StatusOr<VerifiedBackup> BackUp(size_t keep = 7) {
    return engine().BackUp({.directory = backups(), .keep = keep}, &TellNobody);
  }
  uint32_t MustBackUp(size_t keep = 7) {
    const auto backup = BackUp(keep);
    EXPECT_TRUE(backup.ok()) << backup.status();
    return backup.ok() ? backup->backup.id : 0;
  }
  absl::StatusOr<VerifiedBackup> Verify(uint32_t id = 0) {
    return VerifyBackup(backups(), id, fixture_.options.engine, &TellNobody);
  }
  absl::StatusOr<VerifiedBackup> Restore(uint32_t id = 0,
                                         const CompleteStore& complete = &AddNothing) {
    EngineOptions options = fixture_.options.engine;
    options.data_dir = restored();
    return RestoreBackup(backups(), id, options, &TellNobody, complete);
  }
  // From here on the fixture's engine is that of the restored store.
  void OpenRestored() {
    fixture_.Close();
    fixture_.options.engine.data_dir = restored();
    ASSERT_NE(fixture_.Open(), nullptr);
  }
  std::vector<uint32_t> Ids() {
    std::vector<uint32_t> ids;
    const auto list = ListBackups(backups());
    EXPECT_TRUE(list.ok()) << list.status();
    for (const Backup& backup : *list) ids.push_back(backup.id);
    return ids;
  }
  core::Record RecordOf(const std::string& key) {
    const ReadEntry entry = ReadOne(engine(), PayKey(key));
    const auto* record = std::get_if<core::Record>(&entry.stored);
    EXPECT_NE(record, nullptr) << key;
    return record == nullptr ? core::Record{} : *record;
  }
  // Changes a byte in the middle of the largest file that the backups share.
  void DamageATable() {
    fs::path largest;
    for (const auto& file : fs::recursive_directory_iterator(backups())) {
      if (file.path().extension() != ".sst") continue;
      if (largest.empty() || file.file_size() > fs::file_size(largest)) largest = file.path();
    }
    ASSERT_FALSE(largest.empty());
    std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(fs::file_size(largest) / 2);
    file.seekg(middle);
    const char byte = static_cast<char>(file.get() ^ 0x55);
    file.seekp(middle);
    file.put(byte);
  }

  RocksDbFixture fixture_;
};

// --- Taking --------------------------------------------------------------------------------------

TEST_F(BackupTest, HoldsEveryRecordAsItIsStored) {
  const auto samples = SampleRecords();
  for (const auto& [name, record] : samples) Store(engine(), PayKey(name), record);
  const auto backup = BackUp();
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_EQ(backup->backup.id, 1u);
  EXPECT_EQ(backup->backup.facts.made, fixture_.surroundings().now().latest);
  EXPECT_GT(backup->backup.files, 0u);
  EXPECT_EQ(backup->contents.records(), samples.size());
  EXPECT_EQ(backup->contents.unreadable, 0u);
  const auto verified = Verify();
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->contents.records(), samples.size());
  EXPECT_EQ(verified->backup.facts, backup->backup.facts);
}

TEST_F(BackupTest, IsTakenWhileOthersCommit) {
  std::atomic<bool> done{false};
  std::atomic<uint64_t> stored{0};
  std::thread writer([&] {
    for (uint64_t i = 1; !done; ++i) {
      Store(engine(), PayKey(std::to_string(i)), CompleteRecord(i));
      stored = i;
    }
  });
  while (stored < 20) std::this_thread::yield();
  const uint64_t before = stored;
  const auto backup = BackUp();
  done = true;
  writer.join();
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_GE(backup->contents.complete, before);
  EXPECT_LE(backup->contents.complete, stored);
}

TEST_F(BackupTest, SharesWhatHasNotChangedAndKeepsTheNewest) {
  for (uint64_t i = 1; i <= 4; ++i) {
    Store(engine(), PayKey(std::to_string(i)), CompleteRecord(i));
    EXPECT_EQ(MustBackUp(2), i);
  }
  EXPECT_THAT(Ids(), ElementsAre(3, 4));
  EXPECT_EQ(Verify(3)->contents.complete, 3u);
  EXPECT_EQ(Verify(4)->contents.complete, 4u);
  EXPECT_TRUE(absl::IsNotFound(Verify(1).status()));
}

TEST_F(BackupTest, ThatIsStoppedLeavesNothing) {
  Store(engine(), PayKey("k"), CompleteRecord());
  const auto stopped =
      engine().BackUp({.directory = backups(), .stopped = [] { return true; }}, &TellNobody);
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_EQ(MustBackUp(), 1u);
}

TEST_F(BackupTest, CanBeStoppedWhileItIsReadBack) {
  // Enough to be told of in the middle.
  for (uint64_t batch = 0; batch < 21; ++batch) {
    std::vector<GuardedWrite> writes;
    for (uint64_t i = 1; i <= 1000; ++i) {
      const uint64_t token = batch * 1000 + i;
      writes.push_back({PayKey(std::to_string(token)), 0, CompleteRecord(token)});
    }
    Commit(engine(), std::move(writes));
  }
  bool reading = false;
  const auto stopped =
      engine().BackUp({.directory = backups(), .stopped = [&] { return reading; }},
                      [&](const BackupProgress& progress) { reading |= progress.records > 0; });
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(BackupTest, IsNotToldToBeThereWhereItCannotBeWritten) {
  std::ofstream(backups()) << "a file";
  const auto backup = BackUp();
  EXPECT_TRUE(absl::IsUnavailable(backup.status())) << backup.status();
  EXPECT_THAT(std::string(backup.status().message()), HasSubstr(backups()));
  Store(engine(), PayKey("k"), CompleteRecord());
}

TEST_F(BackupTest, IsReadBackFromADirectoryThatIsNamedFromHere) {
  Store(engine(), PayKey("k"), CompleteRecord());
  const std::string from_here = fs::relative(backups(), fs::current_path()).string();
  const auto backup = engine().BackUp({.directory = from_here, .keep = 7}, &TellNobody);
  ASSERT_TRUE(backup.ok()) << backup.status();
  const auto verified = VerifyBackup(from_here, 0, fixture_.options.engine, &TellNobody);
  EXPECT_TRUE(verified.ok()) << verified.status();
}

TEST_F(BackupTest, NamesWhatIsMissing) {
  EXPECT_TRUE(absl::IsInvalidArgument(engine().BackUp({}, &TellNobody).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ListBackups(backups()).status()));
  MustBackUp();
  const absl::Status missing = Verify(7).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no backup 7"));
}

// --- Verifying -----------------------------------------------------------------------------------

TEST_F(BackupTest, ThatIsDamagedIsFoundOutAndNotRestored) {
  Store(engine(), PayKey("k"), CompleteRecord());
  MustBackUp();
  DamageATable();
  EXPECT_TRUE(absl::IsDataLoss(Verify().status())) << Verify().status();
  EXPECT_TRUE(absl::IsDataLoss(Restore().status()));
  EXPECT_FALSE(fs::exists(restored()));
}

TEST_F(BackupTest, WhoseRecordsCannotBeReadIsNotKept) {
  Store(engine(), PayKey("k"), CompleteRecord());
  fixture_.Plant(Family::kFinished, PayKey("k"), "no record");
  const auto backup = BackUp();
  EXPECT_TRUE(absl::IsDataLoss(backup.status())) << backup.status();
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(BackupTest, SaysWhatItsKeysAreMissingFor) {
  fixture_.AddKey("k1");
  fixture_.MakeCurrent("k1");
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("k"), CompleteRecord());
  MustBackUp();
  EXPECT_EQ(Verify()->contents.key_missing, 0u);
  fixture_.options.engine.response_keys.clear();
  EXPECT_EQ(Verify()->contents.key_missing, 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(Restore().status()));
}

// --- Restoring -----------------------------------------------------------------------------------

TEST_F(BackupTest, RestoresWhatWasComplete) {
  Store(engine(), PayKey("done"), CompleteRecord(1, "paid"));
  MustBackUp();
  const auto restore = Restore();
  ASSERT_TRUE(restore.ok()) << restore.status();
  EXPECT_EQ(restore->contents.complete, 1u);
  OpenRestored();
  EXPECT_EQ(RecordOf("done"), *CompleteRecord(1, "paid"));
}

TEST_F(BackupTest, RestoringMakesUnknownWhatMayHaveGoneOn) {
  Store(engine(), PayKey("open"), PendingRecord(1));
  MustBackUp();
  // Its end, and another operation, that the backup knows nothing of.
  Store(engine(), PayKey("open"), CompleteRecord(1));
  Store(engine(), PayKey("later"), CompleteRecord(2));
  ASSERT_TRUE(Restore().ok());
  OpenRestored();
  const core::Record open = RecordOf("open");
  EXPECT_EQ(open.state, core::State::kUnresolved);
  EXPECT_EQ(engine().traits().lost_before, fixture_.surroundings().now().latest);
  // Who comes again with what was begun before is not granted it.
  core::Policy policy;
  policy.lost_before = engine().traits().lost_before;
  core::ReserveCommand reserve;
  reserve.operation_age = std::chrono::hours(1);
  const core::Decision again =
      core::Step(core::Absent{}, reserve, policy, fixture_.surroundings().now(), 1);
  const auto* answer = std::get_if<core::ReserveAnswer>(&again.answer);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->outcome, core::ReserveOutcome::kTooOld);
}

TEST_F(BackupTest, RestoringRepeatsNoFencingToken) {
  Store(engine(), PayKey("k"), CompleteRecord(1));
  MustBackUp();
  // What the lost store gave after the backup.
  constexpr uint64_t kLater = uint64_t{1} << 32;
  Store(engine(), PayKey("later"), CompleteRecord(kLater));
  ASSERT_TRUE(Restore().ok());
  OpenRestored();
  const auto read = Read(engine(), {PayKey("new")});
  ASSERT_TRUE(read.ok());
  EXPECT_GT(read->token_floor, kLater);
}

TEST_F(BackupTest, RestoresOnceMoreFromWhatWasRestored) {
  Store(engine(), PayKey("k"), CompleteRecord(1));
  MustBackUp();
  ASSERT_TRUE(Restore().ok());
  OpenRestored();
  EXPECT_EQ(MustBackUp(), 2u);
  fixture_.Close();
  fs::remove_all(restored());
  ASSERT_TRUE(Restore(2).ok());
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(RecordOf("k").state, core::State::kComplete);
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
}

TEST_F(BackupTest, IsNotRestoredOverAnything) {
  Store(engine(), PayKey("k"), CompleteRecord(1));
  MustBackUp();
  fs::create_directory(restored());
  std::ofstream(restored() + "/note") << "mine";
  const absl::Status refused = Restore().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("move it away"));
  EXPECT_TRUE(fs::exists(restored() + "/note"));
  fs::remove(restored() + "/note");
  EXPECT_TRUE(Restore().ok()) << "an empty directory is free";
}

TEST_F(BackupTest, AnInterruptedRestoreIsBegunAgain) {
  Store(engine(), PayKey("k"), CompleteRecord(1));
  MustBackUp();
  fs::create_directories(restored() + ".restoring/db");
  std::ofstream(restored() + ".restoring/db/CURRENT") << "half";
  ASSERT_TRUE(Restore().ok());
  EXPECT_FALSE(fs::exists(restored() + ".restoring"));
  OpenRestored();
  EXPECT_EQ(RecordOf("k").state, core::State::kComplete);
}

// Whoever is ended in between must not leave a store that lacks something.
TEST_F(BackupTest, ARestoredStoreIsCompleteBeforeItHasItsName) {
  MustBackUp();
  const absl::Status refused = Restore(0, [](const std::string&, const BackupFacts&) {
                                 return absl::UnavailableError("no room");
                               }).status();
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_FALSE(fs::exists(restored()));
  const auto done = Restore(0, [this](const std::string& store, const BackupFacts& facts) {
    EXPECT_FALSE(fs::exists(restored()));
    std::ofstream(store + "/CLOCK") << facts.made.time_since_epoch().count();
    return absl::OkStatus();
  });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_TRUE(fs::exists(restored() + "/CLOCK"));
}

TEST_F(BackupTest, RestoringNeedsNoWatermarkOfTheLostStore) {
  MustBackUp();
  ASSERT_TRUE(Restore().ok());
  for (int opened = 0; opened < 3; ++opened) OpenRestored();
}

// --- What is kept with a backup ------------------------------------------------------------------

TEST(BackupFactsTest, AreReadAsTheyWereWritten) {
  const BackupFacts facts{.epoch = 3, .token_ceiling = 3145729, .made = kStart};
  const std::string text = EncodeBackupFacts(facts);
  EXPECT_EQ(text, "idempotency backup 1\nepoch 3\ntoken_ceiling 3145729\nmade 1700000000000\n");
  EXPECT_EQ(DecodeBackupFacts(text), facts);
  EXPECT_EQ(DecodeBackupFacts(""), std::nullopt);
  EXPECT_EQ(DecodeBackupFacts(text + "\n"), std::nullopt);
  for (const char* wrong : {"idempotency backup 2\nepoch 3\ntoken_ceiling 1\nmade 1\n",
                            "idempotency backup 1\nepoch 0\ntoken_ceiling 1\nmade 1\n",
                            "idempotency backup 1\nepoch 1\ntoken_ceiling 0\nmade 1\n",
                            "idempotency backup 1\nepoch 01\ntoken_ceiling 1\nmade 1\n"}) {
    EXPECT_EQ(DecodeBackupFacts(wrong), std::nullopt) << wrong;
  }
}

// --- Telling how far it is -----------------------------------------------------------------------

// RocksDB says nothing of this itself; what it reads is counted.
TEST_F(BackupTest, TellsHowFarVerifyingAndRestoringAre) {
  Store(engine(), PayKey("k"), CompleteRecord());
  MustBackUp();
  std::vector<BackupProgress> told;
  EngineOptions options = fixture_.options.engine;
  options.data_dir = restored();
  const auto done = RestoreBackup(
      backups(), 0, options, [&](const BackupProgress& progress) { told.push_back(progress); },
      &AddNothing);
  ASSERT_TRUE(done.ok()) << done.status();
  for (const BackupStage stage : {BackupStage::kVerifying, BackupStage::kRestoring}) {
    uint64_t most = 0;
    uint64_t last = 0;
    for (const BackupProgress& progress : told) {
      if (progress.stage != stage || progress.records > 0) continue;
      EXPECT_EQ(progress.estimated_bytes, done->backup.bytes);
      EXPECT_GE(progress.bytes, last);
      last = progress.bytes;
      most = std::max(most, progress.bytes);
    }
    // Nearly all of it, and no more.
    EXPECT_GT(most, done->backup.bytes / 2) << static_cast<int>(stage);
    EXPECT_LE(most, done->backup.bytes) << static_cast<int>(stage);
  }
}

}  // namespace
}  // namespace idempotency::keystore
