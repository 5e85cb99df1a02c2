// Which directories the RocksDB engine opens, which it refuses, and what it leaves as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <rocksdb/db.h>
#include <stdlib.h>
#include <sys/vfs.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keystore/engine/engine.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/epoch_files.h"
#include "keystore/engine/open_engine.h"
#include "keystore/engine/rocksdb_logger.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::set<std::string> NamesIn(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// A RocksDB of somebody else's.
void MakeForeignDb(const std::string& path) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.info_log = std::make_shared<RocksDbLogger>([](int, std::string_view) {});
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, path, &db).ok());
  delete db;
}

class RocksDbOpen : public ::testing::Test {
 protected:
  // A store with one record, closed.
  void MakeStore() {
    ASSERT_NE(fixture_.Open(), nullptr);
    Store(fixture_.engine(), PayKey("a"), PendingRecord(3));
    fixture_.Close();
  }
  std::string file(const std::string& name) const { return fixture_.data_dir() + "/" + name; }
  uint64_t TokenFloor() {
    const auto result = Read(fixture_.engine(), {});
    return result.ok() ? result->token_floor : 0;
  }

  RocksDbFixture fixture_;
};

TEST_F(RocksDbOpen, MakesItsDirectory) {
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_THAT(
      NamesIn(fixture_.data_dir()),
      ::testing::UnorderedElementsAre("LOCK", "WATERMARK", "ballast", "db", "epoch-a", "epoch-b"));
  EXPECT_EQ(fs::status(fixture_.data_dir()).permissions(), fs::perms::owner_all);
  // RocksDB's lines go to our log, not to a file of its own.
  EXPECT_FALSE(fs::exists(file("db/LOG")));
  EXPECT_TRUE(fixture_.surroundings().Logged(kLogDebug, "rocksdb: "));
}

TEST_F(RocksDbOpen, WarnsOfNothingWhereAllIsWell) {
  MakeStore();
  ASSERT_NE(fixture_.Open(), nullptr);
  fixture_.Close();
  EXPECT_FALSE(fixture_.surroundings().Logged(kLogInfo, ""));
}

TEST_F(RocksDbOpen, StartsTokensAtOne) {
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(TokenFloor(), 1u);
}

TEST_F(RocksDbOpen, TakesADirectoryWithNothingOfAnybodysInIt) {
  fs::create_directories(file("lost+found"));
  WriteText(file(".keep"), "");
  WriteText(file("CLOCK"), "a mark");
  EXPECT_NE(fixture_.Open(), nullptr);
}

TEST_F(RocksDbOpen, GoesOnWhereTheFirstOpeningWasInterrupted) {
  // The epoch files are written first; then the store is made.
  fs::create_directories(fixture_.data_dir());
  ASSERT_TRUE(EpochFiles(fixture_.data_dir()).Store(Epoch{}).ok());
  EXPECT_NE(fixture_.Open(), nullptr);
  fixture_.Close();
  // The same, with the store made and epoch 1 not yet written.
  ASSERT_TRUE(EpochFiles(fixture_.data_dir()).Store(Epoch{}).ok());
  EXPECT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(TokenFloor(), 1u);
}

struct Refusal {
  std::string name;
  std::function<void(RocksDbFixture&)> prepare;
  std::string message;  // a part of it
  absl::StatusCode code = absl::StatusCode::kFailedPrecondition;
};

class RocksDbRefuses : public ::testing::TestWithParam<Refusal> {};

std::string DirOf(const RocksDbFixture& fixture) { return fixture.data_dir(); }

// A store, made and closed; what comes next happens to it.
void MakeClosedStore(RocksDbFixture& fixture) {
  fixture.Open();
  fixture.Close();
}

std::vector<Refusal> RefusedDirectories() {
  return {
      {"NoParent",
       [](RocksDbFixture& fixture) { fixture.options.engine.data_dir += "/deeper/still"; },
       "does not exist; create it"},
      {"AFile", [](RocksDbFixture& fixture) { WriteText(DirOf(fixture), "text"); },
       "is not a directory"},
      {"ForeignFiles",
       [](RocksDbFixture& fixture) {
         fs::create_directories(DirOf(fixture));
         WriteText(DirOf(fixture) + "/photo.jpg", "jpeg");
       },
       "it holds photo.jpg; name an empty directory"},
      {"AForeignRocksDb", [](RocksDbFixture& fixture) { MakeForeignDb(DirOf(fixture)); },
       "is not a store of ours"},
      {"AForeignRocksDbWhereOursWouldBe",
       [](RocksDbFixture& fixture) {
         fs::create_directories(DirOf(fixture));
         MakeForeignDb(DirOf(fixture) + "/db");
       },
       "epoch-a and epoch-b are missing"},
      {"AStoreThatIsNotOurs",
       [](RocksDbFixture& fixture) {
         fs::create_directories(DirOf(fixture));
         MakeForeignDb(DirOf(fixture) + "/db");
         ASSERT_TRUE(EpochFiles(DirOf(fixture)).Store({.epoch = 3, .token_ceiling = 9}).ok());
       },
       "a family is missing"},
  };
}

