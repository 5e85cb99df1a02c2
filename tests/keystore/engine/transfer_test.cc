// Moving records between engines: what arrives, what is noticed, and what a store says of itself
// while it holds only a part, and once its records were moved away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "keystore/engine/memory_engine.h"
#include "keystore/engine/record_sealer.h"
#include "keystore/engine/transfer/import_mark.h"
#include "keystore/engine/transfer/record_export.h"
#include "keystore/engine/transfer/record_import.h"
#include "keystore/engine/transfer/retirement.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"
#include "tests/keystore/engine/subjects.h"

namespace idempotency::keystore {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr core::Time kNow = kStart + hours(24 * 30);

bool NeverStopped() { return false; }

// Everything that an export gives.
struct Exported {
  TransferFacts facts;
  std::vector<RecordChunk> chunks;
  RecordTotals totals;
};

Exported MustExport(Engine& engine, const std::string& name = "memory") {
  Exported exported;
  RecordExport records(&engine, name);
  const auto facts = records.Begin(kNow);
  EXPECT_TRUE(facts.ok()) << facts.status();
  if (!facts.ok()) return exported;
  exported.facts = *facts;
  for (;;) {
    absl::StatusOr<RecordChunk> chunk = records.Next();
    EXPECT_TRUE(chunk.ok()) << chunk.status();
    if (!chunk.ok() || chunk->records.empty()) break;
    exported.chunks.push_back(*std::move(chunk));
  }
  const auto totals = records.End(&NeverStopped);
  EXPECT_TRUE(totals.ok()) << totals.status();
  if (totals.ok()) exported.totals = *totals;
  return exported;
}

struct Done {
  absl::Status status;
  ImportCounts counts;
  std::optional<core::Key> conflict;
  RecordTotals stored;
};

struct How {
  bool dry_run = false;
  bool omit_large_bodies = false;
  bool of_retired_store = false;
  core::Time now = kNow;
  // So many chunks, and then nothing more.
  std::optional<size_t> chunks;
};

Done Import(Engine& engine, const Exported& exported, const How& how = {}) {
  RecordImport records(&engine, {.facts = exported.facts,
                                 .dry_run = how.dry_run,
                                 .omit_large_bodies = how.omit_large_bodies,
                                 .of_retired_store = how.of_retired_store});
  Done done;
  done.status = records.Begin(how.now);
  const size_t chunks = how.chunks.value_or(exported.chunks.size());
  for (size_t i = 0; done.status.ok() && i < chunks; ++i) {
    done.status = records.Take(exported.chunks[i]);
  }
  if (done.status.ok() && !how.chunks) {
    const auto stored = records.End(exported.totals, &NeverStopped);
    done.status = stored.status();
    if (stored.ok()) done.stored = *stored;
  }
  done.counts = records.counts();
  done.conflict = records.conflict();
  return done;
}

void Fill(Engine& engine) {
  for (const auto& [name, record] : SampleRecords()) Store(engine, PayKey(name), record);
}

// A memory engine with every kind of record, whose newest token was given for a key that is gone.
std::unique_ptr<MemoryEngine> Source() {
  auto engine = std::make_unique<MemoryEngine>();
  Fill(*engine);
  Store(*engine, PayKey("forgotten"), PendingRecord(5'000'000));
  Store(*engine, PayKey("forgotten"), nullptr);
  return engine;
}

uint64_t FloorOf(Engine& engine) {
  const auto read = Read(engine, {PayKey("nobody")});
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? read->token_floor : 0;
}

void ExpectHoldsSamples(Engine& engine) {
  for (const auto& [name, record] : SampleRecords()) {
    const ReadEntry entry = ReadOne(engine, PayKey(name));
    const auto* found = std::get_if<core::Record>(&entry.stored);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(*found, *record) << name;
  }
}

bool IsMarked(Engine& engine) { return !CheckImported(&engine).ok(); }

// --- Whole ---------------------------------------------------------------------------------------

class TransferToTest : public ::testing::TestWithParam<SubjectKind> {};

TEST_P(TransferToTest, TakesEverythingAndSoDoesTheWayBack) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  EXPECT_EQ(exported.totals.records(), SampleRecords().size());
  EXPECT_GT(exported.chunks.size(), 1u) << "the samples are to need more than one chunk";
  const auto subject = GetParam().make();
  Engine& target = subject->engine();
  const Done done = Import(target, exported);
  ASSERT_TRUE(done.status.ok()) << done.status;
  EXPECT_EQ(done.stored, exported.totals);
  EXPECT_EQ(done.counts, (ImportCounts{.written = SampleRecords().size()}));
  ExpectHoldsSamples(target);
  // Also of keys that the source has forgotten.
  EXPECT_GE(FloorOf(target), exported.facts.token_floor);
  EXPECT_GT(exported.facts.token_floor, 5'000'000u);
  EXPECT_FALSE(IsMarked(target));

