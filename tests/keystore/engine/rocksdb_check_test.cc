// What a check makes of the disk below a RocksDB; and what it sees of a real one.
#include "keystore/engine/rocksdb_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>

#include <filesystem>
#include <string>
#include <vector>

#include "keystore/engine/memory_engine.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/findings.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSubsetOf;

constexpr uint64_t kMinFree = 1000;
constexpr uint64_t kBallast = 100;

RocksDbCheckFacts Good() {
  return {.data_dir = "/data",
          .file_system = EXT4_SUPER_MAGIC,
          .store_file_system = EXT4_SUPER_MAGIC,
          .sync = {.syncs = kProbeSyncs, .took = core::Duration(60)},
          .free_bytes = kMinFree,
          .min_free_bytes = kMinFree,
          .ballast_bytes = kBallast,
          .ballast_held = true,
          .log_beside_data = true};
}

TEST(RocksDbCheck, WhatIsWellIsCalledWell) {
  EXPECT_EQ(IdsOf(Judge(Good()), Severity::kOk).size(), Judge(Good()).size());
  ExpectDocumented(Judge(Good()));
}

TEST(RocksDbCheck, EachFindingByWhatRaisesIt) {
  using F = RocksDbCheckFacts;
  ExpectRows<F>(
      Good,
      {{"dead",
        [](F& f) { f.alive = false; },
        "rocksdb.alive",
        Severity::kGuaranteeFails,
        {"rocksdb.watermark"}},
       {"in memory", [](F& f) { f.file_system = TMPFS_MAGIC; }, "rocksdb.file_system",
        Severity::kGuaranteeFails},
       {"in memory that is not swapped", [](F& f) { f.file_system = RAMFS_MAGIC; },
        "rocksdb.file_system", Severity::kGuaranteeFails},
       {"on a network", [](F& f) { f.file_system = NFS_SUPER_MAGIC; }, "rocksdb.file_system",
        Severity::kWarning},
       {"in a container's layer", [](F& f) { f.file_system = OVERLAYFS_SUPER_MAGIC; },
        "rocksdb.file_system", Severity::kWarning},
       {"on what nobody knows", [](F& f) { f.file_system = 0x1234; }, "rocksdb.file_system",
        Severity::kNotChecked},
       {"in memory below a disk", [](F& f) { f.store_file_system = TMPFS_MAGIC; },
        "rocksdb.file_system", Severity::kGuaranteeFails},
       {"not told", [](F& f) { f.file_system.reset(); }, "rocksdb.file_system",
        Severity::kNotChecked},
       {"no sync", [](F& f) { f.sync.status = absl::UnavailableError("EIO"); }, "rocksdb.sync",
        Severity::kGuaranteeFails},
       {"no room to sync",
        [](F& f) { f.sync = {.status = absl::UnavailableError("ENOSPC"), .no_space = true}; },
        "rocksdb.sync", Severity::kNotChecked},
       {"none was made", [](F& f) { f.sync.syncs = 0; }, "rocksdb.sync", Severity::kNotChecked},
       {"too fast", [](F& f) { f.sync.took = core::Duration(1); }, "rocksdb.sync",
        Severity::kWarning},
       {"too slow", [](F& f) { f.sync = {.syncs = 10, .took = core::Duration(201)}; },
        "rocksdb.sync", Severity::kWarning},
       {"its log elsewhere", [](F& f) { f.log_beside_data = false; }, "rocksdb.log_volume",
        Severity::kWarning},
       {"its log nowhere", [](F& f) { f.log_beside_data.reset(); }, "rocksdb.log_volume",
        Severity::kNotChecked},
       {"no watermark", [](F& f) { f.watermark = absl::UnavailableError("ENOSPC"); },
        "rocksdb.watermark", Severity::kGuaranteeFails},
       {"full", [](F& f) { f.free_bytes = kMinFree - 1; }, "rocksdb.space", Severity::kWarning},
       {"room not told", [](F& f) { f.free_bytes.reset(); }, "rocksdb.space",
        Severity::kNotChecked},
       {"no ballast any more",
        [](F& f) { f.ballast_held = false; },
        "rocksdb.ballast",
        Severity::kWarning,
        {"rocksdb.space"}},
       {"no ballast wanted", [](F& f) { f.ballast_bytes = 0; }, "rocksdb.ballast",
        Severity::kWarning},
       {"background errors", [](F& f) { f.background_errors = 1; }, "rocksdb.background_errors",
        Severity::kWarning},
       {"held up", [](F& f) { f.stalled = true; }, "rocksdb.stall", Severity::kWarning}});
}

