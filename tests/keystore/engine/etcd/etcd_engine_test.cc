// What the etcd engine does beyond what every engine does: several on one store, writes of unknown
// outcome, sweeping, an etcd that goes back in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "keystore/codec/key_codec.h"
#include "keystore/codec/record_codec.h"
#include "keystore/engine/etcd/etcd_epoch.h"
#include "keystore/engine/etcd/etcd_requests.h"
#include "keystore/engine/etcd/etcd_scan.h"
#include "keystore/engine/transfer/retirement.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/etcd/etcd_fixture.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"
#include "tests/support/becomes_true.h"

namespace idempotency::keystore {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const core::Record* RecordIn(const ReadEntry& entry) {
  return std::get_if<core::Record>(&entry.stored);
}

bool IsAbsent(const ReadEntry& entry) { return std::holds_alternative<core::Absent>(entry.stored); }

WriteOutcome CommitOne(Engine& engine, const core::Key& key, Version expected,
                       core::RecordPtr record) {
  return Commit(engine, {{.key = key, .expected = expected, .record = std::move(record)}}).at(0);
}

// The record keys that there are, by the letter of their kind.
std::vector<std::string> KindsOf(EtcdFixture& fixture) {
  std::vector<std::string> kinds;
  for (const std::string& key : fixture.Keys()) kinds.push_back(key.substr(0, 1));
  return kinds;
}

// --- Several servers -----------------------------------------------------------------------------

TEST(EtcdEngineTest, EachClaimOfTwoServersIsWonOnce) {
  EtcdFixture fixture;
  const auto one = fixture.Open();
  const auto two = fixture.Open();
  constexpr int kKeys = 200;
  std::vector<std::atomic<int>> wins(kKeys);
  std::vector<std::thread> claimers;
  for (EtcdEngine* const engine : {one.get(), two.get(), one.get(), two.get()}) {
    claimers.emplace_back([engine, &wins] {
      for (int i = 0; i < kKeys; ++i) {
        const core::Key key = PayKey(std::to_string(i));
        const ReadEntry before = ReadOne(*engine, key);
        if (!IsAbsent(before)) continue;
        const WriteOutcome outcome = CommitOne(*engine, key, before.version, PendingRecord());
        if (outcome == WriteOutcome::kCommitted) ++wins[i];
      }
    });
  }
  for (std::thread& claimer : claimers) claimer.join();
  for (int i = 0; i < kKeys; ++i) EXPECT_EQ(wins[i], 1) << "key " << i;
}

TEST(EtcdEngineTest, TheFloorOfOneServerIsAboveTheTokensOfAnother) {
  EtcdFixture fixture;
  const auto one = fixture.Open();
  const auto two = fixture.Open();
  for (int round = 0; round < 20; ++round) {
    Engine& writer = round % 2 == 0 ? *one : *two;
    Engine& reader = round % 2 == 0 ? *two : *one;
    // All the tokens that a batch may give.
    const uint64_t token = Read(writer, {})->token_floor + writer.traits().max_batch_writes - 1;
    Store(writer, PayKey("a"), PendingRecord(token));
    EXPECT_GT(Read(reader, {})->token_floor, token) << "round " << round;
  }
}

TEST(EtcdEngineTest, AWriteGuardedByAbsenceLosesThoughTheKeyWasMadeAndErasedSince) {
  EtcdFixture fixture;
  const auto late = fixture.Open();
  const auto other = fixture.Open();
  const core::Key key = PayKey("a");
  const Version absent = ReadOne(*late, key).version;
  Store(*other, key, PendingRecord(1));
  Store(*other, key, nullptr);
  EXPECT_TRUE(IsAbsent(ReadOne(*other, key)));
  EXPECT_EQ(CommitOne(*late, key, absent, PendingRecord(2)), WriteOutcome::kLostRace);

  // Nor when nothing is left of the key.
  fixture.surroundings().SetNow(core::At(kStart + 3h));
  ASSERT_TRUE(other->SweepNow().ok());
  EXPECT_THAT(KindsOf(fixture), ElementsAre("e"));
  EXPECT_EQ(CommitOne(*late, key, absent, PendingRecord(2)), WriteOutcome::kLostRace);
  // Not even where its server has heard of the new epoch meanwhile.
  EXPECT_TRUE(IsAbsent(ReadOne(*late, PayKey("another"))));
  EXPECT_EQ(CommitOne(*late, key, absent, PendingRecord(2)), WriteOutcome::kLostRace);
  EXPECT_TRUE(IsAbsent(ReadOne(*late, key)));
  EXPECT_EQ(CommitOne(*late, key, ReadOne(*late, key).version, PendingRecord(3)),
            WriteOutcome::kCommitted);
}

TEST(EtcdEngineTest, AnOldKeyIsErasedWithoutATrace) {
  EtcdFixture fixture;
  {
    const auto engine = fixture.Open();
    Store(*engine, PayKey("open"), PendingRecord());
    Store(*engine, PayKey("finished"), CompleteRecord());
  }
  // Whoever opens the store begins an epoch.
  const auto engine = fixture.Open();
  Store(*engine, PayKey("open"), nullptr);
  Store(*engine, PayKey("finished"), nullptr);
  // The entry for the sweep is left, until its time comes.
  EXPECT_THAT(KindsOf(fixture), ElementsAre("e", "x"));
}

// --- Retired -------------------------------------------------------------------------------------

TEST(EtcdEngineTest, AServerThatRunsOnWhenItsStoreIsRetiredWritesNothingMore) {
  EtcdFixture fixture;
  const auto forgotten = fixture.Open();
  const auto other = fixture.Open();
  Store(*forgotten, PayKey("a"), PendingRecord());
  const Version pending = ReadOne(*forgotten, PayKey("a")).version;
  const Version absent = ReadOne(*forgotten, PayKey("b")).version;
  ASSERT_TRUE(RetireBy(*other).ok());
  // What was on its way, too.
  EXPECT_EQ(CommitOne(*forgotten, PayKey("b"), absent, PendingRecord()), WriteOutcome::kLostRace);
  EXPECT_TRUE(forgotten->pressure().retired);
  EXPECT_EQ(CommitOne(*forgotten, PayKey("a"), pending, CompleteRecord()), WriteOutcome::kLostRace);
  // Whoever asked is told.
  const absl::Status told = Read(*forgotten, {PayKey("a")}).status();
  EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(told.ToString(), HasSubstr("retired"));
  EXPECT_TRUE(IsAbsent(ReadOne(*other, PayKey("b"))));
  EXPECT_EQ(ReadOne(*other, PayKey("a")).version, pending);
  // So that the records are still those that were moved.
  EXPECT_TRUE(RetireBy(*other).ok());

  ASSERT_TRUE(Reinstate(other.get()).ok());
  forgotten->LookNow();
  EXPECT_FALSE(forgotten->pressure().retired);
  EXPECT_EQ(CommitOne(*forgotten, PayKey("a"), pending, CompleteRecord()),
            WriteOutcome::kCommitted);
}

// Nobody asks it for anything.
TEST(EtcdEngineTest, AnIdleServerNoticesThatItsStoreIsRetired) {
  EtcdFixture fixture;
  const auto idle = fixture.Open();
  const auto other = fixture.Open();
  ASSERT_TRUE(RetireBy(*other).ok());
  EXPECT_TRUE(BecomesTrue([&] { return idle->pressure().retired; }));
  ASSERT_TRUE(Reinstate(other.get()).ok());
  EXPECT_TRUE(BecomesTrue([&] { return !idle->pressure().retired; }));
}

TEST(EtcdEngineTest, NothingThatHasExpiredGoesOfARetiredStore) {
  EtcdFixture fixture;
  const auto engine = fixture.Open();
  Store(*engine, PayKey("a"), CompleteRecord());
  ASSERT_TRUE(RetireBy(*fixture.Open()).ok());
  engine->LookNow();
  const std::vector<std::string> kinds = KindsOf(fixture);
  fixture.surroundings().SetNow(core::At(CompleteRecord()->forget_time + 3h));
  ASSERT_TRUE(engine->SweepNow().ok());
  EXPECT_EQ(KindsOf(fixture), kinds);
}

// --- Hints ---------------------------------------------------------------------------------------

// Keys that hints were given of.
class Hints {
 public:
  std::function<void(const core::Key&)> Take() {
    return [this](const core::Key& key) {
      absl::MutexLock lock(&mutex_);
      keys_.push_back(key.key);
    };
  }
  size_t CountOf(const std::string& key) const {
    absl::MutexLock lock(&mutex_);
    return static_cast<size_t>(std::count(keys_.begin(), keys_.end(), key));
  }
  // Waits until there have been so many.
  bool Await(const std::string& key, size_t count) const {
    return BecomesTrue([&] { return CountOf(key) >= count; });
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> keys_ ABSL_GUARDED_BY(mutex_);
};

TEST(EtcdEngineTest, TellsOfWhatAnotherServerHasEnded) {
  EtcdFixture fixture;
  Hints hints;
  const auto one = fixture.Open();
  const auto two = fixture.Open();
  one->OnForeignChange(hints.Take());
  // The watch begins some time after it was asked for.
  ASSERT_TRUE(BecomesTrue([&] {
    Store(*two, PayKey("probe"), PendingRecord());
    Store(*two, PayKey("probe"), CompleteRecord());
    return hints.CountOf("probe") > 0;
  })) << "no hint comes";
  Store(*two, PayKey("last"), PendingRecord());
  ASSERT_TRUE(hints.Await("last", 1));
  Store(*two, PayKey("last"), CompleteRecord());
  EXPECT_TRUE(hints.Await("last", 2));
}

// The watch of one server breaks with the member that it was on, and what another server does
// before it begins anew is told all the same.
TEST(EtcdEngineTest, TellsOfWhatHappenedWhileTheWatchWasAway) {
  EtcdCluster etcd(3);
  EtcdFixture fixture(&etcd);
  const auto first = fixture.Open();
  // Not the one that leads: the others go on at once.
  size_t watched = 0;
  ASSERT_TRUE(BecomesTrue([&] {
    for (watched = 0; watched < etcd.size(); ++watched) {
      EtcdOptions one = fixture.etcd;
      one.endpoints = {etcd.member(watched).endpoint()};
      const auto status = (*EtcdClient::Open(one, fixture.options.log))->StatusNow();
      if (status.ok() && status->leader() != 0 &&
          status->leader() != status->header().member_id()) {
        return true;
      }
    }
    return false;
  }));
  const std::string gone = etcd.member(watched).endpoint();
  const std::string left = etcd.member((watched + 1) % etcd.size()).endpoint();
  fixture.etcd.endpoints = {gone, left};
  const auto one = fixture.Open();
  fixture.etcd.endpoints = {left};
  const auto two = fixture.Open();
  Hints hints;
  one->OnForeignChange(hints.Take());
  ASSERT_TRUE(BecomesTrue([&] {
    Store(*two, PayKey("probe"), PendingRecord());
    Store(*two, PayKey("probe"), CompleteRecord());
    return hints.CountOf("probe") > 0;
  })) << "no hint comes";
  etcd.member(watched).Kill();
  // Where it has been elected meanwhile, the others elect one of theirs.
  ASSERT_TRUE(ReadWhenAnswered(*two, PayKey("meanwhile")).ok());
  Store(*two, PayKey("meanwhile"), PendingRecord());
  EXPECT_TRUE(hints.Await("meanwhile", 1));
}

TEST(EtcdEngineTest, APartOfAScanIsNeverLargerThanMemoryBears) {
  constexpr size_t kSmall = 1000;
  constexpr size_t kLarge = size_t{20} * 1024 * 1024;
  int64_t open = kFirstPart;
  int64_t finished = kFirstPart;
  for (int i = 0; i < 20; ++i) {
    open = NextPart(Family::kOpen, open, kSmall);
    finished = NextPart(Family::kFinished, finished, kSmall);
  }
  EXPECT_EQ(open, 512);
  // Each of them may have an answer of 1.5 MiB.
  EXPECT_EQ(finished, 32);
  EXPECT_EQ(NextPart(Family::kFinished, finished, kLarge), kFirstPart);
}

// --- Unknown outcomes
// ------------------------------------------------------------------------------

// The commit as it goes to etcd, for one that is on its way for long.
etcdserverpb::TxnRequest LateCommit(EtcdFixture& fixture, const std::string& stored_key,
                                    const core::Record& record) {
  etcdserverpb::TxnRequest read;
  AddRangeOne(fixture.layout().EpochKey(), &read);
  const auto epoch = fixture.client().ReadNow(std::move(read));
  EXPECT_TRUE(epoch.ok()) << epoch.status();
  const int64_t revision = epoch->responses(0).response_range().kvs(0).mod_revision();
  etcdserverpb::TxnRequest commit;
  CompareModRevision(fixture.layout().EpochKey(), revision, &commit);
  EtcdWrite write{.stored_key = stored_key, .family = Family::kOpen};
  EncodeRecord(record, &write.value);
  AddWrite(fixture.layout(), write, revision, &commit);
  return commit;
}

TEST(EtcdEngineTest, AnUnknownWriteDoesNotTakeEffectAfterTheReadThatFollows) {
  EtcdCluster etcd(1);
  EtcdFixture fixture(&etcd);
  // It waits so long for an etcd that is frozen, twice; all else takes a part of it.
  fixture.etcd.call_timeout = 10s;
  const auto engine = fixture.Open();
  const core::Key key = PayKey("a");
  const std::string stored_key = EncodeKey(key);
  const Version absent = ReadOne(*engine, key).version;
  const etcdserverpb::TxnRequest late = LateCommit(fixture, stored_key, *PendingRecord(7));

  etcd.member(0).Freeze();
  EXPECT_EQ(CommitOne(*engine, PayKey("b"), absent, PendingRecord(1)), WriteOutcome::kUnknown);
  // Nobody can tell, and so nobody is told.
  EXPECT_EQ(Read(*engine, {key}).status().code(), absl::StatusCode::kUnavailable);
  etcd.member(0).Thaw();
  const absl::StatusOr<ReadResult> read = ReadWhenAnswered(*engine, key);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(IsAbsent(read->entries[0]));

  // What was under way when it became unknown comes now.
  absl::StatusOr<etcdserverpb::TxnResponse> response;
  BecomesTrue([&] {
    response = fixture.client().WriteNow(late);
    return response.ok();
  });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->succeeded());
  EXPECT_TRUE(IsAbsent(ReadOne(*engine, key)));
  Store(*engine, key, PendingRecord(9));
}

// So that the test above can fail.
TEST(EtcdEngineTest, ALateCommitOfTheSameEpochDoesTakeEffect) {
  EtcdFixture fixture;
  const auto engine = fixture.Open();
  const std::string stored_key = EncodeKey(PayKey("a"));
  const auto response =
      fixture.client().WriteNow(LateCommit(fixture, stored_key, *PendingRecord(7)));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->succeeded());
  EXPECT_FALSE(IsAbsent(ReadOne(*engine, PayKey("a"))));
}