  MemoryEngine last;
  const Exported back = MustExport(target, "another");
  EXPECT_EQ(back.totals, exported.totals);
  ASSERT_TRUE(Import(last, back).status.ok());
  ExpectHoldsSamples(last);
}

INSTANTIATE_TEST_SUITE_P(Engines, TransferToTest, ::testing::ValuesIn(AllSubjects()),
                         [](const auto& info) { return info.param.name; });

TEST(TransferTest, AnEmptyStoreIsMovedToo) {
  MemoryEngine source;
  const Exported exported = MustExport(source);
  EXPECT_TRUE(exported.chunks.empty());
  MemoryEngine target;
  const Done done = Import(target, exported);
  EXPECT_TRUE(done.status.ok()) << done.status;
  EXPECT_EQ(done.stored, exported.totals);
}

TEST(TransferTest, TheFloorOutlivesARestart) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  RocksDbFixture fixture;
  fixture.surroundings().SetNow(core::At(kNow));
  ASSERT_NE(fixture.Open(), nullptr);
  ASSERT_TRUE(Import(fixture.engine(), exported).status.ok());
  ASSERT_NE(fixture.Open(), nullptr);
  EXPECT_GE(FloorOf(fixture.engine()), exported.facts.token_floor);
  ExpectHoldsSamples(fixture.engine());
}

TEST(TransferTest, TheDigestIsTheSameHoweverAStoreSeals) {
  const auto source = Source();
  const Exported plain = MustExport(*source);
  RocksDbFixture fixture;
  fixture.surroundings().SetNow(core::At(kNow));
  fixture.AddKey("k1");
  fixture.MakeCurrent("k1");
  ASSERT_NE(fixture.Open(), nullptr);
  ASSERT_TRUE(Import(fixture.engine(), plain).status.ok());
  EXPECT_EQ(MustExport(fixture.engine()).totals, plain.totals);
  // Not with a part of the answers, just since a key is not here.
  fixture.options.engine.lost_response_keys = {"k1"};
  fixture.MakeCurrent("");
  fixture.RemoveKey("k1");
  fixture.options.engine.response_keys.clear();
  ASSERT_NE(fixture.Open(), nullptr);
  EXPECT_NE(MustExport(fixture.engine()).totals, plain.totals) << "accepted: they are omitted";
  fixture.Close();
}

TEST(TransferTest, WhatIsOnlySealedIsNotTakenForOmitted) {
  RocksDbFixture fixture;
  fixture.AddKey("k1");
  fixture.MakeCurrent("k1");
  EngineOptions options = fixture.options.engine;
  const auto sealer = LoadSealer(options);
  ASSERT_TRUE(sealer.ok()) << sealer.status();
  std::string bytes;
  ASSERT_TRUE((*sealer)->Encode("key", *CompleteRecord(), &bytes));
  options.response_keys.clear();
  const auto decoded = [&] { return (*LoadSealer(options))->Decode("key", bytes).has_value(); };
  EXPECT_TRUE(decoded());
  options.demand_response_keys = true;
  EXPECT_FALSE(decoded());
  options.lost_response_keys = {"k2"};
  EXPECT_FALSE(decoded());
  options.lost_response_keys = {"k2", "k1"};
  EXPECT_TRUE(decoded());
}

// --- Noticed -------------------------------------------------------------------------------------

struct Spoil {
  const char* name;
  std::function<void(Exported*)> spoil;
};

class DamagedTransferTest : public ::testing::TestWithParam<Spoil> {};