std::vector<Refusal> RefusedFormats() {
  return {
      {"ANewerFormat",
       [](RocksDbFixture& fixture) {
         MakeClosedStore(fixture);
         const auto store = fixture.OpenStore();
         ASSERT_TRUE(store->db().Put({}, kFormatVersionKey, "3").ok());
       },
       "its format is 3, and this version reads 2"},
      {"AFormatThatIsNoNumber",
       [](RocksDbFixture& fixture) {
         MakeClosedStore(fixture);
         const auto store = fixture.OpenStore();
         ASSERT_TRUE(store->db().Put({}, kFormatVersionKey, "1x").ok());
       },
       "format version cannot be read", absl::StatusCode::kDataLoss},
      {"NoFormat",
       [](RocksDbFixture& fixture) {
         MakeClosedStore(fixture);
         const auto store = fixture.OpenStore();
         ASSERT_TRUE(store->db().Delete({}, kFormatVersionKey).ok());
       },
       "does not say its format"},
      {"AFamilyOfANewerVersion",
       [](RocksDbFixture& fixture) {
         MakeClosedStore(fixture);
         const auto store = fixture.OpenStore();
         rocksdb::ColumnFamilyHandle* handle = nullptr;
         ASSERT_TRUE(store->db().CreateColumnFamily({}, "later", &handle).ok());
         ASSERT_TRUE(store->db().DestroyColumnFamilyHandle(handle).ok());
       },
       "it has a family later"},
  };
}

std::vector<Refusal> RefusedRemains() {
  return {
      {"BothEpochFilesMissing",
       [](RocksDbFixture& fixture) {
         MakeClosedStore(fixture);
         fs::remove(DirOf(fixture) + "/epoch-a");
         fs::remove(DirOf(fixture) + "/epoch-b");
       },
       "epoch-a and epoch-b are missing"},
      {"BothEpochFilesDamaged",
       [](RocksDbFixture& fixture) {
         MakeClosedStore(fixture);
         WriteText(DirOf(fixture) + "/epoch-a", "noise");
         WriteText(DirOf(fixture) + "/epoch-b", "");
       },
       "no intact epoch file is left", absl::StatusCode::kDataLoss},
      {"TheStoreGone",
       [](RocksDbFixture& fixture) {
         MakeClosedStore(fixture);
         fs::remove_all(DirOf(fixture) + "/db");
       },
       "its store is gone"},
  };
}

std::vector<Refusal> RefusedOptions() {
  return {
      {"NoDirectoryNamed", [](RocksDbFixture& fixture) { fixture.options.engine.data_dir.clear(); },
       "data_dir is empty", absl::StatusCode::kInvalidArgument},
      {"MemtablesTooSmall",
       [](RocksDbFixture& fixture) { fixture.options.engine.memtable_bytes = 1000; },
       "memtable_bytes is 1000", absl::StatusCode::kInvalidArgument},
      {"NoClock", [](RocksDbFixture& fixture) { fixture.options.engine.now = nullptr; },
       "needs a clock", absl::StatusCode::kInvalidArgument},
  };
}

