// What every engine must do, whatever keeps its records and whenever it answers. What one of
// them cannot do is declared in subjects.h, and is the reason for the smaller suites below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/core/record.h"
#include "keystore/core/transition.h"
#include "keystore/engine/engine.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/subjects.h"

namespace idempotency::keystore {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;

class EngineConformance : public ::testing::TestWithParam<SubjectKind> {
 protected:
  EngineConformance() : subject_(GetParam().make()) {}
  Engine& engine() { return subject_->engine(); }

  // A record with a token that nobody has had, as the key store would make it.
  core::RecordPtr Fresh() { return PendingRecord(TokenFloor()); }
  uint64_t TokenFloor() {
    const absl::StatusOr<ReadResult> result = Read(engine(), {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->token_floor : 0;
  }

  std::unique_ptr<Subject> subject_;
};

// Suites for those that can do more.
class CalmEngineConformance : public EngineConformance {};
class GuardConformance : public EngineConformance {};
class DurableEngineConformance : public EngineConformance {};
class UnreadableConformance : public EngineConformance {};

std::string NameOf(const ::testing::TestParamInfo<SubjectKind>& info) { return info.param.name; }

bool IsCalm(const SubjectKind& kind) { return kind.calm; }
bool FindsLostRaces(const SubjectKind& kind) { return kind.calm && kind.checks_guards; }
bool IsDurable(const SubjectKind& kind) { return kind.durable; }
bool CanHoldUnreadable(const SubjectKind& kind) { return kind.can_hold_unreadable; }

using ::testing::ValuesIn;
INSTANTIATE_TEST_SUITE_P(Engines, EngineConformance, ValuesIn(AllSubjects()), NameOf);
INSTANTIATE_TEST_SUITE_P(Engines, CalmEngineConformance, ValuesIn(SubjectsThat(IsCalm)), NameOf);
INSTANTIATE_TEST_SUITE_P(Engines, GuardConformance, ValuesIn(SubjectsThat(FindsLostRaces)), NameOf);
INSTANTIATE_TEST_SUITE_P(Engines, DurableEngineConformance, ValuesIn(SubjectsThat(IsDurable)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Engines, UnreadableConformance, ValuesIn(SubjectsThat(CanHoldUnreadable)),
                         NameOf);

bool IsAbsent(const ReadEntry& entry) { return std::holds_alternative<core::Absent>(entry.stored); }

// The record of an entry, or one that equals no other.
const core::Record& RecordOf(const core::Stored& stored) {
  static const auto& none = *new core::Record();
  const auto* record = std::get_if<core::Record>(&stored);
  return record == nullptr ? none : *record;
}

std::vector<std::string> KeysOf(const std::vector<ScanEntry>& entries) {
  std::vector<std::string> keys;
  keys.reserve(entries.size());
  for (const ScanEntry& entry : entries) {
    keys.push_back(entry.key.name_space + "/" + entry.key.scope + "/" + entry.key.key);
  }
  return keys;
}

// --- Reading and writing -------------------------------------------------------------------------

TEST_P(EngineConformance, ReadsAnAbsentKeyAsAbsentWithVersionZero) {
  const absl::StatusOr<ReadResult> result = Read(engine(), {PayKey("a"), PayKey("")});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->entries.size(), 2u);
  for (const ReadEntry& entry : result->entries) {
    EXPECT_TRUE(IsAbsent(entry));
    EXPECT_EQ(entry.version, 0u);
  }
  EXPECT_GE(result->token_floor, 1u);
}

TEST_P(EngineConformance, AnswersCallsAboutNothing) {
  const absl::StatusOr<ReadResult> result = Read(engine(), {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->entries, IsEmpty());
  EXPECT_THAT(Commit(engine(), {}), IsEmpty());
}

TEST_P(EngineConformance, ReadsBackExactlyWhatWasWritten) {
  for (const auto& [name, record] : SampleRecords()) {
    Store(engine(), PayKey(name), record);
  }
  for (const auto& [name, record] : SampleRecords()) {
    const ReadEntry entry = ReadOne(engine(), PayKey(name));
    EXPECT_EQ(RecordOf(entry.stored), *record) << name;
    EXPECT_NE(entry.version, 0u) << name;
  }
}

TEST_P(EngineConformance, ReadsManyKeysInTheOrderAskedFor) {
  std::vector<core::Key> keys;
  for (int i = 0; i < 100; ++i) {
    keys.push_back(PayKey(std::to_string(i * 37 % 100)));
    if (i % 3 == 0) continue;
    Store(engine(), keys.back(), CompleteRecord(1, keys.back().key));
  }
  const absl::StatusOr<ReadResult> result = Read(engine(), keys);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->entries.size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const ReadEntry& entry = result->entries[i];
    EXPECT_EQ(IsAbsent(entry), i % 3 == 0) << i;
    if (IsAbsent(entry)) continue;
    EXPECT_EQ(RecordOf(entry.stored).response.bytes.view(), keys[i].key) << i;
  }
}

TEST_P(EngineConformance, KeepsKeysApartThatDifferOnlyInHowTheyAreCut) {
  const std::vector<core::Key> keys = {{"a", "bc", "d"}, {"ab", "c", "d"},
                                       {"a", "b", "cd"}, {"a", "", "bcd"},
                                       {"a", "bc", "D"}, {"a", "bc", std::string("d\0", 2)},
                                       {"a", "bc", ""},  {"a", "bc", "\xff\xff"}};
  for (size_t i = 0; i < keys.size(); ++i) Store(engine(), keys[i], PendingRecord(i + 1));
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(RecordOf(ReadOne(engine(), keys[i]).stored).token, i + 1) << i;
  }
}

TEST_P(EngineConformance, ErasingMakesAKeyAbsent) {
  const core::Key key = PayKey("a");
  for (const core::RecordPtr& record : {PendingRecord(), CompleteRecord()}) {
    Store(engine(), key, record);
    ASSERT_FALSE(IsAbsent(ReadOne(engine(), key)));
    Store(engine(), key, nullptr);
    const ReadEntry entry = ReadOne(engine(), key);
    EXPECT_TRUE(IsAbsent(entry));
    // Where there are other writers this nothing is not that of before: it may have a name.
    if (engine().traits().exclusive) EXPECT_EQ(entry.version, 0u);
  }
}

TEST_P(EngineConformance, ErasingAnAbsentKeyChangesNothing) {
  Store(engine(), PayKey("a"), nullptr);
  EXPECT_TRUE(IsAbsent(ReadOne(engine(), PayKey("a"))));
}

TEST_P(EngineConformance, NeverUsesAVersionAgainNotEvenForTheSameRecordAfterErasing) {
  const core::Key key = PayKey("a");
  std::set<Version> seen;
  for (int round = 0; round < 10; ++round) {
    for (const core::RecordPtr& record : {PendingRecord(), CompleteRecord(), PendingRecord()}) {
      Store(engine(), key, record);
      EXPECT_TRUE(seen.insert(ReadOne(engine(), key).version).second) << "round " << round;
    }
    Store(engine(), key, nullptr);
  }
}

TEST_P(EngineConformance, AVersionStaysWhileNothingIsWritten) {
  Store(engine(), PayKey("a"), PendingRecord());
  const Version version = ReadOne(engine(), PayKey("a")).version;
  Store(engine(), PayKey("b"), PendingRecord());
  EXPECT_EQ(ReadOne(engine(), PayKey("a")).version, version);
}

TEST_P(EngineConformance, AKeyIsFoundOnceInWhateverStateItMovesTo) {
  const core::Key key = PayKey("a");
  for (const auto& [name, record] : SampleRecords()) {
    Store(engine(), key, record);
    EXPECT_EQ(RecordOf(ReadOne(engine(), key).stored), *record) << name;
    const std::vector<ScanEntry> all = ScanAll(engine(), {}, 10);
    ASSERT_EQ(all.size(), 1u) << name;
    EXPECT_EQ(RecordOf(all[0].stored), *record) << name;
    const bool open =
        record->state == core::State::kPending || record->state == core::State::kUnresolved;
    EXPECT_EQ(ScanAll(engine(), {.open_only = true}, 10).size(), open ? 1u : 0u) << name;
  }
  Store(engine(), key, nullptr);
  EXPECT_THAT(ScanAll(engine(), {}, 10), IsEmpty());
}

// --- Guards ------------------------------------------------------------------------------------

TEST_P(GuardConformance, AStaleGuardLosesTheRaceAndWritesNothing) {
  const core::Key key = PayKey("a");
  Store(engine(), key, PendingRecord(1));
  const Version stale = ReadOne(engine(), key).version;
  const core::RecordPtr there = UnresolvedRecord(2);
  Store(engine(), key, there);
  struct Row {
    std::string name;
    Version expected;
    core::RecordPtr record;
  };
  const std::vector<Row> rows = {{"replace what was replaced", stale, CompleteRecord(3)},
                                 {"create what is there", 0, CompleteRecord(3)},
                                 {"erase what was replaced", stale, nullptr},
                                 {"erase what should be absent", 0, nullptr}};
  for (const Row& row : rows) {
    EXPECT_THAT(Commit(engine(), {{.key = key, .expected = row.expected, .record = row.record}}),
                ElementsAre(WriteOutcome::kLostRace))
        << row.name;
    EXPECT_EQ(RecordOf(ReadOne(engine(), key).stored), *there) << row.name;
  }
}

TEST_P(GuardConformance, AGuardOfAnErasedKeyLosesTheRace) {
  const core::Key key = PayKey("a");
  Store(engine(), key, PendingRecord(1));
  const Version stale = ReadOne(engine(), key).version;
  Store(engine(), key, nullptr);
  for (const core::RecordPtr& record : {CompleteRecord(2), core::RecordPtr()}) {
    EXPECT_THAT(Commit(engine(), {{.key = key, .expected = stale, .record = record}}),
                ElementsAre(WriteOutcome::kLostRace));
    EXPECT_TRUE(IsAbsent(ReadOne(engine(), key)));
  }
}

TEST_P(GuardConformance, EachWriteOfABatchStandsAlone) {
  Store(engine(), PayKey("kept"), PendingRecord(1));
  Store(engine(), PayKey("erased"), PendingRecord(1));
  Store(engine(), PayKey("moved"), PendingRecord(1));
  EXPECT_THAT(Commit(engine(), {{.key = PayKey("new"), .expected = 0, .record = PendingRecord(5)},
                                {.key = PayKey("kept"), .expected = 0, .record = CompleteRecord(1)},
                                {.key = PayKey("erased"),
                                 .expected = ReadOne(engine(), PayKey("erased")).version},
                                {.key = PayKey("moved"),
                                 .expected = ReadOne(engine(), PayKey("moved")).version,
                                 .record = CompleteRecord(1)}}),
              ElementsAre(WriteOutcome::kCommitted, WriteOutcome::kLostRace,
                          WriteOutcome::kCommitted, WriteOutcome::kCommitted));
  EXPECT_EQ(RecordOf(ReadOne(engine(), PayKey("new")).stored), *PendingRecord(5));
  EXPECT_EQ(RecordOf(ReadOne(engine(), PayKey("kept")).stored), *PendingRecord(1));
  EXPECT_TRUE(IsAbsent(ReadOne(engine(), PayKey("erased"))));
  EXPECT_EQ(RecordOf(ReadOne(engine(), PayKey("moved")).stored), *CompleteRecord(1));
}

TEST_P(GuardConformance, RivalsForOneKeyEachWinOnce) {
  constexpr int kRivals = 4;
  constexpr int kWins = 25;
  const core::Key key = PayKey("a");
  std::vector<std::thread> rivals;
  for (int rival = 0; rival < kRivals; ++rival) {
    rivals.emplace_back([this, &key] {
      for (int wins = 0; wins < kWins;) {
        const ReadEntry before = ReadOne(engine(), key);
        const uint64_t token = IsAbsent(before) ? 0 : RecordOf(before.stored).token;
        const std::vector<WriteOutcome> outcomes =
            Commit(engine(),
                   {{.key = key, .expected = before.version, .record = PendingRecord(token + 1)}});
        if (outcomes.at(0) == WriteOutcome::kCommitted) ++wins;
      }
    });
  }
  for (std::thread& rival : rivals) rival.join();
  // No win overwrote another: each raised the token by one.
  EXPECT_EQ(RecordOf(ReadOne(engine(), key).stored).token, uint64_t{kRivals} * kWins);
}

TEST_P(CalmEngineConformance, ABrokenRecordIsNeverWrittenAndEndsTheEngine) {
  Store(engine(), PayKey("before"), PendingRecord(1));
  auto broken = std::make_shared<core::Record>(*CompleteRecord(1));
  broken->verdict = core::Verdict::kNone;
  EXPECT_TRUE(engine().pressure().alive);
  EXPECT_THAT(Commit(engine(), {{.key = PayKey("good"), .record = PendingRecord(2)},
                                {.key = PayKey("broken"), .record = broken}}),
              ElementsAre(::testing::_, WriteOutcome::kUnknown));
  EXPECT_FALSE(engine().pressure().alive);
  EXPECT_EQ(Read(engine(), {PayKey("before")}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Scan(engine(), {}, 10).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Commit(engine(), {{.key = PayKey("later"), .record = PendingRecord(3)}}),
              ElementsAre(WriteOutcome::kUnknown));
}

// --- Tokens --------------------------------------------------------------------------------------

TEST_P(EngineConformance, TheTokenFloorIsAboveEveryTokenOfAnyKey) {
  EXPECT_GE(TokenFloor(), 1u);
  for (const uint64_t token : {uint64_t{10}, uint64_t{7}, uint64_t{11}, uint64_t{1} << 40}) {
    const uint64_t before = TokenFloor();
    Store(engine(), PayKey(std::to_string(token)), PendingRecord(token));
    const absl::StatusOr<ReadResult> other = Read(engine(), {PayKey("other")});
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_THAT(other->token_floor, AllOf(Gt(token), ::testing::Ge(before)));
  }
}

TEST_P(EngineConformance, TheTokenFloorOutlivesTheRecord) {
  Store(engine(), PayKey("a"), PendingRecord(500));
  Store(engine(), PayKey("a"), nullptr);
  EXPECT_GT(TokenFloor(), 500u);
}

TEST_P(DurableEngineConformance, TheTokenFloorOutlivesTheProcess) {
  uint64_t floor = TokenFloor();
  for (int round = 0; round < 4; ++round) {
    Store(engine(), PayKey("kept"), PendingRecord(floor));
    Store(engine(), PayKey("erased"), PendingRecord(floor + 1));
    Store(engine(), PayKey("erased"), nullptr);
    subject_->Reopen();
    EXPECT_GT(TokenFloor(), floor + 1) << "round " << round;
    floor = TokenFloor();
  }
}

TEST_P(DurableEngineConformance, AFarHigherTokenIsCoveredAcrossReopening) {
  const uint64_t far = TokenFloor() + (uint64_t{1} << 45);
  Store(engine(), PayKey("a"), PendingRecord(far));
  Store(engine(), PayKey("a"), nullptr);
  subject_->Reopen();
  EXPECT_GT(TokenFloor(), far);
}

// --- Durability ----------------------------------------------------------------------------------

TEST_P(DurableEngineConformance, KeepsEverythingAcrossReopening) {
  const auto samples = SampleRecords();
  std::map<std::string, Version> versions;
  for (const auto& [name, record] : samples) {
    Store(engine(), PayKey(name), record);
    versions[name] = ReadOne(engine(), PayKey(name)).version;
  }
  Store(engine(), PayKey("erased"), CompleteRecord());
  Store(engine(), PayKey("erased"), nullptr);
  for (int round = 0; round < 2; ++round) {
    subject_->Reopen();
    for (const auto& [name, record] : samples) {
      const ReadEntry entry = ReadOne(engine(), PayKey(name));
      EXPECT_EQ(RecordOf(entry.stored), *record) << name;
      EXPECT_EQ(entry.version, versions[name]) << name;
    }
    EXPECT_TRUE(IsAbsent(ReadOne(engine(), PayKey("erased"))));
    EXPECT_EQ(ScanAll(engine(), {}, 3).size(), samples.size());
  }
}

// For quotas, which are about what is on the disk.
TEST_P(DurableEngineConformance, TellsHowManyBytesANamespaceAndAScopeTake) {
  if (!engine().StoredBytes("a", std::nullopt)) return;  // it cannot say
  constexpr size_t kRecords = 200;
  constexpr uint64_t kBodyBytes = 2000;
  std::mt19937 random(20261130);
  for (size_t i = 0; i < 2 * kRecords; ++i) {
    std::string body(kBodyBytes, '\0');
    for (char& byte : body) byte = static_cast<char>(random());
    Store(engine(), {"a", i % 2 == 0 ? "s" : "t", std::to_string(i)}, CompleteRecord(1, body));
  }
  Store(engine(), {"ab", "s", "k"}, PendingRecord(2));
  subject_->Reopen();  // what was in memory is in files by then
  const uint64_t all = *engine().StoredBytes("a", std::nullopt);
  const uint64_t of_scope = *engine().StoredBytes("a", "s");
  EXPECT_GT(all, 2 * kRecords * kBodyBytes * 9 / 10);
  EXPECT_LT(all, 2 * kRecords * kBodyBytes * 14 / 10);
  EXPECT_GT(of_scope, all * 4 / 10);
  EXPECT_LT(of_scope, all * 6 / 10);
  EXPECT_LT(*engine().StoredBytes("ab", std::nullopt), all / 10);
  EXPECT_LT(*engine().StoredBytes("a", "none"), all / 10);
}

TEST_P(DurableEngineConformance, NeverUsesAVersionAgainAcrossReopening) {
  std::set<Version> seen;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i) {
      Store(engine(), PayKey("a"), PendingRecord());
      EXPECT_TRUE(seen.insert(ReadOne(engine(), PayKey("a")).version).second) << round;
    }
    Store(engine(), PayKey("a"), nullptr);
    Store(engine(), PayKey("never there"), nullptr);
    subject_->Reopen();
  }
}

// --- Bytes that cannot be read -----------------------------------------------------------------

TEST_P(UnreadableConformance, HarmOnlyTheirKey) {
  Store(engine(), PayKey("a"), PendingRecord(1));
  Store(engine(), PayKey("b"), CompleteRecord(1));
  Store(engine(), PayKey("c"), UnresolvedRecord(1));
  subject_->PlantUnreadable(PayKey("b"));
  const absl::StatusOr<ReadResult> result =
      Read(engine(), {PayKey("a"), PayKey("b"), PayKey("c"), PayKey("d")});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(RecordOf(result->entries[0].stored), *PendingRecord(1));
  EXPECT_TRUE(std::holds_alternative<core::Unreadable>(result->entries[1].stored));
  EXPECT_NE(result->entries[1].version, 0u);
  EXPECT_EQ(RecordOf(result->entries[2].stored), *UnresolvedRecord(1));
  EXPECT_TRUE(IsAbsent(result->entries[3]));
  EXPECT_TRUE(engine().pressure().alive);
}

TEST_P(UnreadableConformance, AreShownByAScan) {
  Store(engine(), PayKey("a"), PendingRecord(1));
  subject_->PlantUnreadable(PayKey("b"));
  const std::vector<ScanEntry> all = ScanAll(engine(), {}, 10);
  ASSERT_THAT(KeysOf(all), ElementsAre("pay/acme/a", "pay/acme/b"));
  EXPECT_TRUE(std::holds_alternative<core::Unreadable>(all[1].stored));
}

TEST_P(UnreadableConformance, CanBeErased) {
  subject_->PlantUnreadable(PayKey("a"));
  Store(engine(), PayKey("a"), nullptr);
  EXPECT_TRUE(IsAbsent(ReadOne(engine(), PayKey("a"))));
  subject_->Reopen();
  EXPECT_TRUE(IsAbsent(ReadOne(engine(), PayKey("a"))));
}

TEST_P(UnreadableConformance, CanBeReplacedByARecordOfAnyState) {
  for (const core::RecordPtr& record : {PendingRecord(1), CompleteRecord(1)}) {
    subject_->PlantUnreadable(PayKey("a"));
    Store(engine(), PayKey("a"), record);
    EXPECT_EQ(RecordOf(ReadOne(engine(), PayKey("a")).stored), *record);
    EXPECT_EQ(ScanAll(engine(), {}, 10).size(), 1u);
  }
}

// --- Scans
// -----------------------------------------------------------------------------------------

struct ScanRow {
  std::string name;
  ScanFilter filter;
  std::vector<std::string> expected;
};

std::vector<ScanRow> ScanRows() {
  return {
      {"everything", {}, {"a//x", "a/s/k1", "a/s/k2", "a/t/k1", "b/s/k1", "ab/s/k1"}},
      {"a namespace", {.name_space = "a"}, {"a//x", "a/s/k1", "a/s/k2", "a/t/k1"}},
      {"a namespace that is not there", {.name_space = "c"}, {}},
      {"a scope", {.name_space = "a", .scope = "s"}, {"a/s/k1", "a/s/k2"}},
      {"the empty scope", {.name_space = "a", .scope = ""}, {"a//x"}},
      {"a prefix in a scope", {.name_space = "a", .scope = "s", .key_prefix = "k2"}, {"a/s/k2"}},
      {"a prefix in every scope", {.name_space = "a", .key_prefix = "k1"}, {"a/s/k1", "a/t/k1"}},
      {"a prefix that is not there", {.name_space = "a", .key_prefix = "z"}, {}},
      {"what is open", {.open_only = true}, {"a/s/k1", "ab/s/k1"}},
      {"what is open in a scope", {.name_space = "a", .scope = "s", .open_only = true}, {"a/s/k1"}},
      {"what is open and begins so",
       {.name_space = "a", .key_prefix = "k", .open_only = true},
       {"a/s/k1"}},
  };
}

TEST_P(EngineConformance, ScansVisitWhatTheirFilterNamesInKeyOrder) {
  Store(engine(), {"a", "", "x"}, CompleteRecord(1));
  Store(engine(), {"a", "s", "k1"}, PendingRecord(2));
  Store(engine(), {"a", "s", "k2"}, CompleteRecord(3));
  Store(engine(), {"a", "t", "k1"}, CompleteRecord(4));
  Store(engine(), {"b", "s", "k1"}, CompleteRecord(5));
  Store(engine(), {"ab", "s", "k1"}, UnresolvedRecord(6));
  for (const ScanRow& row : ScanRows()) {
    for (const size_t limit : {1, 2, 3, 100}) {
      EXPECT_EQ(KeysOf(ScanAll(engine(), row.filter, limit)), row.expected)
          << row.name << ", " << limit << " a page";
    }
  }
}

TEST_P(EngineConformance, ScansGoBackToOnePrefixInManyScopes) {
  std::vector<std::string> expected;
  for (char scope = 'a'; scope <= 'z'; ++scope) {
    for (const char* key : {"1", "5", "55", "9"}) {
      Store(engine(), {"n", std::string(1, scope), key}, CompleteRecord(1));
      if (key[0] == '5') expected.push_back(std::string("n/") + scope + "/" + key);
    }
  }
  for (const size_t limit : {1, 7, 1000}) {
    EXPECT_EQ(KeysOf(ScanAll(engine(), {.name_space = "n", .key_prefix = "5"}, limit)), expected)
        << limit << " a page";
  }
}

TEST_P(EngineConformance, AScanThatFindsLittleStillEndsItsPage) {
  // In every scope one key that does not match: no page may visit them all.
  for (int scope = 0; scope < 100; ++scope) {
    Store(engine(), {"n", "s" + std::to_string(scope), "other"}, CompleteRecord(1));
  }
  const ScanFilter filter{.name_space = "n", .key_prefix = "wanted"};
  const absl::StatusOr<ScanResult> page = Scan(engine(), filter, 1);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->entries, IsEmpty());
  EXPECT_NE(page->resume_key, "");
  EXPECT_THAT(ScanAll(engine(), filter, 1), IsEmpty());
}