TEST_P(DamagedTransferTest, IsNeverTakenForWhole) {
  const auto source = Source();
  Exported exported = MustExport(*source);
  ASSERT_GT(exported.chunks.size(), 1u);
  GetParam().spoil(&exported);
  for (const bool dry_run : {true, false}) {
    MemoryEngine target;
    const Done done = Import(target, exported, {.dry_run = dry_run});
    EXPECT_EQ(done.status.code(), absl::StatusCode::kDataLoss) << done.status;
    EXPECT_EQ(IsMarked(target), !dry_run);
  }
}

void FlipLast(std::string* bytes) { bytes->back() = static_cast<char>(bytes->back() ^ 1); }

const Spoil kSpoils[] = {
    {"FlippedRecord", [](Exported* e) { FlipLast(&e->chunks[0].records[0].bytes); }},
    {"FlippedKey", [](Exported* e) { FlipLast(&e->chunks.back().records.back().key); }},
    {"FlippedDigest", [](Exported* e) { FlipLast(&e->chunks.back().digest); }},
    {"OtherRecordUnderTheKey",
     [](Exported* e) {
       std::swap(e->chunks.back().records[0].bytes, e->chunks.back().records[1].bytes);
     }},
    {"RecordMissing", [](Exported* e) { e->chunks.back().records.pop_back(); }},
    {"RecordTwice",
     [](Exported* e) { e->chunks.back().records.push_back(e->chunks.back().records.back()); }},
    {"RecordsOutOfOrder",
     [](Exported* e) { std::swap(e->chunks.back().records[0], e->chunks.back().records[1]); }},
    {"ChunksOutOfOrder", [](Exported* e) { std::swap(e->chunks[0], e->chunks[1]); }},
    {"ChunkMissing", [](Exported* e) { e->chunks.erase(e->chunks.begin()); }},
    {"LastChunkMissing", [](Exported* e) { e->chunks.pop_back(); }},
    {"ChunkTwice", [](Exported* e) { e->chunks.insert(e->chunks.begin(), e->chunks.front()); }},
    {"TrailerCount", [](Exported* e) { ++e->totals.pending; }},
    {"TrailerBytes", [](Exported* e) { ++e->totals.bytes; }},
    {"TrailerDigest", [](Exported* e) { FlipLast(&e->totals.digest); }},
};

INSTANTIATE_TEST_SUITE_P(Spoils, DamagedTransferTest, ::testing::ValuesIn(kSpoils),
                         [](const auto& info) { return std::string(info.param.name); });

// All digests are right for these records.
Exported Made(const TransferFacts& facts, std::vector<MovedRecord> records) {
  RecordTally tally;
  for (const MovedRecord& moved : records) tally.Add(moved, Unpack(moved)->record.state);
  return Exported{.facts = facts,
                  .chunks = {{.records = std::move(records), .digest = tally.totals().digest}},
                  .totals = tally.totals()};
}

TEST(TransferTest, OrderAndNamesAreLookedAtThoughDigestsAreRight) {
  const TransferFacts facts = MustExport(*Source()).facts;
  const MovedRecord a = Pack(PayKey("a"), *PendingRecord());
  const MovedRecord b = Pack(PayKey("b"), *CompleteRecord());
  const MovedRecord mark = Pack(ImportMarkKey(), *PendingRecord());
  const auto status_of = [&facts](std::vector<MovedRecord> records) {
    MemoryEngine target;
    return Import(target, Made(facts, std::move(records))).status.code();
  };
  EXPECT_EQ(status_of({a, b}), absl::StatusCode::kOk);
  EXPECT_EQ(status_of({b, a}), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status_of({a, a}), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status_of({mark}), absl::StatusCode::kDataLoss);
}

