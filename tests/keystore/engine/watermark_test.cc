// What is acknowledged and lost is noticed when the store is opened: the watermark, alone and
// against stores from which something was taken away.
#include "keystore/engine/watermark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/engine/durable_file.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/epoch_files.h"
#include "keystore/engine/manifest_tail.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"
#include "tests/support/copy_directory.h"
#include "tests/support/temp_directory.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr size_t kSlotBytes = 4096;

Watermark SomeWatermark() {
  return Watermark{.epoch = 3,
                   .store_id = "2f8b0c4e-0000",
                   .sequence = 123'456,
                   .wal_last = 12,
                   .token = 4711,
                   .manifest = {.name = "MANIFEST-000012", .bytes = 4096, .crc = 2'313'886'145},
                   .lost_before = core::Time(std::chrono::milliseconds(1'700'000'000'000))};
}

// --- The file
// --------------------------------------------------------------------------------------

TEST(Watermark, TheTextIsAContract) {
  EXPECT_EQ(EncodeWatermark(17, SomeWatermark()),
            "idempotency watermark 1\nwrite 17\nepoch 3\nstore 2f8b0c4e-0000\nsequence 123456\n"
            "wal_last 12\ntoken 4711\nmanifest MANIFEST-000012 4096 2313886145\n"
            "lost_before 1700000000000\ncrc32 766ff80f\n");
  const auto decoded = DecodeWatermark(EncodeWatermark(17, SomeWatermark()));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->write, 17u);
  EXPECT_EQ(decoded->watermark, SomeWatermark());
}

TEST(Watermark, EveryFlippedBitAndEveryCutIsNoticed) {
  std::string slot = EncodeWatermark(17, SomeWatermark());
  slot.resize(slot.size() + 20, '\0');
  ASSERT_TRUE(DecodeWatermark(slot).has_value());
  for (size_t bit = 0; bit < slot.size() * 8; ++bit) {
    std::string flipped = slot;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeWatermark(flipped), std::nullopt) << "bit " << bit;
  }
  for (size_t size = 0; size + 20 < slot.size(); ++size) {
    EXPECT_EQ(DecodeWatermark(slot.substr(0, size)), std::nullopt) << size;
  }
}

class WatermarkFileTest : public ::testing::Test {
 protected:
  // As a process that starts finds it.
  absl::StatusOr<std::optional<Watermark>> Load() {
    return WatermarkFile(directory_.file("WATERMARK")).Load();
  }
  // Stores it as the n-th of a run.
  void StoreUpTo(uint64_t sequence) {
    WatermarkFile file(directory_.file("WATERMARK"));
    ASSERT_TRUE(file.Load().ok());
    Watermark watermark = SomeWatermark();
    for (watermark.sequence = 1; watermark.sequence <= sequence; ++watermark.sequence) {
      ASSERT_TRUE(file.Store(watermark).ok());
    }
  }
  void Overwrite(size_t offset, const std::string& bytes) {
    std::fstream file(directory_.file("WATERMARK"), std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
  }

  const TempDirectory directory_;
};

TEST_F(WatermarkFileTest, TheNewestWriteCounts) {
  EXPECT_EQ(Load()->has_value(), false);
  for (const uint64_t writes : {1, 2, 3, 6}) {
    StoreUpTo(writes);
    EXPECT_EQ((*Load())->sequence, writes);
    EXPECT_EQ(fs::file_size(directory_.file("WATERMARK")), 2 * kSlotBytes);
  }
}

TEST_F(WatermarkFileTest, AWriteThatIsTornLeavesTheOneBefore) {
  StoreUpTo(6);
  for (const size_t slot : {0, 1}) {
    const std::string path = directory_.file("WATERMARK");
    const std::string whole = **ReadSmallFile(path, 2 * kSlotBytes);
    Overwrite(slot * kSlotBytes + 40, "torn");
    const auto loaded = Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_THAT((*loaded)->sequence, ::testing::AnyOf(5, 6));
    ASSERT_TRUE(WriteFileDurably(path, whole).ok());
  }
}

TEST_F(WatermarkFileTest, NoIntactSlotIsDataLoss) {
  StoreUpTo(6);
  Overwrite(40, "damage");
  Overwrite(kSlotBytes + 40, "damage");
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(WriteFileDurably(directory_.file("WATERMARK"), "").ok());
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kDataLoss);
}