TEST(RocksDbCheck, LimitsAreExact) {
  RocksDbCheckFacts facts = Good();
  facts.sync.took = core::Duration(2);
  EXPECT_EQ(FindingOf(Judge(facts), "rocksdb.sync").severity, Severity::kOk);
  facts.sync = {.syncs = 10, .took = core::Duration(200)};
  EXPECT_EQ(FindingOf(Judge(facts), "rocksdb.sync").severity, Severity::kOk);
  // Room for the ballast that is missing counts as taken.
  facts.ballast_held = false;
  facts.free_bytes = kMinFree + kBallast - 1;
  EXPECT_EQ(FindingOf(Judge(facts), "rocksdb.space").severity, Severity::kWarning);
  facts.free_bytes = kMinFree + kBallast;
  EXPECT_EQ(FindingOf(Judge(facts), "rocksdb.space").severity, Severity::kOk);
}

TEST(RocksDbCheck, OfAStoreThatIsInUse) {
  RocksDbFixture fixture;
  fixture.options.free_bytes = [] { return uint64_t{1} << 40; };
  RocksDbEngine* const engine = fixture.Open();
  Store(*engine, PayKey("a"), PendingRecord());
  const EngineCheck check = engine->CheckStore();
  EXPECT_EQ(check.engine, "rocksdb");
  EXPECT_THAT(check.version, HasSubstr("."));
  // What the test's directory is on, and how fast that is, belongs to the machine.
  EXPECT_THAT(IdsOf(check.findings, Severity::kGuaranteeFails),
              IsSubsetOf({std::string("rocksdb.file_system")}));
  EXPECT_THAT(IdsOf(check.findings, Severity::kWarning),
              IsSubsetOf({"rocksdb.file_system", "rocksdb.sync", "rocksdb.ballast"}));
  EXPECT_EQ(FindingOf(check.findings, "rocksdb.watermark").severity, Severity::kOk);
  EXPECT_EQ(FindingOf(check.findings, "rocksdb.log_volume").severity, Severity::kOk);
  // It has changed nothing, and left nothing.
  EXPECT_TRUE(Read(*engine, {PayKey("a")}).ok());
  EXPECT_FALSE(std::filesystem::exists(fixture.data_dir() + "/CHECK"));
}

TEST(RocksDbCheck, OfAFullDisk) {
  RocksDbFixture fixture;
  uint64_t free = uint64_t{1} << 40;
  fixture.options.free_bytes = [&free] { return free; };
  RocksDbEngine* const engine = fixture.Open();
  EXPECT_EQ(FindingOf(engine->CheckStore().findings, "rocksdb.space").severity, Severity::kOk);
  free = 1;
  EXPECT_EQ(FindingOf(engine->CheckStore().findings, "rocksdb.space").severity, Severity::kWarning);
}

TEST(RocksDbCheck, ADirectoryThatIsGoneCannotBeSynced) {
  const SyncProbe probe = ProbeSync("/nowhere/at/all", [] { return core::Time(); });
  EXPECT_FALSE(probe.status.ok());
  EXPECT_EQ(FileSystemOf("/nowhere/at/all"), std::nullopt);
  EXPECT_EQ(OnOneVolume("/nowhere/at/all", "/"), std::nullopt);
  EXPECT_EQ(OnOneVolume("/proc", "/"), false);
  EXPECT_NE(FileSystemOf("/proc"), std::nullopt);
}

TEST(RocksDbCheck, ADiskThatTakesASecondASyncIsAskedOnce) {
  const TempDirectory directory;
  core::Time now;
  const SyncProbe probe = ProbeSync(directory.path(), [&now] {
    now += std::chrono::seconds(1);
    return now;
  });
  EXPECT_TRUE(probe.status.ok());
  EXPECT_EQ(probe.syncs, 1u);
}

TEST(EngineCheck, WhatNobodyLooksAtIsNotCalledWell) {
  MemoryEngine memory;
  EXPECT_EQ(FindingOf(memory.CheckStore().findings, "memory.durability").severity,
            Severity::kGuaranteeFails);
  EXPECT_THAT(IdsOf(memory.Engine::CheckStore().findings, Severity::kOk), IsEmpty());
}

}  // namespace
}  // namespace idempotency::keystore