TEST(TransferTest, EveryFieldOfTheHeaderIsInItsDigest) {
  const TransferFacts facts{
      .engine = "etcd", .token_floor = 7, .made = kNow, .lost_before = kStart};
  const std::string digest = DigestOf(facts);
  EXPECT_EQ(absl::BytesToHexString(digest),
            "746f41cc4b7d7b24ab1a27d788cef95c72407a127e4809a548f2ca81a08f4660");
  TransferFacts other = facts;
  other.engine = "postgres";
  EXPECT_NE(DigestOf(other), digest);
  other = facts;
  other.token_floor = 8;
  EXPECT_NE(DigestOf(other), digest);
  other = facts;
  other.made += milliseconds(1);
  EXPECT_NE(DigestOf(other), digest);
  other = facts;
  other.lost_before = {};
  EXPECT_NE(DigestOf(other), digest);

  const Retirement retired{.time = kNow, .actor = "ann", .moved_to = "there", .digest = "d"};
  other = facts;
  other.retired = retired;
  EXPECT_EQ(absl::BytesToHexString(DigestOf(other)),
            "726538c14e8042793889ad3ea3b58481100d6cecb5c99232dfc02ba6dc5634ab");
  Retirement rows[] = {retired, retired, retired, retired};
  rows[0].time += milliseconds(1);
  rows[1].actor = "annt";
  rows[1].moved_to = "here";
  rows[2].moved_to = "elsewhere";
  rows[3].digest = "e";
  for (const Retirement& row : rows) {
    TransferFacts changed = facts;
    changed.retired = row;
    EXPECT_NE(DigestOf(changed), DigestOf(other));
  }
}

// Files that were written by another version have to mean the same.
TEST(TransferTest, TheDigestOfRecordsStaysAsItIs) {
  RecordTally tally;
  tally.Add({.key = "k", .bytes = "rr"}, core::State::kFreed);
  EXPECT_EQ(absl::BytesToHexString(tally.totals().digest),
            "d5005a696e5b44558d31359cc85c7b8d691bce6536ac02dc7a3dc43b76833d11");
  EXPECT_EQ(tally.totals().bytes, 3u);
  EXPECT_EQ(tally.totals().freed, 1u);
}

TEST(TransferTest, SomebodyWhoWritesMeanwhileIsNoticed) {
  const auto source = Source();
  RecordExport records(source.get(), "memory");
  ASSERT_TRUE(records.Begin(kNow).ok());
  for (;;) {
    const auto chunk = records.Next();
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    if (chunk->records.empty()) break;
  }
  Store(*source, PayKey("pending"), CompleteRecord(9));
  EXPECT_EQ(records.End(&NeverStopped).status().code(), absl::StatusCode::kAborted);
}

TEST(TransferTest, ARecordThatCannotBeReadIsNotLeftOut) {
  RocksDbFixture fixture;
  fixture.surroundings().SetNow(core::At(kNow));
  ASSERT_NE(fixture.Open(), nullptr);
  Fill(fixture.engine());
  fixture.Plant(Family::kFinished, PayKey("spoilt"), "these are no bytes of a record");
  RecordExport records(&fixture.engine(), "rocksdb");
  ASSERT_TRUE(records.Begin(kNow).ok());
  EXPECT_EQ(records.Next().status().code(), absl::StatusCode::kDataLoss);
}

// --- Into what -----------------------------------------------------------------------------------

TEST(TransferTest, WhatWasCutOffIsRunAgain) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  MemoryEngine target;
  const Done cut = Import(target, exported, {.chunks = 1});
  ASSERT_TRUE(cut.status.ok()) << cut.status;
  // Nobody answers from it, and nobody exports it.
  EXPECT_EQ(CheckImported(&target).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(RecordExport(&target, "memory").Begin(kNow).ok());
  const Done again = Import(target, exported);
  ASSERT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(again.counts.present, cut.counts.written);
  EXPECT_EQ(again.counts.written + again.counts.present, SampleRecords().size());
  EXPECT_FALSE(IsMarked(target));
  // And once more, where only the end was not heard of.
  const Done third = Import(target, exported);
  ASSERT_TRUE(third.status.ok()) << third.status;
  EXPECT_EQ(third.counts, (ImportCounts{.present = SampleRecords().size()}));
  EXPECT_EQ(third.stored, exported.totals);
}