TEST_P(EngineConformance, AScanPageIsBoundedInBytes) {
  for (int i = 0; i < 12; ++i) {
    Store(engine(), PayKey(std::to_string(i)), CompleteRecord(1, std::string(1 << 20, 'b')));
  }
  const absl::StatusOr<ScanResult> page = Scan(engine(), {}, 100);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_LT(page->entries.size(), 6u);
  EXPECT_NE(page->resume_key, "");
  EXPECT_EQ(ScanAll(engine(), {}, 100).size(), 12u);
}

TEST_P(EngineConformance, ARecordThatMovesDuringAScanIsStillMet) {
  for (const char* key : {"a", "b", "c", "d"}) Store(engine(), PayKey(key), PendingRecord(1));
  for (const char* key : {"e", "f"}) Store(engine(), PayKey(key), CompleteRecord(1));
  absl::StatusOr<ScanResult> first = Scan(engine(), {}, 2);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_THAT(KeysOf(first->entries), ElementsAre("pay/acme/a", "pay/acme/b"));
  // One is finished, and one that was is taken up again.
  Store(engine(), PayKey("c"), CompleteRecord(1));
  Store(engine(), PayKey("e"), PendingRecord(2));
  const absl::StatusOr<ScanResult> rest = Scan(engine(), {}, 10, first->resume_key);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_THAT(KeysOf(rest->entries),
              ElementsAre("pay/acme/c", "pay/acme/d", "pay/acme/e", "pay/acme/f"));
  EXPECT_EQ(rest->resume_key, "");
}