TEST(EtcdEngineTest, WithoutEtcdEverythingIsUnavailableAndGoesOnLater) {
  EtcdCluster etcd(1);
  EtcdFixture fixture(&etcd);
  const auto engine = fixture.Open();
  Store(*engine, PayKey("a"), PendingRecord(1));
  etcd.member(0).Kill();
  EXPECT_EQ(Read(*engine, {PayKey("a")}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Scan(*engine, {}, 10).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CommitOne(*engine, PayKey("b"), 0, PendingRecord(1)), WriteOutcome::kUnknown);
  EXPECT_TRUE(engine->pressure().alive);
  etcd.member(0).Start();
  const absl::StatusOr<ReadResult> read = ReadWhenAnswered(*engine, PayKey("a"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_NE(RecordIn(read->entries[0]), nullptr);
}

// --- Sweeping
// --------------------------------------------------------------------------------------

class EtcdSweepTest : public ::testing::Test {
 protected:
  void At(core::Duration later) { fixture_.surroundings().SetNow(core::At(kStart + later)); }
  core::Duration Retention() const { return CompleteRecord()->response_expire_time - kStart; }
  core::Duration Memory() const { return CompleteRecord()->forget_time - kStart; }

  EtcdFixture fixture_;
  std::unique_ptr<EtcdEngine> engine_ = fixture_.Open();
};

TEST_F(EtcdSweepTest, ShrinksWhatHasExpiredAndRemovesWhatIsForgotten) {
  Store(*engine_, PayKey("a"), CompleteRecord(1, "the answer"));
  At(Retention());
  ASSERT_TRUE(engine_->SweepNow().ok());
  EXPECT_EQ(RecordIn(ReadOne(*engine_, PayKey("a")))->state, core::State::kComplete);

  At(Retention() + 62min);
  ASSERT_TRUE(engine_->SweepNow().ok());
  const ReadEntry expired = ReadOne(*engine_, PayKey("a"));
  ASSERT_NE(RecordIn(expired), nullptr);
  EXPECT_EQ(RecordIn(expired)->state, core::State::kExpired);
  EXPECT_THAT(KindsOf(fixture_), ElementsAre("e", "f", "x"));

  At(Memory() + 62min);
  ASSERT_TRUE(engine_->SweepNow().ok());
  EXPECT_TRUE(IsAbsent(ReadOne(*engine_, PayKey("a"))));
  EXPECT_THAT(KindsOf(fixture_), ElementsAre("e"));
}

TEST_F(EtcdSweepTest, LeavesAloneWhatIsOpenAndWhatMustNotBeReclaimed) {
  fixture_.options.may_reclaim = [](std::string_view name) { return name != "pay"; };
  engine_ = fixture_.Open();
  Store(*engine_, PayKey("kept"), CompleteRecord());
  Store(*engine_, {"mail", "s", "gone"}, CompleteRecord());
  Store(*engine_, {"mail", "s", "taken up again"}, CompleteRecord());
  Store(*engine_, {"mail", "s", "taken up again"}, PendingRecord());
  At(Memory() + 62min);
  ASSERT_TRUE(engine_->SweepNow().ok());
  EXPECT_FALSE(IsAbsent(ReadOne(*engine_, PayKey("kept"))));
  EXPECT_TRUE(IsAbsent(ReadOne(*engine_, {"mail", "s", "gone"})));
  EXPECT_FALSE(IsAbsent(ReadOne(*engine_, {"mail", "s", "taken up again"})));
  EXPECT_THAT(KindsOf(fixture_), ElementsAre("e", "f", "o", "x"));
}

TEST_F(EtcdSweepTest, RemovesNothingWhileTheClockIsInDoubt) {
  Store(*engine_, PayKey("a"), CompleteRecord());
  core::Now doubtful = core::At(kStart + Memory() + 62min);
  doubtful.in_doubt = true;
  fixture_.surroundings().SetNow(doubtful);
  ASSERT_TRUE(engine_->SweepNow().ok());
  EXPECT_FALSE(IsAbsent(ReadOne(*engine_, PayKey("a"))));
}

TEST_F(EtcdSweepTest, GoesThroughMoreThanOnePage) {
  constexpr int kKeys = 300;
  for (int i = 0; i < kKeys; i += 50) {
    std::vector<GuardedWrite> writes;
    for (int j = i; j < i + 50; ++j) {
      writes.push_back({.key = PayKey(std::to_string(j)), .record = CompleteRecord()});
    }
    Commit(*engine_, std::move(writes));
  }
  ASSERT_EQ(ScanAll(*engine_, {}, 100).size(), size_t{kKeys});
  At(Memory() + 62min);
  ASSERT_TRUE(engine_->SweepNow().ok());
  EXPECT_THAT(KindsOf(fixture_), ElementsAre("e"));
}

// --- What etcd bears
// -------------------------------------------------------------------------------

TEST(EtcdEngineTest, AnAnswerThatDoesNotFitIsStoredWithoutItsBody) {
  EtcdFixture fixture;
  fixture.etcd.max_request_bytes = size_t{256} * 1024;
  std::vector<std::string> told;
  fixture.options.on_body_omitted = [&told](std::string_view name_space) {
    told.emplace_back(name_space);
  };
  fixture.options.without_body = [](const core::Response& answer) {
    return core::Response{core::Blob("the rest of " + std::to_string(answer.bytes.view().size())),
                          true};
  };
  const auto engine = fixture.Open();
  Store(*engine, PayKey("fits"), CompleteRecord(1, std::string(100'000, 'b')));
  const WriteOutcome outcome =
      CommitOne(*engine, PayKey("large"), 0, CompleteRecord(1, std::string(200'000, 'b')));
  EXPECT_EQ(outcome, WriteOutcome::kCommitted);
  EXPECT_EQ(engine->bodies_omitted(), 1u);
  EXPECT_THAT(told, ElementsAre("pay"));
  // One that was not stored was not left out either.
  EXPECT_EQ(CommitOne(*engine, PayKey("large"), 0, CompleteRecord(1, std::string(200'000, 'b'))),
            WriteOutcome::kLostRace);
  EXPECT_THAT(told, ElementsAre("pay"));
  const ReadEntry large = ReadOne(*engine, PayKey("large"));
  ASSERT_NE(RecordIn(large), nullptr);
  EXPECT_EQ(RecordIn(large)->state, core::State::kComplete);
  EXPECT_TRUE(RecordIn(large)->response.body_omitted);
  EXPECT_EQ(RecordIn(large)->response.bytes.view(), "the rest of 200000");
  EXPECT_FALSE(RecordIn(ReadOne(*engine, PayKey("fits")))->response.body_omitted);
  EXPECT_TRUE(fixture.surroundings().Logged(kLogWarning, "without its body"));
}

TEST(EtcdEngineTest, ABatchThatIsTooLargeForOneRequestGoesInSeveral) {
  EtcdFixture fixture;
  const auto engine = fixture.Open();
  std::vector<GuardedWrite> writes;
  for (int i = 0; i < 10; ++i) {
    writes.push_back(
        {.key = PayKey(std::to_string(i)), .record = CompleteRecord(1, std::string(600'000, 'b'))});
  }
  EXPECT_THAT(Commit(*engine, std::move(writes)), ::testing::Each(WriteOutcome::kCommitted));
}

TEST(EtcdEngineTest, FindsOutHowManyOperationsATransactionMayHave) {
  EtcdCluster etcd(1, {"--max-txn-ops=32"});
  EtcdFixture fixture(&etcd);
  const auto engine = fixture.Open();
  const size_t most = engine->traits().max_batch_writes;
  EXPECT_GT(most, 8u);
  EXPECT_LT(most, 32u);
  // The largest that there is: records that are erased.
  for (const bool erases : {false, true}) {
    std::vector<core::Key> keys;
    for (size_t i = 0; i < most; ++i) keys.push_back(PayKey(std::to_string(i)));
    const absl::StatusOr<ReadResult> read = Read(*engine, keys);
    ASSERT_TRUE(read.ok()) << read.status();
    std::vector<GuardedWrite> writes;
    for (size_t i = 0; i < most; ++i) {
      writes.push_back({.key = keys[i],
                        .expected = read->entries[i].version,
                        .record = erases ? nullptr : CompleteRecord()});
    }
    EXPECT_THAT(Commit(*engine, std::move(writes)), ::testing::Each(WriteOutcome::kCommitted));
  }
}

TEST(EtcdEngineTest, RefusesNewKeysBeforeEtcdIsFull) {
  EtcdCluster etcd(1, {"--quota-backend-bytes=16777216"});
  EtcdFixture fixture(&etcd);
  fixture.etcd.quota_bytes = 16777216;
  const auto engine = fixture.Open();
  EXPECT_FALSE(engine->pressure().full);
  int stored = 0;
  for (; stored < 100 && !engine->pressure().full; ++stored) {
    Store(*engine, PayKey(std::to_string(stored)), CompleteRecord(1, std::string(500'000, 'b')));
    engine->LookNow();
  }
  EXPECT_TRUE(engine->pressure().full);
  EXPECT_GT(stored, 15);
  // What has begun can still be ended.
  Store(*engine, PayKey("begun"), PendingRecord());
  Store(*engine, PayKey("begun"), CompleteRecord());
}

TEST(EtcdEngineTest, WhileEtcdHasRaisedItsAlarmWhatHasBegunCanBeEnded) {
  EtcdCluster etcd(1, {"--quota-backend-bytes=16777216"});
  EtcdFixture fixture(&etcd);
  auto engine = fixture.Open();
  Store(*engine, PayKey("begun"), PendingRecord());
  etcdserverpb::TxnRequest request;
  absl::StatusOr<etcdserverpb::TxnResponse> response;
  for (int i = 0; i < 100; ++i) {
    request.Clear();
    AddPut(fixture.etcd.prefix + "filler" + std::to_string(i), std::string(1'000'000, 'b'),
           request.mutable_success());
    response = fixture.client().WriteNow(request);
    if (!response.ok()) break;
  }
  ASSERT_EQ(response.status().code(), absl::StatusCode::kResourceExhausted) << response.status();
  engine->LookNow();
  EXPECT_TRUE(engine->pressure().full);
  Store(*engine, PayKey("begun"), CompleteRecord());
  // And a server can begin.
  engine = fixture.Open();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(RecordIn(ReadOne(*engine, PayKey("begun")))->state, core::State::kComplete);
}

TEST(EtcdEngineTest, WhoAsksForWhatEtcdRefusesIsToldAndNothingSpins) {
  EtcdFixture fixture;
  // It is wrong about what etcd takes.
  fixture.etcd.max_request_bytes = size_t{2} * 1024 * 1024;
  const auto engine = fixture.Open();
  EXPECT_EQ(CommitOne(*engine, PayKey("a"), 0, CompleteRecord(1, std::string(1'700'000, 'b'))),
            WriteOutcome::kLostRace);
  EXPECT_EQ(Read(*engine, {PayKey("a")}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(IsAbsent(ReadOne(*engine, PayKey("a"))));
}

// --- An etcd that goes back
// ------------------------------------------------------------------------

// An etcd of one member, whose files are copied while it is down.
class EtcdRestored : public ::testing::Test {
 protected:
  // Engines that are open lose it for a while.
  void SetAside() {
    etcd_.member(0).Kill();
    Copy(etcd_.member(0).data_dir(), aside_.file("data"));
    etcd_.member(0).Start();
  }
  // Leaves it down.
  void PutBack() {
    etcd_.member(0).Kill();
    std::filesystem::remove_all(etcd_.member(0).data_dir());
    Copy(aside_.file("data"), etcd_.member(0).data_dir());
  }

  EtcdCluster etcd_{1};
  EtcdFixture fixture_{&etcd_};

 private:
  static void Copy(const std::string& from, const std::string& to) {
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
  }

  const TempDirectory aside_;
};

TEST_F(EtcdRestored, TokensGoOnRising) {
  EtcdFixture& fixture = fixture_;
  auto engine = fixture.Open();
  Store(*engine, PayKey("before"), PendingRecord(1));
  SetAside();
  engine = fixture.Open();
  uint64_t newest = 0;
  for (int i = 0; i < 100; ++i) {
    newest = Read(*engine, {})->token_floor + engine->traits().max_batch_writes - 1;
    Store(*engine, PayKey(std::to_string(i)), PendingRecord(newest));
  }
  PutBack();
  etcd_.member(0).Start();

  // Whoever knew it before notices, and ends.
  EXPECT_TRUE(BecomesTrue([&engine] {
    (void)Read(*engine, {PayKey("before")});
    return !engine->pressure().alive;
  }));
  EXPECT_TRUE(fixture.surroundings().Logged(kLogError, "gone back"));
  engine.reset();
  // Half a second has passed since, by whatever clock.
  fixture.surroundings().SetNow(core::At(kStart + 500ms));
  engine = fixture.Open();
  EXPECT_GT(Read(*engine, {})->token_floor, newest);
  // And what was pending is unknown now.
  EXPECT_EQ(RecordIn(ReadOne(*engine, PayKey("before")))->state, core::State::kUnresolved);
  EXPECT_TRUE(IsAbsent(ReadOne(*engine, PayKey("1"))));
  EXPECT_TRUE(core::IsSet(engine->traits().lost_before));
  engine.reset();
  engine = fixture.Open();
  EXPECT_EQ(engine->traits().lost_before, kStart);
}

TEST_F(EtcdRestored, IsNoticedByAServerThatIsAskedForNothing) {
  auto engine = fixture_.Open();
  SetAside();
  engine = fixture_.Open();
  Store(*engine, PayKey("after"), PendingRecord(1));
  PutBack();
  etcd_.member(0).Start();
  EXPECT_TRUE(BecomesTrue([&engine] { return !engine->pressure().alive; }));
  EXPECT_TRUE(fixture_.surroundings().Logged(kLogError, "gone back"));
}

TEST_F(EtcdRestored, ALossThatCouldNotBeNotedIsNotedLater) {
  // The time is asked for when a loss has been found, and at that moment etcd goes away.
  std::atomic<bool> goes_away{false};
  std::atomic<bool> has_gone{false};
  fixture_.options.now = [&, now = fixture_.options.now] {
    if (goes_away.exchange(false)) {
      etcd_.member(0).Kill();
      has_gone = true;
    }
    return now();
  };
  auto engine = fixture_.Open();
  Store(*engine, PayKey("pending"), PendingRecord(1));
  SetAside();
  engine = fixture_.Open();
  Store(*engine, PayKey("after"), PendingRecord(1));
  PutBack();
  goes_away = true;
  etcd_.member(0).Start();
  ASSERT_TRUE(BecomesTrue([&has_gone] { return has_gone.load(); }));
  ASSERT_TRUE(BecomesTrue(
      [this] { return fixture_.surroundings().Logged(kLogError, "could not be noted"); }));
  EXPECT_TRUE(engine->pressure().alive) << "else the next start would know nothing of it";
  EXPECT_EQ(Read(*engine, {PayKey("pending")}).status().code(), absl::StatusCode::kUnavailable);
  etcd_.member(0).Start();
  EXPECT_TRUE(BecomesTrue([&engine] { return !engine->pressure().alive; }));
  engine.reset();
  engine = fixture_.Open();
  EXPECT_EQ(engine->traits().lost_before, kStart);
  EXPECT_EQ(RecordIn(ReadOne(*engine, PayKey("pending")))->state, core::State::kUnresolved);
}

TEST(EtcdEngineTest, TokensGoOnRisingThoughEverythingWasRemoved) {
  EtcdFixture fixture;
  auto engine = fixture.Open();
  // Far above what a server begins with by the time.
  const uint64_t high = uint64_t{1} << 52;
  Store(*engine, PayKey("a"), PendingRecord(high));
  fixture.RemoveAll();
  EXPECT_TRUE(BecomesTrue([&engine] { return !engine->pressure().alive; }));
  engine.reset();
  engine = fixture.Open();
  EXPECT_GT(Read(*engine, {})->token_floor, high);
  EXPECT_TRUE(core::IsSet(engine->traits().lost_before));
}

TEST(EtcdEngineTest, ListsWithoutAPauseKeepNobodyFromLookingHowEtcdStands) {
  EtcdFixture fixture;
  const auto engine = fixture.Open();
  std::atomic<bool> stop{false};
  std::vector<std::thread> askers;
  for (int i = 0; i < 3; ++i) {
    askers.emplace_back([&] {
      while (!stop) (void)Scan(*engine, {}, 10);
    });
  }
  // Lists do not look at the epoch.
  fixture.RemoveAll();
  EXPECT_TRUE(BecomesTrue([&engine] { return !engine->pressure().alive; }));
  stop = true;
  for (std::thread& asker : askers) asker.join();
}

class EtcdEpochTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(fixture_.Open(), nullptr) << "etcd does not answer"; }

  etcdserverpb::TxnResponse Find() {
    etcdserverpb::TxnRequest read;
    AddRangeOne(layout_.EpochKey(), &read);
    const auto found = fixture_.client().ReadNow(std::move(read));
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : etcdserverpb::TxnResponse();
  }
  absl::StatusCode Note(EtcdEpoch& epoch) {
    const etcdserverpb::TxnResponse found = Find();
    return epoch.NoteKey(found, KeyAt(found, 0)).status().code();
  }

  EtcdFixture fixture_;
  const EtcdLayout layout_ = fixture_.layout();
  EtcdEpoch one_{&fixture_.client(), &layout_};
  EtcdEpoch two_{&fixture_.client(), &layout_};
};

TEST_F(EtcdEpochTest, WhatAnotherServerMakesOfItIsTakenUp) {
  ASSERT_TRUE(one_.Open(kStart).ok());
  ASSERT_TRUE(two_.Open(kStart + 1h).ok());
  EXPECT_EQ(Note(one_), absl::StatusCode::kOk);
  EXPECT_EQ(one_.state().revision, two_.state().revision);
  EXPECT_EQ(one_.state().value, two_.state().value);
  EXPECT_EQ(Note(two_), absl::StatusCode::kOk);
}

// Its revisions go on: by them alone nobody would notice.
TEST_F(EtcdEpochTest, ThatItWasMadeAnewIsALoss) {
  ASSERT_TRUE(one_.Open(kStart).ok());
  fixture_.RemoveAll();
  ASSERT_TRUE(two_.Open(kStart).ok());
  EXPECT_EQ(Note(one_), absl::StatusCode::kDataLoss);
}

TEST_F(EtcdEpochTest, ThatItWasWrittenLessOftenThanIsKnownIsALoss) {
  ASSERT_TRUE(one_.Open(kStart).ok());
  const EpochState known = one_.state();
  etcdserverpb::TxnResponse found = Find();
  etcdserverpb::KeyValue key = *KeyAt(found, 0);
  key.set_mod_revision(known.revision + 100);
  found.mutable_header()->set_revision(known.revision + 100);
  EXPECT_EQ(one_.NoteKey(found, &key).status().code(), absl::StatusCode::kDataLoss);
  key.set_version(known.writes + 1);
  EXPECT_EQ(one_.NoteKey(found, &key).status().code(), absl::StatusCode::kOk);
}

TEST_F(EtcdEpochTest, ThatItIsOlderThanWhatWasKnownWhenItWasAskedForIsALoss) {
  ASSERT_TRUE(one_.Open(kStart).ok());
  const etcdserverpb::TxnResponse before = Find();
  ASSERT_TRUE(one_.Open(kStart).ok());
  const int64_t known = one_.state().revision;
  EXPECT_EQ(one_.NoteKey(before, KeyAt(before, 0)).status().code(), absl::StatusCode::kOk)
      << "it was on its way";
  EXPECT_EQ(one_.NoteKey(before, KeyAt(before, 0), known).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(EtcdEpochTest, ALossIsNotedOnceByWhoeverIsFirstAndTheBaseRaisedByAll) {
  ASSERT_TRUE(one_.Open(kStart).ok());
  ASSERT_TRUE(two_.Open(kStart).ok());
  const uint64_t base = uint64_t{1} << 52;
  EpochValue high = two_.state().value;
  high.token_base = base;
  ASSERT_TRUE(*two_.ChangeNow(two_.state(), high));
  fixture_.RemoveAll();
  for (const auto& [epoch, now] :
       {std::pair(&one_, kStart + 1min), std::pair(&two_, kStart + 2min)}) {
    absl::Notification answered;
    absl::Status marked;
    epoch->MarkLoss(now, [&](const absl::Status& status) {
      marked = status;
      answered.Notify();
    });
    answered.WaitForNotification();
    EXPECT_TRUE(marked.ok()) << marked;
  }
  const etcdserverpb::TxnResponse found = Find();
  const auto value = DecodeEpochValue(KeyAt(found, 0)->value());
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->lost_before, kStart + 1min);
  EXPECT_TRUE(value->loss_open);
  EXPECT_GE(TokenFloor(*value, found.header().revision()), base);
  // And whoever knew it before notices.
  EXPECT_EQ(Note(one_), absl::StatusCode::kDataLoss);
}

TEST(EtcdEngineTest, DoesNotOpenWhatSomethingElseHasWritten) {
  EtcdFixture fixture;
  fixture.Open().reset();
  fixture.Put(fixture.layout().EpochKey(), "something else");
  EXPECT_EQ(EtcdEngine::Open(fixture.options, fixture.etcd).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// --- Keys of sealed responses --------------------------------------------------------------------

class SealedEtcdTest : public ::testing::Test {
 protected:
  SealedEtcdTest() { SealWith("k1"); }

  void SealWith(const std::string& id) {
    keys_.AddKey(id);
    keys_.MakeCurrent(id);
    fixture_.options.response_keys = keys_.options.engine.response_keys;
  }
  absl::Status TryOpen() { return EtcdEngine::Open(fixture_.options, fixture_.etcd).status(); }

  // For its key files; no store is opened there.
  RocksDbFixture keys_;
  EtcdFixture fixture_;
};

TEST_F(SealedEtcdTest, RemembersAKeyBeforeAnythingIsSealedWithIt) {
  fixture_.Open().reset();
  EXPECT_THAT(fixture_.Keys(), ElementsAre("epoch", "k/k1"));
  fixture_.Open().reset();
  EXPECT_THAT(fixture_.Keys(), ElementsAre("epoch", "k/k1"));
  SealWith("k2");
  fixture_.Open().reset();
  EXPECT_THAT(fixture_.Keys(), ElementsAre("epoch", "k/k1", "k/k2"));
}

TEST_F(SealedEtcdTest, DoesNotOpenWithoutAKeyThatItNeeds) {
  Store(*fixture_.Open(), PayKey("a"), CompleteRecord());
  SealWith("k2");
  fixture_.Open().reset();
  keys_.RemoveKey("k1");
  const absl::Status refused = TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("k1.key"), HasSubstr("--lost_response_keys"),
                    Not(HasSubstr("--etcd_endpoints"))));
  // As little as without any.
  fixture_.options.response_keys.clear();
  EXPECT_TRUE(absl::IsFailedPrecondition(TryOpen()));
  fixture_.options.lost_response_keys = {"k2"};
  EXPECT_TRUE(absl::IsFailedPrecondition(TryOpen()));

  fixture_.options.lost_response_keys = {"k2", "k1"};
  const auto engine = fixture_.Open();
  ASSERT_NE(engine, nullptr);
  const ReadEntry entry = ReadOne(*engine, PayKey("a"));
  ASSERT_NE(RecordIn(entry), nullptr);
  EXPECT_TRUE(RecordIn(entry)->response.body_omitted);
}

// How that is made sure of is needed_keys.h's; that it is used here, chance tells.
TEST_F(SealedEtcdTest, OfTwoThatBeginAtOnceWithOtherKeysNotBothDo) {
  RocksDbFixture other_keys;
  other_keys.AddKey("k2");
  other_keys.MakeCurrent("k2");
  EngineOptions other = fixture_.options;
  other.response_keys = other_keys.options.engine.response_keys;
  fixture_.options.response_keys.clear();
  fixture_.Open().reset();
  fixture_.options.response_keys = keys_.options.engine.response_keys;
  for (int i = 0; i < 10; ++i) {
    for (const char* id : {"k1", "k2"}) fixture_.Remove(fixture_.layout().NeededKey(id));
    absl::Status theirs;
    std::thread opener([&] { theirs = EtcdEngine::Open(other, fixture_.etcd).status(); });
    const absl::Status ours = TryOpen();
    opener.join();
    EXPECT_FALSE(ours.ok() && theirs.ok());
  }
}

TEST_F(SealedEtcdTest, SettlesNoLossWithoutAKeyThatItNeeds) {
  Store(*fixture_.Open(), PayKey("a"), PendingRecord(1));
  const auto found = fixture_.client().ReadNow([&] {
    etcdserverpb::TxnRequest read;
    AddRangeOne(fixture_.layout().EpochKey(), &read);
    return read;
  }());
  ASSERT_TRUE(found.ok()) << found.status();
  auto value = DecodeEpochValue(KeyAt(*found, 0)->value());
  ASSERT_TRUE(value.has_value());
  value->lost_before = kStart;
  value->loss_open = true;
  fixture_.Put(fixture_.layout().EpochKey(), EncodeEpochValue(*value));
  keys_.RemoveKey("k1");
  SealWith("k2");
  EXPECT_TRUE(absl::IsFailedPrecondition(TryOpen()));
  keys_.AddKey("k1");
  const auto engine = fixture_.Open();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(RecordIn(ReadOne(*engine, PayKey("a")))->state, core::State::kUnresolved);
  EXPECT_TRUE(fixture_.surroundings().Logged(kLogWarning, "1 operations that were pending"));
}

TEST(EtcdEngineTest, SaysWhatIsWrongWithItsOptions) {
  const EtcdFixture fixture;
  EtcdOptions no_members = fixture.etcd;
  no_members.endpoints.clear();
  EtcdOptions no_prefix = fixture.etcd;
  no_prefix.prefix.clear();
  EtcdOptions no_key = fixture.etcd;
  no_key.certificate_file = "/certificate.pem";
  EtcdOptions no_file = fixture.etcd;
  no_file.ca_file = "/nowhere/ca.pem";
  EtcdOptions no_password = fixture.etcd;
  no_password.user = "idempotencyd";
  no_password.password_file = "/nowhere/password";
  for (const EtcdOptions& wrong : {no_members, no_prefix, no_key, no_file, no_password}) {
    EXPECT_EQ(EtcdEngine::Open(fixture.options, wrong).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace idempotency::keystore