TEST(TransferTest, APartOfOneExportIsNotFilledWithAnother) {
  const auto source = Source();
  Exported exported = MustExport(*source);
  MemoryEngine target;
  ASSERT_TRUE(Import(target, exported, {.chunks = 1}).status.ok());
  exported.facts.made += milliseconds(1);
  EXPECT_EQ(Import(target, exported).status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TransferTest, AnotherRecordStaysAndIsNamed) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  for (const bool dry_run : {true, false}) {
    MemoryEngine target;
    Store(target, PayKey("freed"), PendingRecord(3));
    const Done done = Import(target, exported, {.dry_run = dry_run});
    EXPECT_FALSE(done.status.ok());
    EXPECT_EQ(ReadOne(target, PayKey("freed")).stored, core::Stored(*PendingRecord(3)));
    EXPECT_EQ(done.counts.written, 0u);
  }
  // One that came while it was filled, by whoever did not stop.
  MemoryEngine target;
  ASSERT_TRUE(Import(target, exported, {.chunks = 1}).status.ok());
  const core::Key last = Unpack(exported.chunks.back().records.back())->key;
  Store(target, last, PendingRecord(3));
  const Done done = Import(target, exported);
  EXPECT_EQ(done.status.code(), absl::StatusCode::kAlreadyExists) << done.status;
  EXPECT_EQ(done.conflict, std::optional(last));
  EXPECT_EQ(ReadOne(target, last).stored, core::Stored(*PendingRecord(3)));
  EXPECT_TRUE(IsMarked(target));
}

TEST(TransferTest, ARecordMoreIsNoticedAtTheEnd) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  MemoryEngine target;
  ASSERT_TRUE(Import(target, exported, {.chunks = 1}).status.ok());
  Store(target, PayKey("of somebody else"), PendingRecord(3));
  const Done done = Import(target, exported);
  EXPECT_EQ(done.status.code(), absl::StatusCode::kAborted) << done.status;
  EXPECT_TRUE(IsMarked(target));
}

TEST(TransferTest, AStoreWithOtherOperationsIsNotFilled) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  MemoryEngine target;
  Store(target, PayKey("of somebody else"), PendingRecord(3));
  const Done done = Import(target, exported);
  EXPECT_EQ(done.status.code(), absl::StatusCode::kFailedPrecondition) << done.status;
  EXPECT_EQ(ScanAll(target, {}, 100).size(), 1u);
}

TEST(TransferTest, ADryRunWritesNothing) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  MemoryEngine target;
  const Done done = Import(target, exported, {.dry_run = true});
  ASSERT_TRUE(done.status.ok()) << done.status;
  EXPECT_EQ(done.counts.written, SampleRecords().size());
  EXPECT_EQ(done.stored, exported.totals);
  EXPECT_TRUE(ScanAll(target, {}, 100).empty());
}

TEST(TransferTest, AClockThatIsBehindIsRefused) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  MemoryEngine target;
  const Done refused =
      Import(target, exported, {.now = kNow - kMaxImportClockBehind - milliseconds(1)});
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("5001 ms behind"));
  EXPECT_TRUE(ScanAll(target, {}, 100).empty());
  EXPECT_TRUE(Import(target, exported, {.now = kNow - kMaxImportClockBehind}).status.ok());
}

TEST(TransferTest, WhatTheSourceHadLostIsNotForgotten) {
  const auto source = Source();
  Exported exported = MustExport(*source);
  exported.facts.lost_before = kStart + hours(1);
  MemoryEngine target;
  ASSERT_TRUE(Import(target, exported).status.ok());
  const auto lost = CheckImported(&target);
  ASSERT_TRUE(lost.ok()) << lost.status();
  EXPECT_EQ(*lost, kStart + hours(1));
  // On to the next store, as no record of anybody's.
  const Exported next = MustExport(target);
  EXPECT_EQ(next.facts.lost_before, kStart + hours(1));
  EXPECT_EQ(next.totals, exported.totals);
  // Where it is all there, and only that is not known.
  MemoryEngine plain;
  Exported without = exported;
  without.facts.lost_before = {};
  ASSERT_TRUE(Import(plain, without).status.ok());
  EXPECT_EQ(Import(plain, exported).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Import(target, exported).status.ok());
}

TEST(TransferTest, AStoreThatWouldGiveOldTokensIsNotTakenForEqual) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  MemoryEngine target;
  Fill(target);
  const Done done = Import(target, exported);
  EXPECT_EQ(done.status.code(), absl::StatusCode::kFailedPrecondition) << done.status;
}