TEST_P(EngineConformance, AScanGoesOnThoughItsLastKeyWasErased) {
  for (const char* key : {"a", "b", "c"}) Store(engine(), PayKey(key), PendingRecord(1));
  const absl::StatusOr<ScanResult> first = Scan(engine(), {}, 2);
  ASSERT_TRUE(first.ok()) << first.status();
  Store(engine(), PayKey("b"), nullptr);
  const absl::StatusOr<ScanResult> rest = Scan(engine(), {}, 2, first->resume_key);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_THAT(KeysOf(rest->entries), ElementsAre("pay/acme/c"));
}

TEST_P(EngineConformance, ScansRefuseWhatIsNotOneOfTheirs) {
  for (const char* key : {"a", "b", "c"}) Store(engine(), PayKey(key), PendingRecord(1));
  const ScanFilter filter{.name_space = "pay"};
  const absl::StatusOr<ScanResult> page = Scan(engine(), filter, 1);
  ASSERT_TRUE(page.ok()) << page.status();
  std::string flipped = page->resume_key;
  flipped.back() ^= 1;
  struct Row {
    std::string name;
    ScanFilter filter;
    size_t limit;
    std::string resume_key;
  };
  const std::vector<Row> rows = {
      {"another namespace", {.name_space = "mail"}, 1, page->resume_key},
      {"every namespace", {}, 1, page->resume_key},
      {"only what is open", {.name_space = "pay", .open_only = true}, 1, page->resume_key},
      {"a scope", {.name_space = "pay", .scope = "acme"}, 1, page->resume_key},
      {"a flipped bit", filter, 1, flipped},
      {"cut short", filter, 1, page->resume_key.substr(0, 3)},
      {"noise", filter, 1, std::string(40, '\xee')},
      {"no entries a page", filter, 0, ""},
      {"a scope without a namespace", {.scope = "acme"}, 1, ""},
      {"a prefix without a namespace", {.key_prefix = "a"}, 1, ""},
      {"a namespace that cannot be", {.name_space = std::string(300, 'n')}, 1, ""},
      {"a scope that cannot be", {.name_space = "pay", .scope = std::string(300, 's')}, 1, ""},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Scan(engine(), row.filter, row.limit, row.resume_key).status().code(),
              absl::StatusCode::kInvalidArgument)
        << row.name;
  }
}