// --- Stores from which something was taken away ------------------------------------------------

void Zero(const std::string& path, uint64_t offset, uint64_t bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file << std::string(bytes, '\0');
}

// A record of a log or a manifest whose first sector is on the disk, and whose second is not.
std::string TornRecord() {
  std::string record("\x11\x22\x33\x44\x40\x00\x01", 7);
  record.append(20, 'e').append(44, '\0');
  return record;
}

class LostRecords : public ::testing::Test {
 protected:
  LostRecords() {
    fixture_.options.watermark_interval = core::Duration::zero();
    fixture_.Open();
  }

  void Write(int first, int last, size_t body_bytes = 100) {
    for (int i = first; i <= last; ++i) {
      keystore::Store(fixture_.engine(), PayKey(std::to_string(i)),
                      CompleteRecord(++token_, std::string(body_bytes, 'b')));
    }
  }
  // A pending operation keeps its log alive while the finished ones are flushed.
  void WriteUntilOneFamilyIsFlushed() {
    fixture_.options.engine.memtable_bytes = 64 * 1024;
    fixture_.Open();
    keystore::Store(fixture_.engine(), PayKey("pending"), PendingRecord(++token_));
    Write(1, 10, 10'000);
    ASSERT_TRUE(fixture_.surroundings().WaitForLog(kLogDebug, "flush_finished"));
    Write(11, 11);
    Sync();
    Sync();
  }
  void Sync() { ASSERT_TRUE(fixture_.engine().SyncWatermark().ok()); }

  // The store as kill -9 would leave it now, for another engine.
  void Crash() {
    CopyLiveDirectory(fixture_.data_dir(), crashed_.directory().file("crashed"));
    crashed_.options = fixture_.options;
    crashed_.options.engine.data_dir = crashed_.directory().file("crashed");
    crashed_.options.engine.log = [this](int level, std::string_view line) {
      crashed_.surroundings().Log(level, line);
    };
  }
  std::string db(const std::string& name) const { return crashed_.data_dir() + "/db/" + name; }
  // Of the crashed store, and not empty, lowest first.
  std::vector<std::string> Files(const std::string& suffix) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(db(""))) {
      const std::string path = entry.path();
      if (path.ends_with(suffix) && entry.file_size() > 0) files.push_back(path);
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  std::string Current() const {
    std::string name;
    std::ifstream(db("CURRENT")) >> name;
    return db(name);
  }

  void ExpectRefused(const std::string& why, absl::StatusCode code = absl::StatusCode::kDataLoss) {
    const absl::Status status = crashed_.TryOpen();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    // Looking at it changes nothing.
    EXPECT_EQ(crashed_.TryOpen(), status);
  }
  void ExpectOpensWith(int keys) {
    ASSERT_NE(crashed_.Open(), nullptr);
    EXPECT_EQ(ScanAll(crashed_.engine(), {}, 1000).size(), static_cast<size_t>(keys));
  }
  void AcceptLoss(uint64_t run) { crashed_.options.engine.accept_loss = run; }

  uint64_t token_ = 0;
  RocksDbFixture fixture_;
  RocksDbFixture crashed_;
};

TEST_F(LostRecords, NothingLostIsOpened) {
  Write(1, 50);
  Sync();
  Write(51, 60);
  Crash();
  ExpectOpensWith(60);
  EXPECT_FALSE(crashed_.surroundings().Logged(kLogWarning, ""));
}

// As where two hosts have mounted one volume, and no lock holds between them.
TEST_F(LostRecords, AStoreThatALaterRunHasOpenedIsNotWrittenToAnyMore) {
  Write(1, 5);
  Sync();
  WatermarkFile other(fixture_.data_dir() + "/WATERMARK");
  auto watermark = other.Load();
  ASSERT_TRUE(watermark.ok() && watermark->has_value());
  ++(*watermark)->epoch;
  ASSERT_TRUE(other.Store(**watermark).ok());
  Write(6, 6);
  EXPECT_EQ(fixture_.engine().SyncWatermark().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(fixture_.engine().pressure().alive);
  EXPECT_TRUE(fixture_.surroundings().Logged(kLogError, "only one may have the volume"));
  fixture_.Close();
  EXPECT_EQ((*WatermarkFile(fixture_.data_dir() + "/WATERMARK").Load())->epoch,
            (*watermark)->epoch);
}

TEST_F(LostRecords, ALogThatEndsEarlyIsRefused) {
  Write(1, 50);
  Sync();
  Crash();
  const std::string log = Files(".log").back();
  fs::resize_file(log, fs::file_size(log) - 1);
  ExpectRefused("has lost records: writes up to ");
  ExpectRefused("--accept_loss=1");
}

TEST_F(LostRecords, WhatIsNewerThanTheWatermarkMayBeCutOff) {
  Write(1, 50);
  Sync();
  Write(51, 51);
  Crash();
  const std::string log = Files(".log").back();
  fs::resize_file(log, fs::file_size(log) - 1);
  ExpectOpensWith(50);
}

TEST_F(LostRecords, TheNewestLogGoneIsRefused) {
  Write(1, 50);
  Sync();
  Sync();
  Crash();
  fs::remove(Files(".log").back());
  ExpectRefused("has lost records");
}

TEST_F(LostRecords, PagesZeroedInTheMiddleOfALogAreRefused) {
  Write(1, 20, 10'000);
  Crash();
  // Behind what the watermark knows of: RocksDB would replay around the hole without a word.
  const std::string log = Files(".log").back();
  ASSERT_GT(fs::file_size(log), 3u * 32 * 1024);
  Zero(log, 32 * 1024, 32 * 1024);
  ExpectOpensWith(3);
  EXPECT_TRUE(crashed_.surroundings().Logged(kLogWarning, "cannot be read"));
}

TEST_F(LostRecords, PagesZeroedInFrontOfTheWatermarkAreRefused) {
  Write(1, 20, 10'000);
  Sync();
  Crash();
  Zero(Files(".log").back(), 32 * 1024, 32 * 1024);
  ExpectRefused("are left");
}

TEST_F(LostRecords, TheFirstPageZeroedIsRefused) {
  Write(1, 20, 10'000);
  Sync();
  Crash();
  Zero(Files(".log").back(), 0, 32 * 1024);
  ExpectRefused("those up to 0 are left");
}

TEST_F(LostRecords, ALogOfWhichNothingIsLeftThoughAnotherFollowsIsRefused) {
  WriteUntilOneFamilyIsFlushed();
  Crash();
  ASSERT_GE(Files(".log").size(), 2u);
  const std::string log = Files(".log").front();
  Zero(log, 0, fs::file_size(log));
  ExpectRefused("nothing can be read in ");
}

TEST_F(LostRecords, AnOlderLogGoneIsRefused) {
  WriteUntilOneFamilyIsFlushed();
  Crash();
  fs::remove(Files(".log").front());
  ExpectRefused("Missing WAL");
}

TEST_F(LostRecords, EveryLogGoneIsRefused) {
  WriteUntilOneFamilyIsFlushed();
  Crash();
  for (const std::string& log : Files(".log")) fs::remove(log);
  ExpectRefused("");
}

TEST_F(LostRecords, AManifestThatEndsEarlyIsRefused) {
  // A flush whose edit is gone: its table would be taken for rubbish, and its log is gone.
  Write(1, 20, 10'000);
  ASSERT_TRUE(fixture_.engine().Compact().ok());
  Crash();
  Zero(Current(), fs::file_size(Current()) - 200, 200);
  ExpectRefused("manifest");
}

TEST_F(LostRecords, AManifestThatIsTornBehindTheWatermarkIsCutOff) {
  Write(1, 50);
  Sync();
  Crash();
  const std::string manifest = Current();
  const auto size = fs::file_size(manifest);
  std::ofstream(manifest, std::ios::app | std::ios::binary) << TornRecord();
  ExpectOpensWith(50);
  EXPECT_TRUE(crashed_.surroundings().Logged(kLogWarning, "behind the last whole edit"));
  const std::string copy =
      crashed_.data_dir() + "/" + fs::path(manifest).filename().string() + ".torn";
  EXPECT_EQ(fs::file_size(copy), size + TornRecord().size());
}

TEST_F(LostRecords, AManifestThatIsTornInFrontOfTheWatermarkIsLeftAsItIs) {
  Write(1, 50);
  Sync();
  Crash();
  const auto size = fs::file_size(Current());
  Zero(Current(), size / 2, 20);
  const absl::Status status = crashed_.TryOpen();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_EQ(fs::file_size(Current()), size);
}

TEST(ManifestTail, EndsBehindTheLastWholeEdit) {
  EXPECT_EQ(EndOfWholeEdits(""), 0u);
  EXPECT_EQ(EndOfWholeEdits(std::string(100, '\0')), 0u);
  RocksDbFixture fixture;
  fixture.Open();
  std::string name;
  std::ifstream(fixture.data_dir() + "/db/CURRENT") >> name;
  const std::string manifest = **ReadSmallFile(fixture.data_dir() + "/db/" + name, 1 << 20);
  EXPECT_EQ(EndOfWholeEdits(manifest), manifest.size());
  size_t last = 0;
  for (size_t size = 0; size < manifest.size(); ++size) {
    const size_t end = EndOfWholeEdits(std::string_view(manifest).substr(0, size));
    EXPECT_LE(end, size);
    EXPECT_GE(end, last);
    EXPECT_EQ(EndOfWholeEdits(manifest.substr(0, size) + TornRecord()), end);
    last = end;
  }
}

TEST_F(LostRecords, AnOlderManifestIsRefused) {
  Write(1, 20);
  fixture_.Close();
  fs::copy(fixture_.data_dir(), crashed_.directory().file("old"), fs::copy_options::recursive);
  fixture_.Open();
  Write(21, 40);
  Crash();
  fs::remove_all(db(""));
  fs::copy(crashed_.directory().file("old/db"), db(""), fs::copy_options::recursive);
  ExpectRefused("CURRENT does not name MANIFEST-");
}

TEST_F(LostRecords, AnotherStoreIsRefused) {
  Write(1, 20);
  Crash();
  RocksDbFixture other;
  other.Open();
  for (int i = 0; i < 100; ++i) {
    keystore::Store(other.engine(), PayKey(std::to_string(i)), CompleteRecord(1));
  }
  other.Close();
  other.Open();
  other.Close();
  fs::remove_all(db(""));
  fs::copy(other.data_dir() + "/db", db(""), fs::copy_options::recursive);
  ExpectRefused("holds another store");
}

TEST_F(LostRecords, NoWatermarkIsRefused) {
  Write(1, 5);
  Crash();
  fs::remove(crashed_.data_dir() + "/WATERMARK");
  ExpectRefused("has lost its watermark");
  ASSERT_TRUE(WriteFileDurably(crashed_.data_dir() + "/WATERMARK", "rubbish").ok());
  ExpectRefused("has lost its watermark");
}

TEST_F(LostRecords, AnEmptyDirectoryWithAWatermarkIsRefused) {
  Write(1, 5);
  Crash();
  fs::remove_all(db(""));
  fs::remove(crashed_.data_dir() + "/epoch-a");
  fs::remove(crashed_.data_dir() + "/epoch-b");
  ExpectRefused("has the watermark of a store that is gone", absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(WriteFileDurably(crashed_.data_dir() + "/WATERMARK", "rubbish").ok());
  ExpectRefused("has the watermark of a store that is gone", absl::StatusCode::kFailedPrecondition);
}

TEST_F(LostRecords, ATornLogOfAnEarlierRunThatComesBackIsNoLoss) {
  // The first write of a run is cut off; in the next run that log is not needed any more, but
  // its removal is lost in another power cut.
  Write(1, 5);
  Crash();
  crashed_.Open();
  crashed_.Close();
  const std::string torn = db("000099.log");
  for (const auto& entry : fs::directory_iterator(db(""))) {
    if (entry.path().extension() == ".log") fs::rename(entry.path(), torn);
  }
  std::ofstream(torn, std::ios::binary) << std::string(50, 'x');
  fs::copy(torn, crashed_.directory().file("torn"));
  ASSERT_NE(crashed_.Open(), nullptr);
  keystore::Store(crashed_.engine(), PayKey("6"), CompleteRecord(9000));
  ASSERT_TRUE(crashed_.engine().SyncWatermark().ok());
  ASSERT_TRUE(crashed_.engine().SyncWatermark().ok());
  fs::copy(crashed_.data_dir(), crashed_.directory().file("again"), fs::copy_options::recursive);
  crashed_.Close();
  crashed_.options.engine.data_dir = crashed_.directory().file("again");
  fs::copy(crashed_.directory().file("torn"), db("000099.log"),
           fs::copy_options::overwrite_existing);
  ExpectOpensWith(6);
}

// The first write of a log is cut off. The next opening begins another log with the number that
// this write would have had, and is itself cut off before the manifest says that the torn one is
// not needed any more.
TEST_F(LostRecords, ATornLogBehindWhichAnOpeningWasCutOffIsNoLoss) {
  Write(1, 5);
  Sync();
  Crash();
  std::ofstream(db("000098.log"), std::ios::binary) << TornRecord();
  const std::string cut_off = crashed_.directory().file("cut_off");
  fs::copy(crashed_.data_dir(), cut_off, fs::copy_options::recursive);
  ASSERT_NE(crashed_.Open(), nullptr);
  const fs::path begun = Files(".log").back();
  ASSERT_GT(begun.filename(), "000098.log");
  fs::copy(begun, cut_off + "/db/" + begun.filename().string());
  crashed_.Close();
  crashed_.options.engine.data_dir = cut_off;
  ExpectOpensWith(5);
}

// The same, where nothing of the write has reached the disk but the size of its file.
TEST_F(LostRecords, AnEmptyLogBetweenTwoThatFollowEachOtherIsNoLoss) {
  WriteUntilOneFamilyIsFlushed();
  Crash();
  ASSERT_GE(Files(".log").size(), 2u);
  const std::string torn = Files(".log").back();
  fs::rename(torn, db("000099.log"));
  std::ofstream(torn, std::ios::binary) << std::string(100, '\0');
  ExpectOpensWith(12);
}

TEST_F(LostRecords, ATornLogOfWhichTheNextOneMissesWritesIsRefused) {
  WriteUntilOneFamilyIsFlushed();
  Write(12, 12);
  Crash();
  ASSERT_GE(Files(".log").size(), 2u);
  const std::string torn = Files(".log").back();
  // What follows its first write: behind crc 4, length 2 (lowest byte first), type 1, bytes.
  const std::string whole = **ReadSmallFile(torn, 1 << 20);
  const size_t first =
      7u + static_cast<unsigned char>(whole[4]) + 256u * static_cast<unsigned char>(whole[5]);
  ASSERT_LT(first, whole.size());
  std::ofstream(db("000099.log"), std::ios::binary) << whole.substr(first);
  std::ofstream(torn, std::ios::binary) << TornRecord();
  ExpectRefused("has lost records");
}

TEST_F(LostRecords, TheIdentityFileGoneIsNoLoss) {
  Write(1, 5);
  Crash();
  fs::remove(db("IDENTITY"));
  ExpectOpensWith(5);
}

// --- An accepted loss
// -------------------------------------------------------------------------------

class AcceptedLoss : public LostRecords {
 protected:
  // Keys "pending" and "unresolved", "1" to "30"; what is behind "20" is lost.
  void Lose() {
    keystore::Store(fixture_.engine(), PayKey("pending"), PendingRecord(1000));
    keystore::Store(fixture_.engine(), PayKey("unresolved"), UnresolvedRecord(999));
    Write(1, 20);
    Crash();
    const uint64_t kept = fs::file_size(Files(".log").back());
    Write(21, 30);
    Sync();
    fs::remove_all(crashed_.data_dir());
    Crash();
    fs::resize_file(Files(".log").back(), kept);
    ExpectRefused("has lost records");
  }
  core::State StateOf(const std::string& key) {
    const ReadEntry entry = ReadOne(crashed_.engine(), PayKey(key));
    const auto* record = std::get_if<core::Record>(&entry.stored);
    return record == nullptr ? core::State::kFreed : record->state;
  }
};

TEST_F(AcceptedLoss, PendingBecomesUnresolvedAndTheRestStays) {
  Lose();
  AcceptLoss(1);
  ExpectOpensWith(22);
  EXPECT_EQ(StateOf("pending"), core::State::kUnresolved);
  EXPECT_EQ(StateOf("unresolved"), core::State::kUnresolved);
  EXPECT_EQ(StateOf("20"), core::State::kComplete);
  EXPECT_EQ(crashed_.engine().traits().lost_before, kStart);
  EXPECT_TRUE(crashed_.surroundings().Logged(kLogError, "1 pending operations are unresolved"));
  // Tokens that were given and lost are not given again.
  EXPECT_GT(Read(crashed_.engine(), {})->token_floor, 1000u);
}

TEST_F(AcceptedLoss, IsRememberedAndNotAcceptedOnceMore) {
  Lose();
  AcceptLoss(1);
  ASSERT_NE(crashed_.Open(), nullptr);
  crashed_.Close();
  // The flag is still there; nothing is lost any more.
  crashed_.surroundings().SetNow(core::At(kStart + std::chrono::hours(1)));
  ExpectOpensWith(22);
  EXPECT_EQ(crashed_.engine().traits().lost_before, kStart);
  keystore::Store(crashed_.engine(), PayKey("pending again"), PendingRecord(5000));
  ASSERT_TRUE(crashed_.engine().SyncWatermark().ok());
  crashed_.Close();
  // Another loss is another matter.
  fs::remove(Files(".sst").back());
  EXPECT_EQ(crashed_.TryOpen().code(), absl::StatusCode::kDataLoss);
}

TEST_F(AcceptedLoss, OnlyOfTheRunThatTheRefusalNames) {
  Lose();
  for (const uint64_t run : {0, 2, 7}) {
    AcceptLoss(run);
    ExpectRefused("--accept_loss=1");
  }
}

TEST_F(AcceptedLoss, AStoreThatIsGoneBeginsAnew) {
  Lose();
  fs::remove(db("CURRENT"));
  ExpectRefused("its store is gone", absl::StatusCode::kFailedPrecondition);
  AcceptLoss(1);
  ExpectOpensWith(0);
  EXPECT_EQ(crashed_.engine().traits().lost_before, kStart);
  EXPECT_GT(Read(crashed_.engine(), {})->token_floor, 1000u);
  // What is left of it is kept for whoever looks into it.
  EXPECT_TRUE(fs::exists(crashed_.data_dir() + "/db.lost-1/MANIFEST-000005") ||
              !fs::is_empty(crashed_.data_dir() + "/db.lost-1"));
}

TEST_F(AcceptedLoss, TheEpochFilesGoneTooTokensGoOn) {
  Lose();
  fs::remove(crashed_.data_dir() + "/epoch-a");
  fs::remove(crashed_.data_dir() + "/epoch-b");
  ExpectRefused("epoch-a and epoch-b are missing", absl::StatusCode::kFailedPrecondition);
  AcceptLoss(1);
  ExpectOpensWith(22);
  EXPECT_GT(Read(crashed_.engine(), {})->token_floor, 1000u);
}

TEST_F(AcceptedLoss, EpochFilesOlderThanTheWatermarkRepeatNoToken) {
  Write(1, 5);
  keystore::Store(fixture_.engine(), PayKey("far"), PendingRecord(uint64_t{1} << 40));
  Sync();
  Crash();
  ASSERT_TRUE(EpochFiles(crashed_.data_dir()).Store({.epoch = 1, .token_ceiling = 7}).ok());
  ASSERT_NE(crashed_.Open(), nullptr);
  EXPECT_GT(Read(crashed_.engine(), {})->token_floor, uint64_t{1} << 40);
}

}  // namespace
}  // namespace idempotency::keystore