// An engine that takes only small values, as etcd.
class SmallEngine final : public Engine {
 public:
  void Read(std::vector<core::Key> keys, ReadDone done) override {
    memory_.Read(std::move(keys), std::move(done));
  }
  void Commit(std::vector<GuardedWrite> writes, CommitDone done) override {
    EXPECT_LE(writes.size(), traits().max_batch_writes);
    memory_.Commit(std::move(writes), std::move(done));
  }
  void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) override {
    memory_.Scan(std::move(filter), limit, std::move(resume_key), std::move(done));
  }
  void OnForeignChange(std::function<void(const core::Key&)>) override {}
  Traits traits() const override {
    return Traits{.max_batch_writes = 3, .max_value_bytes = size_t{64} * 1024};
  }
  Pressure pressure() const override { return memory_.pressure(); }

 private:
  MemoryEngine memory_;
};

TEST(TransferTest, ALargeBodyIsOmittedOnlyWhereThatIsWanted) {
  const auto source = Source();
  const Exported exported = MustExport(*source);
  for (const bool dry_run : {true, false}) {
    SmallEngine target;
    const Done refused = Import(target, exported, {.dry_run = dry_run});
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("--omit-large-bodies"));
  }
  SmallEngine target;
  const Done done = Import(target, exported, {.omit_large_bodies = true});
  ASSERT_TRUE(done.status.ok()) << done.status;
  EXPECT_EQ(done.counts.bodies_omitted, 1u);
  EXPECT_EQ(done.stored.complete, exported.totals.complete);
  EXPECT_NE(done.stored.digest, exported.totals.digest);
  const ReadEntry entry = ReadOne(target, PayKey("complete with a long response"));
  EXPECT_TRUE(std::get<core::Record>(entry.stored).response.body_omitted);
  // And again, by whoever did not hear the end.
  const Done again = Import(target, exported, {.omit_large_bodies = true});
  EXPECT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(again.counts.present, SampleRecords().size());
}

// --- Retired -------------------------------------------------------------------------------------

Retirement RetirementOf(const Exported& exported) {
  return {.time = kNow, .actor = "ann", .moved_to = "the etcd", .digest = exported.totals.digest};
}

Retirement MustRetire(Engine& engine, const Retirement& wanted) {
  const auto retirement = Retire(&engine, wanted, &NeverStopped);
  EXPECT_TRUE(retirement.ok()) << retirement.status();
  return retirement.ok() ? *retirement : Retirement{};
}

class RetirementTest : public ::testing::TestWithParam<SubjectKind> {};

TEST_P(RetirementTest, IsKeptByTheStoreUntilItIsTakenBack) {
  const auto subject = GetParam().make();
  Engine& store = subject->engine();
  Fill(store);
  const Exported exported = MustExport(store);
  EXPECT_TRUE(CheckNotRetired(&store).ok());
  const Retirement wanted = RetirementOf(exported);
  EXPECT_EQ(MustRetire(store, wanted), wanted);
  // The same as at first, whoever repeats it.
  Retirement later = wanted;
  later.time += hours(1);
  later.actor = "bob";
  later.moved_to = "elsewhere";
  EXPECT_EQ(MustRetire(store, later), wanted);
  if (GetParam().durable) subject->Reopen();

  Engine& again = subject->engine();
  const auto found = FindRetirement(&again);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, std::optional(wanted));
  const absl::Status refused = CheckNotRetired(&again);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::AllOf(HasSubstr("since 2"), HasSubstr("by ann"), HasSubstr("the etcd"),
                               HasSubstr("--transfer=export"), HasSubstr("retire --undo")));
  // It is no record of anybody's.
  EXPECT_EQ(MustExport(again).totals, exported.totals);
  ExpectHoldsSamples(again);

  const auto stood = Reinstate(&again);
  ASSERT_TRUE(stood.ok()) << stood.status();
  EXPECT_EQ(*stood, std::optional(wanted));
  const auto nothing = Reinstate(&again);
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ(*nothing, std::nullopt);
  EXPECT_TRUE(CheckNotRetired(&again).ok());
  EXPECT_EQ(MustRetire(again, later), later);
}