// --- Completions
// -----------------------------------------------------------------------------------

TEST_P(EngineConformance, CallsEveryCompletionOnceAlsoWhenItEnds) {
  constexpr size_t kCalls = 300;
  std::vector<std::atomic<int>> calls(kCalls);
  for (size_t i = 0; i < kCalls; ++i) {
    const core::Key key = PayKey(std::to_string(i % 7));
    switch (i % 3) {
      case 0:
        engine().Read({key}, [&calls, i](const auto&) { ++calls[i]; });
        break;
      case 1:
        engine().Commit({{.key = key, .record = PendingRecord(1)}},
                        [&calls, i](const auto&) { ++calls[i]; });
        break;
      default:
        engine().Scan({}, 5, "", [&calls, i](const auto&) { ++calls[i]; });
    }
  }
  subject_->Destroy();
  for (size_t i = 0; i < kCalls; ++i) EXPECT_EQ(calls[i], 1) << "call " << i;
}

TEST_P(EngineConformance, ACompletionMayCallTheEngineAgain) {
  std::atomic<int> answered{0};
  engine().Read({PayKey("a")}, [&answered, &asked = engine()](const auto&) {
    ++answered;
    asked.Scan({}, 5, "", [&answered](const auto&) { ++answered; });
  });
  // Everything asked before this read is answered when the engine ends.
  ReadOne(engine(), PayKey("b"));
  subject_->Destroy();
  EXPECT_EQ(answered, 2);
}