std::string NameOf(const ::testing::TestParamInfo<Refusal>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Directories, RocksDbRefuses, ::testing::ValuesIn(RefusedDirectories()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Formats, RocksDbRefuses, ::testing::ValuesIn(RefusedFormats()), NameOf);
INSTANTIATE_TEST_SUITE_P(Remains, RocksDbRefuses, ::testing::ValuesIn(RefusedRemains()), NameOf);
INSTANTIATE_TEST_SUITE_P(Options, RocksDbRefuses, ::testing::ValuesIn(RefusedOptions()), NameOf);

TEST_P(RocksDbRefuses, WithAReasonAndTheNextStep) {
  RocksDbFixture fixture;
  GetParam().prepare(fixture);
  const absl::Status status = fixture.TryOpen();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

TEST_F(RocksDbOpen, LeavesAForeignDirectoryAsItWas) {
  fs::create_directories(fixture_.data_dir());
  WriteText(file("photo.jpg"), "jpeg");
  EXPECT_FALSE(fixture_.TryOpen().ok());
  EXPECT_THAT(NamesIn(fixture_.data_dir()), ::testing::UnorderedElementsAre("photo.jpg"));
}

TEST_F(RocksDbOpen, RefusesASecondEngineOnOneDirectoryAndHarmsNeither) {
  ASSERT_NE(fixture_.Open(), nullptr);
  const absl::Status second = fixture_.TryOpen();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("in use by another process"));
  const auto loaded = EpochFiles(fixture_.data_dir()).Load();
  ASSERT_TRUE(loaded.ok() && loaded->has_value());
  EXPECT_EQ((*loaded)->epoch.epoch, 1u);
  Store(fixture_.engine(), PayKey("a"), PendingRecord(1));
  fixture_.Close();
  EXPECT_TRUE(fixture_.TryOpen().ok());
}

TEST_F(RocksDbOpen, AMissingOrDamagedEpochFileIsRepairedFromTheOther) {
  MakeStore();
  for (const char* name : {"epoch-a", "epoch-b"}) {
    for (const bool missing : {true, false}) {
      SCOPED_TRACE(std::string(name) + (missing ? " missing" : " damaged"));
      if (missing) {
        fs::remove(file(name));
      } else {
        WriteText(file(name), "idempotency epoch 1\nepoch 9\n");
      }
      const auto before = EpochFiles(fixture_.data_dir()).Load();
      ASSERT_TRUE(before.ok() && before->has_value());
      ASSERT_TRUE((*before)->repair);
      ASSERT_NE(fixture_.Open(), nullptr);
      EXPECT_EQ(TokenFloor(), (*before)->epoch.token_ceiling);
      EXPECT_TRUE(fixture_.surroundings().Logged(kLogWarning, "missing or damaged"));
      fixture_.Close();
      const auto after = EpochFiles(fixture_.data_dir()).Load();
      ASSERT_TRUE(after.ok() && after->has_value());
      EXPECT_FALSE((*after)->repair);
    }
  }
}

TEST_F(RocksDbOpen, NeverGivesATokenTwiceThoughTheNewestRecordsAreLost) {
  MakeStore();
  fs::copy(file("db"), file("copy"), fs::copy_options::recursive);
  ASSERT_NE(fixture_.Open(), nullptr);
  const uint64_t given = TokenFloor() + 100;
  Store(fixture_.engine(), PayKey("lost"), PendingRecord(given));
  fixture_.Close();
  fs::remove_all(file("db"));
  fs::rename(file("copy"), file("db"));
  fixture_.options.engine.accept_loss = 2;
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_GT(TokenFloor(), given);
}

TEST_F(RocksDbOpen, ARelativeDirectoryIsTheSameOne) {
  MakeStore();
  const fs::path relative = fs::relative(fixture_.data_dir());
  fixture_.options.engine.data_dir = relative.string() + "/";
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_FALSE(
      std::holds_alternative<core::Absent>(ReadOne(fixture_.engine(), PayKey("a")).stored));
}

TEST_F(RocksDbOpen, ClosingLeavesNothingToReplay) {
  MakeStore();
  for (const auto& entry : fs::directory_iterator(file("db"))) {
    if (entry.path().extension() == ".log") EXPECT_EQ(entry.file_size(), 0u) << entry.path();
  }
}

TEST(OpenEngine, OpensTheEngineThatIsNamed) {
  RocksDbFixture fixture;
  EngineOptions options = fixture.options.engine;
  for (const char* name : {"rocksdb", "memory"}) {
    options.engine = name;
    auto engine = OpenEngine(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    Store(**engine, PayKey("a"), PendingRecord(1));
    EXPECT_TRUE((*engine)->traits().exclusive);
  }
  EXPECT_TRUE(fs::exists(fixture.data_dir()));
}

TEST(OpenEngine, WarnsOfADirectoryInMemory) {
  std::string in_memory = "/dev/shm/idempotency-XXXXXX";
  ASSERT_NE(mkdtemp(in_memory.data()), nullptr);
  // Nearly everywhere; where it is not, there is nothing to warn of.
  struct statfs volume {};
  ASSERT_EQ(statfs(in_memory.c_str(), &volume), 0);
  const bool is_in_memory = volume.f_type == TMPFS_MAGIC;
  RocksDbFixture fixture;
  fixture.options.engine.engine = "rocksdb";
  fixture.options.engine.data_dir = in_memory + "/store";
  {
    const auto engine = OpenEngine(fixture.options.engine);
    EXPECT_TRUE(engine.ok()) << engine.status();
  }
  fs::remove_all(in_memory);
  EXPECT_EQ(fixture.surroundings().Logged(kLogWarning, "is in memory"), is_in_memory);
}

TEST(OpenEngine, MemoryNeedsNoOtherOption) { EXPECT_TRUE(OpenEngine({.engine = "memory"}).ok()); }

TEST(OpenEngine, RefusesAnUnknownEngine) {
  const absl::Status status = OpenEngine({.engine = "etcd"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("use rocksdb or memory"));
}

}  // namespace
}  // namespace idempotency::keystore