INSTANTIATE_TEST_SUITE_P(Engines, RetirementTest, ::testing::ValuesIn(AllSubjects()),
                         [](const auto& info) { return info.param.name; });

TEST(TransferTest, AStoreWhoseRetirementIsTakenBackMeanwhileIsNotCalledRetired) {
  const auto store = Source();
  const Retirement wanted = RetirementOf(MustExport(*store));
  const auto retired = Retire(store.get(), wanted, [&] {
    // Each time that records are read: the second time, which is behind the mark.
    if (!CheckNotRetired(store.get()).ok()) EXPECT_TRUE(Reinstate(store.get()).ok());
    return false;
  });
  EXPECT_EQ(retired.status().code(), absl::StatusCode::kAborted) << retired.status();
  EXPECT_TRUE(CheckNotRetired(store.get()).ok());
}

TEST(TransferTest, AStoreThatIsNotWhatWasExportedIsNotRetired) {
  const auto store = Source();
  const Retirement wanted = RetirementOf(MustExport(*store));
  Store(*store, PayKey("since then"), PendingRecord(6'000'000));
  const auto refused = Retire(store.get(), wanted, &NeverStopped);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(refused.status().message()),
      ::testing::AllOf(HasSubstr(absl::BytesToHexString(wanted.digest)),
                       HasSubstr(absl::BytesToHexString(MustExport(*store).totals.digest))));
  EXPECT_TRUE(CheckNotRetired(store.get()).ok());
  EXPECT_EQ(Retire(store.get(), wanted, [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_TRUE(CheckNotRetired(store.get()).ok());
}

// On which another server goes on: it writes when the mark is on its way.
class ServedEngine final : public Engine {
 public:
  void Read(std::vector<core::Key> keys, ReadDone done) override {
    memory_.Read(std::move(keys), std::move(done));
  }
  void Commit(std::vector<GuardedWrite> writes, CommitDone done) override {
    if (before_mark && writes.front().key == RetirementKey()) std::exchange(before_mark, {})();
    memory_.Commit(std::move(writes), std::move(done));
  }
  void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) override {
    memory_.Scan(std::move(filter), limit, std::move(resume_key), std::move(done));
  }
  void OnForeignChange(std::function<void(const core::Key&)>) override {}
  Traits traits() const override { return memory_.traits(); }
  Pressure pressure() const override { return memory_.pressure(); }

  std::function<void()> before_mark;

 private:
  MemoryEngine memory_;
};

TEST(TransferTest, WhatAServerDoesWhileTheStoreIsRetiredIsNoticed) {
  ServedEngine store;
  Fill(store);
  const Retirement wanted = RetirementOf(MustExport(store));
  store.before_mark = [&] { Store(store, PayKey("meanwhile"), PendingRecord(6'000'000)); };
  // The same is said to whoever repeats it.
  for (int i = 0; i < 2; ++i) {
    const auto changed = Retire(&store, wanted, &NeverStopped);
    EXPECT_EQ(changed.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(changed.status().message()),
                ::testing::AllOf(HasSubstr("is retired, but"), HasSubstr("stop it")));
    EXPECT_FALSE(CheckNotRetired(&store).ok());
  }
  Store(store, PayKey("meanwhile"), nullptr);
  EXPECT_EQ(MustRetire(store, wanted), wanted);
  // And behind the mark.
  Store(store, PayKey("since"), PendingRecord(7'000'000));
  EXPECT_EQ(Retire(&store, wanted, &NeverStopped).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(TransferTest, AStoreIsRetiredOfOneDigest) {
  const auto store = Source();
  const Retirement wanted = RetirementOf(MustExport(*store));
  MustRetire(*store, wanted);
  Retirement other = wanted;
  FlipLast(&other.digest);
  const auto refused = Retire(store.get(), other, &NeverStopped);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              ::testing::AllOf(HasSubstr(absl::BytesToHexString(wanted.digest)),
                               ::testing::Not(HasSubstr("--undo"))));
}

TEST(TransferTest, NothingIsImportedIntoARetiredStore) {
  const Exported exported = MustExport(*Source());
  // Also where all that would be imported is there.
  for (const bool filled : {false, true}) {
    MemoryEngine target;
    if (filled) ASSERT_TRUE(Import(target, exported).status.ok());
    MustRetire(target, RetirementOf(MustExport(target)));
    for (const bool dry_run : {true, false}) {
      const Done done = Import(target, exported, {.dry_run = dry_run});
      EXPECT_EQ(done.status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(done.status.message()), HasSubstr("the store is retired since"));
    }
    ASSERT_TRUE(Reinstate(&target).ok());
    EXPECT_TRUE(Import(target, exported).status.ok());
  }
}

TEST(TransferTest, WhatARetiredStoreHoldsIsImportedOnlyWhereThatIsSaid) {
  const auto source = Source();
  const Exported before = MustExport(*source);
  EXPECT_EQ(before.facts.retired, std::nullopt);
  MustRetire(*source, RetirementOf(before));
  const Exported since = MustExport(*source);
  EXPECT_EQ(since.facts.retired, std::optional(RetirementOf(before)));
  EXPECT_EQ(since.totals, before.totals);
  MemoryEngine target;
  for (const bool dry_run : {true, false}) {
    const Done refused = Import(target, since, {.dry_run = dry_run});
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status.message()),
                ::testing::AllOf(HasSubstr("the etcd"), HasSubstr("--of-retired-store")));
  }
  EXPECT_FALSE(IsMarked(target));
  EXPECT_TRUE(Import(target, since, {.of_retired_store = true}).status.ok());
}