// --- Against a model
// -------------------------------------------------------------------------------

TEST_P(EngineConformance, AgreesWithAMapOverALongHistory) {
  constexpr uint64_t kSeed = 20240607;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  const auto samples = SampleRecords();
  std::map<std::string, core::RecordPtr> model;
  for (int step = 0; step < 400; ++step) {
    const std::string key(1, static_cast<char>('a' + random() % 12));
    const bool erase = random() % 4 == 0;
    const core::RecordPtr record = erase ? nullptr : samples[random() % samples.size()].second;
    Store(engine(), PayKey(key), record);
    if (erase) {
      model.erase(key);
    } else {
      model[key] = record;
    }
    if (step % 20 == 0 && GetParam().durable) subject_->Reopen();
    if (step % 10 != 0) continue;
    const std::vector<ScanEntry> all = ScanAll(engine(), {}, 1 + random() % 5);
    ASSERT_EQ(all.size(), model.size()) << "step " << step;
    auto expected = model.begin();
    for (const ScanEntry& entry : all) {
      EXPECT_EQ(entry.key.key, expected->first) << "step " << step;
      EXPECT_EQ(RecordOf(entry.stored), *expected->second) << "step " << step;
      ++expected;
    }
  }
}

}  // namespace
}  // namespace idempotency::keystore