TEST(TransferTest, HalfAnImportIsNotRetired) {
  const Exported exported = MustExport(*Source());
  MemoryEngine target;
  ASSERT_TRUE(Import(target, exported, {.chunks = 1}).status.ok());
  const auto refused = Retire(&target, RetirementOf(exported), &NeverStopped);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--transfer=import"));
}

// What an import left, and stays, is not in the way of the other mark.
TEST(TransferTest, BothMarksStandBesideEachOther) {
  Exported exported = MustExport(*Source());
  exported.facts.lost_before = kStart + hours(1);
  MemoryEngine store;
  ASSERT_TRUE(Import(store, exported).status.ok());
  MustRetire(store, RetirementOf(exported));
  const Exported again = MustExport(store);
  EXPECT_EQ(again.facts.lost_before, kStart + hours(1));
  EXPECT_EQ(again.totals, exported.totals);
  EXPECT_FALSE(CheckNotRetired(&store).ok());
}

TEST(TransferTest, AMarkThatCannotBeReadKeepsServersOffToo) {
  MemoryEngine store;
  Store(store, RetirementKey(), CompleteRecord(3));
  EXPECT_EQ(CheckNotRetired(&store).code(), absl::StatusCode::kDataLoss);
  const Exported exported = MustExport(store);
  EXPECT_TRUE(exported.facts.retired.has_value());
  EXPECT_FALSE(Retire(&store, RetirementOf(exported), &NeverStopped).ok());
  EXPECT_TRUE(Reinstate(&store).ok());
  EXPECT_TRUE(CheckNotRetired(&store).ok());
}

// Stores that were retired by another version have to stay so.
TEST(TransferTest, TheMarkOfARetirementStaysAsItIs) {
  const Retirement retirement{
      .time = kNow, .actor = "ann", .moved_to = "the etcd", .digest = std::string(32, 'd')};
  EXPECT_EQ(ReadRetirementMark(MakeRetirementMark(retirement)), std::optional(retirement));
  EXPECT_EQ(ReadRetirementMark(*CompleteRecord()), std::nullopt);
  const MovedRecord packed = Pack(RetirementKey(), MakeRetirementMark(retirement));
  EXPECT_EQ(absl::BytesToHexString(packed.key), "0c016964656d706f74656e63790072657469726564");
  EXPECT_EQ(absl::BytesToHexString(packed.bytes),
            "01059083802301010d73746f72652f7265746972656420646464646464646464646464646464"
            "646464646464646464646464646464646480c0a1a68d63fe9094fbecba7201030001c6040361"
            "6e6e0874686520657463643f0e95d1");
}

}  // namespace
}  // namespace idempotency::keystore
