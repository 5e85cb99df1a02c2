// Lapses, restarts and the space of open records: what time does without anybody asking.
#include <string>
#include <string_view>
#include <vector>

#include "keystore/core/limits.h"
#include "keystore/core/transition.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class TimersTest : public ShellTest {
 protected:
  explicit TimersTest(Traits traits = {}) : ShellTest(traits) {}

  // Another replica applies `request` without telling.
  void AnotherApplies(const Request& request) {
    const core::Decision decision =
        core::Step(engine.At(request.key), request.command, *request.policy, clock.Read(), 1);
    engine.Put(request.key, *decision.record);
  }
};

// --- Lapses ----------------------------------------------------------------------------------

TEST_F(TimersTest, ALapseIsReportedOnceAsWhatTheRecordIsNow) {
  Send(Reserve("sent", 1));
  Send(ReserveDispatchLater("unsent", 2));
  Send(Reserve("done", 3));
  Send(Complete("done", 3));
  Pass(kLease - 1ms);
  EXPECT_THAT(observer.lapses, IsEmpty());
  Pass(1ms);
  EXPECT_THAT(observer.lapses, testing::UnorderedElementsAre("sent: UNRESOLVED", "unsent: FREED"));
  Pass(1h);
  EXPECT_THAT(observer.lapses, SizeIs(2));
  EXPECT_EQ(StoredAs("sent"), "PENDING") << "time's doing is not written";
}

TEST_F(TimersTest, WhatTheKeyStoreAsksForItselfIsNotObserved) {
  Send(Reserve("k", 1));
  Pass(kLease);
  EXPECT_THAT(observer.answers, ElementsAre("k: ACQUIRED 1"));
}

TEST_F(TimersTest, AnEndedAttemptDoesNotLapse) {
  for (const char* key : {"a", "b", "c"}) Send(Reserve(key, 1));
  Send(Complete("a", 1));
  Send(Release("b", 2));
  Send(Mark("c", 3));
  EXPECT_EQ(UntilTimer(), -1ms);
  Pass(kLease);
  EXPECT_THAT(observer.lapses, IsEmpty());
}

TEST_F(TimersTest, ALeaseRenewedElsewhereIsNotReportedAndLooksAgainAtItsNewEnd) {
  Send(Reserve("k", 1));
  clock.Advance(20s);
  AnotherApplies(Renew("k", 1, 60s));
  Pass(10s);
  EXPECT_THAT(observer.lapses, IsEmpty());
  EXPECT_EQ(UntilTimer(), 50s);
  Pass(50s);
  EXPECT_THAT(observer.lapses, ElementsAre("k: UNRESOLVED"));
}

TEST_F(TimersTest, ALeaseEndedElsewhereIsNotReported) {
  Send(Reserve("k", 1));
  AnotherApplies(Complete("k", 1));
  Pass(kLease);
  EXPECT_THAT(observer.lapses, IsEmpty());
  EXPECT_EQ(UntilTimer(), -1ms);
}

TEST_F(TimersTest, ALapseIsReportedAlsoWhenAWaiterAcquiresAtOnce) {
  Send(Rerun(Reserve("k", 1)));
  Call* const waiter = Send(Rerun(Reserve("k", 2, 60s)));
  Pass(kLease);
  EXPECT_EQ(waiter->said, "ACQUIRED 2");
  EXPECT_THAT(observer.lapses, ElementsAre("k: UNRESOLVED"));
  EXPECT_EQ(UntilTimer(), kLease);
}

// It was told of by the timer alone, which found a settled operation where it came second.
TEST_F(TimersTest, ALapseIsNotLostWhereACommandSettlesItBeforeTheTimerComes) {
  for (const char* key : {"resolved", "late", "read"}) Send(Reserve(key, 1));
  Send(Rerun(Reserve("again", 1)));
  Send(ReserveDispatchLater("freed", 1));
  clock.Advance(kLease);
  Send(Resolve("resolved", core::Resolution::kNotExecuted));
  EXPECT_THAT(observer.lapses, ElementsAre("resolved: UNRESOLVED"));
  SendAll({Complete("late", 2), Get("read"), Rerun(Reserve("again", 2)), Reserve("freed", 2)});
  const auto once =
      testing::UnorderedElementsAre("resolved: UNRESOLVED", "late: UNRESOLVED", "read: UNRESOLVED",
                                    "again: UNRESOLVED", "freed: FREED");
  EXPECT_THAT(observer.lapses, once);
  RunTimers();
  EXPECT_THAT(observer.lapses, once);
}

TEST_F(TimersTest, ALapseIsReportedAlsoWhenItWasForgottenBeforeAnybodySawIt) {
  Send(Rerun(Reserve("k", 1), 1h));
  clock.Advance(40 * core::kDay);
  EXPECT_EQ(Send(Inspect("k"))->said, "OPERATION_NOT_FOUND");
  EXPECT_THAT(observer.lapses, ElementsAre("k: UNRESOLVED"));
}

TEST_F(TimersTest, ALapseIsReportedOnceThoughACommandReadsItTogetherWithTheTimer) {
  Send(Reserve("k", 1));
  clock.Advance(kLease);
  engine.Hold(FakeEngine::Call::kRead);
  Send(Reserve("other", 2));
  Call* const resolve = Send(Resolve("k", core::Resolution::kNotExecuted));
  RunTimers();
  engine.HoldNoMore();
  engine.ReleaseAll();
  EXPECT_EQ(resolve->answers, 1);
  EXPECT_THAT(observer.lapses, ElementsAre("k: UNRESOLVED"));
}

// 600 leases that end together.
class ManyLapsesTest : public TimersTest {
 protected:
  ManyLapsesTest() {
    std::vector<Request> requests;
    for (uint64_t i = 0; i < kKeys; ++i) requests.push_back(Reserve("k" + std::to_string(i), i));
    SendAll(std::move(requests));
  }

  void End() {
    reads_before_ = engine.reads().size();
    clock.Advance(kLease);
  }

  // How many keys each batch since then has read.
  std::vector<size_t> Batches() const {
    const std::vector<size_t> reads = engine.reads();
    return {reads.begin() + static_cast<std::ptrdiff_t>(reads_before_), reads.end()};
  }

  static constexpr size_t kKeys = 600;

 private:
  size_t reads_before_ = 0;
};

TEST_F(ManyLapsesTest, AreReportedInSeveralRuns) {
  End();
  int runs = 0;
  for (; UntilTimer() == 0ms; ++runs) RunTimers();
  EXPECT_EQ(runs, 3);
  EXPECT_THAT(Batches(), ElementsAre(256, 256, 88));
  EXPECT_THAT(observer.lapses, SizeIs(kKeys));
}

TEST_F(ManyLapsesTest, CallersDoNotWaitForThemAll) {
  End();
  engine.Hold(FakeEngine::Call::kRead);
  RunTimers();
  const Call* caller = Send(Get("k1"));
  RunTimers();
  engine.ReleaseOne();
  EXPECT_EQ(UntilTimer(), -1ms) << "the lane sees to them by itself";
  engine.ReleaseOne();
  EXPECT_EQ(caller->answers, 1);
  EXPECT_THAT(Batches(), ElementsAre(256, 32 + 1));
  engine.HoldNoMore();
  engine.ReleaseAll();
  while (UntilTimer() == 0ms) RunTimers();
  EXPECT_THAT(observer.lapses, SizeIs(kKeys));
}

TEST_F(ManyLapsesTest, AreAsManyABatchAsThereAreCallers) {
  End();
  engine.Hold(FakeEngine::Call::kRead);
  RunTimers();
  std::vector<Request> requests;
  for (int i = 0; i < 100; ++i) requests.push_back(Get("other" + std::to_string(i)));
  SendAll(std::move(requests));
  RunTimers();
  engine.ReleaseOne();
  Send(Get("another"));
  engine.ReleaseOne();
  engine.ReleaseOne();
  EXPECT_THAT(Batches(), ElementsAre(256, 32 + 100, 100 + 1));
  engine.HoldNoMore();
  engine.ReleaseAll();
}

TEST_F(ManyLapsesTest, AServerThatDrainsDoesNotWaitForThemAll) {
  End();
  engine.Hold(FakeEngine::Call::kRead);
  RunTimers();
  Send(Get("k1"));
  RunTimers();
  engine.ReleaseOne();
  engine.HoldNoMore();
  engine.ReleaseAll();
  store->Drain();
  EXPECT_THAT(Batches(), ElementsAre(256, 32 + 1, 256));
}

TEST_F(ManyLapsesTest, WhoWaitsGoesBeforeThemAndBeforeWhoComesLater) {
  Send(Rerun(Reserve("awaited", 1'000)));
  const Call* waits = Send(Rerun(Reserve("awaited", 1'001, 60s)));
  End();
  const Call* later = Send(Rerun(Reserve("awaited", 1'002)));
  EXPECT_THAT(waits->said, testing::StartsWith("ACQUIRED"));
  EXPECT_THAT(later->said, testing::StartsWith("IN_PROGRESS"));
}

// Another command may find the end of the lease while a batch is read.
TEST_F(TimersTest, WhoWaitsIsWokenAlsoByACommandThatReadsTheEndedLease) {
  Send(Rerun(Reserve("k", 1)));
  const Call* waits = Send(Rerun(Reserve("k", 2, 60s)));
  engine.Hold(FakeEngine::Call::kRead);
  Send(Rerun(Get("k")));
  clock.Advance(kLease);
  engine.HoldNoMore();
  engine.ReleaseAll();
  EXPECT_THAT(waits->said, testing::StartsWith("ACQUIRED"));
}

// --- When the timers are due -----------------------------------------------------------------

TEST_F(TimersTest, WhoSleepsUntilATimerIsToldOfAnEarlierOne) {
  int told = 0;
  store->OnEarlierTimer([&] { ++told; });
  Send(Get("k"));
  EXPECT_EQ(told, 0) << "nothing is due";
  Send(Reserve("k", 1));
  EXPECT_EQ(told, 1);
  Send(Reserve("later", 2));
  EXPECT_EQ(told, 1) << "not earlier";
  Request shorter = Reserve("shorter", 3);
  std::get<core::ReserveCommand>(shorter.command).lease = 10s;
  Send(shorter);
  EXPECT_EQ(told, 2);
  EXPECT_EQ(UntilTimer(), 10s);
  Send(Reserve("k", 4, 5s));
  EXPECT_EQ(told, 3) << "the end of a wait";
  Pass(5s);
  EXPECT_EQ(told, 3) << "who runs the timers asks for the next one";
  EXPECT_EQ(UntilTimer(), 5s);
}

TEST_F(TimersTest, RunningTimersThatAreNotDueDoesNothing) {
  Send(Reserve("k", 1));
  const size_t before = engine.reads().size();
  RunTimers();
  clock.Advance(kLease - 1ms);
  RunTimers();
  EXPECT_THAT(engine.reads(), SizeIs(before));
}

class SkewedTest : public TimersTest {
 protected:
  SkewedTest() : TimersTest(Traits{.exclusive = false, .clock_skew = 500ms}) {}
};

TEST_F(SkewedTest, WhileOnlySomeReplicasCountALeaseAsEndedNoTimerIsDue) {
  Send(Reserve("k", 1));
  Call* const waiter = Send(Get("k", 60s));
  EXPECT_EQ(UntilTimer(), kLease + 500ms) << "else the timers would be run in a tight loop";
  Pass(kLease);
  EXPECT_EQ(waiter->said, "");
  EXPECT_EQ(Send(Renew("k", 1))->said, "LEASE_LAPSED") << "dead for its holder";
  EXPECT_EQ(UntilTimer(), 500ms);
  Pass(500ms);
  EXPECT_EQ(waiter->said, "GOT UNRESOLVED");
  EXPECT_EQ(UntilTimer(), -1ms);
}

// --- After a restart -------------------------------------------------------------------------

TEST_F(TimersTest, LapsesAreReportedAlsoAfterARestart) {
  Send(Reserve("k", 1));
  Send(Reserve("done", 2));
  Send(Complete("done", 2));
  Restart();
  EXPECT_EQ(UntilTimer(), -1ms);
  int told = 0;
  store->OnEarlierTimer([&] { ++told; });
  ASSERT_TRUE(store->LoadOpen().ok());
  EXPECT_EQ(told, 1);
  EXPECT_EQ(UntilTimer(), kLease);
  Pass(kLease);
  EXPECT_THAT(observer.lapses, ElementsAre("k: UNRESOLVED"));
}

TEST_F(TimersTest, ALeaseThatEndedWhileNobodyRanIsReported) {
  Send(Reserve("k", 1));
  Restart();
  clock.Advance(24h);
  ASSERT_TRUE(store->LoadOpen().ok());
  RunTimers();
  EXPECT_THAT(observer.lapses, ElementsAre("k: UNRESOLVED"));
}

TEST_F(TimersTest, OpenRecordsAreLoadedPageByPage) {
  for (uint64_t i = 0; i < 25; ++i) Send(Reserve("k" + std::to_string(i), i));
  engine.Put(KeyOf("unreadable"), core::Unreadable{});
  Restart({.lanes = 3});
  engine.LimitVisits(10);
  ASSERT_TRUE(store->LoadOpen().ok());
  EXPECT_EQ(engine.scans(), 3u);
  clock.Advance(kLease);
  RunTimers();
  EXPECT_THAT(observer.lapses, SizeIs(25));
}

TEST_F(TimersTest, WhatCannotBeLoadedIsSaid) {
  engine.FailNextScans(1);
  EXPECT_EQ(store->LoadOpen().code(), absl::StatusCode::kUnavailable);
}

// --- Sweeping --------------------------------------------------------------------------------

constexpr core::Duration kForgotten = kLease + core::kFreedMemory;

TEST_F(TimersTest, ARecordFreedByItsLapseIsErasedWhenItIsForgotten) {
  Send(ReserveDispatchLater("k", 1));
  Pass(kLease);
  Pass(core::kFreedMemory - 1ms);
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "PENDING");
  Pass(1ms);
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "ABSENT");
}

TEST_F(TimersTest, AnUnresolvedRecordIsErasedOnlyWhereItMayBeRunAgain) {
  for (const char* key : {"lapsed", "marked"}) {
    Send(Rerun(Reserve(std::string("rerun ") + key, 1), 1h));
    Send(Reserve(std::string("kept ") + key, 2));
  }
  Send(Rerun(Mark("rerun marked", 3), 1h));
  Send(Mark("kept marked", 4));
  Pass(kLease);
  Pass(1h);
  store->Sweep();
  EXPECT_EQ(StoredAs("rerun lapsed"), "ABSENT");
  EXPECT_EQ(StoredAs("rerun marked"), "ABSENT");
  EXPECT_EQ(StoredAs("kept lapsed"), "PENDING");
  EXPECT_EQ(StoredAs("kept marked"), "UNRESOLVED");
  Pass(1000 * core::kDay);
  store->Sweep();
  EXPECT_EQ(StoredAs("kept lapsed"), "PENDING");
  EXPECT_EQ(StoredAs("kept marked"), "UNRESOLVED");
}

TEST_F(TimersTest, WhatWasTakenUpAgainIsNotErased) {
  Send(Rerun(Reserve("k", 1), 1h));
  Pass(kLease);
  EXPECT_EQ(Send(Rerun(Reserve("k", 2), 1h))->said, "ACQUIRED 2");
  Pass(20s);
  Send(Rerun(Renew("k", 2, 24h)));
  Pass(2h);
  store->Sweep();
  EXPECT_EQ(Send(Get("k"))->said, "GOT PENDING");
}

TEST_F(TimersTest, ARecordCompletedAfterItsLapseIsNotSwept) {
  Send(Rerun(Reserve("k", 1), 1h));
  Pass(kLease);
  Send(Rerun(Complete("k", 1), 24h));
  Pass(2h);
  const size_t before = engine.reads().size();
  store->Sweep();
  EXPECT_THAT(engine.reads(), SizeIs(before)) << "there is nothing to sweep";
  EXPECT_EQ(Send(Get("k"))->said, "GOT COMPLETE");
}

TEST_F(TimersTest, AnOperationThatFailsAgainAndAgainIsSweptOnce) {
  Send(Rerun(Reserve("k", 1), 1h));
  for (uint64_t token = 1; token <= 20; ++token) {
    Send(Rerun(Mark("k", token), 1h));
    Pass(1s);
    Send(Rerun(Reserve("k", token + 1), 1h));
  }
  Send(Rerun(Mark("k", 21), 1h));
  Pass(1h);
  observer.commits.clear();
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "ABSENT");
  EXPECT_THAT(observer.commits, ElementsAre(std::pair(1u, 1u))) << "one entry a key, not a failure";
}

TEST_F(TimersTest, ALongSweepKeepsNobodyWaitingAndTakesAll) {
  constexpr size_t kKeys = 1000;
  std::vector<Request> requests;
  for (uint64_t i = 0; i < kKeys; ++i) {
    requests.push_back(ReserveDispatchLater("k" + std::to_string(i), i));
  }
  SendAll(std::move(requests));
  clock.Advance(kLease);
  while (UntilTimer() == 0ms) RunTimers();
  clock.Advance(core::kFreedMemory);
  engine.Hold(FakeEngine::Call::kCommit);
  store->Sweep();
  Call* const reserve = Send(Reserve("new", 1));
  engine.ReleaseOne();
  EXPECT_EQ(engine.size(), kKeys - 256) << "a part of them";
  EXPECT_EQ(reserve->said, "") << "in the next batch";
  engine.ReleaseOne();
  EXPECT_THAT(reserve->said, testing::StartsWith("ACQUIRED"));
  EXPECT_EQ(engine.size(), kKeys - 2 * 256 + 1);
  engine.ReleaseAll();
  EXPECT_EQ(engine.size(), 1u);
}

TEST_F(TimersTest, ASweepThatFindsTheStoreUnavailableTriesAgainLater) {
  Send(ReserveDispatchLater("k", 1));
  Pass(kLease);
  Pass(core::kFreedMemory);
  engine.FailNextReads(1);
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "PENDING");
  Pass(1h);
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "ABSENT");
}

TEST_F(TimersTest, NothingIsSweptOfANamespaceThatMayNotBeReclaimed) {
  bool configured = false;
  Restart({.may_reclaim = [&configured](std::string_view name_space) {
    return name_space != "pay" || configured;
  }});
  Request elsewhere = ReserveDispatchLater("k", 1);
  elsewhere.key.name_space = "mail";
  Send(elsewhere);
  Send(ReserveDispatchLater("k", 1));
  Pass(kLease);
  Pass(kForgotten);
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "PENDING");
  EXPECT_TRUE(std::holds_alternative<core::Absent>(engine.At(elsewhere.key)));
  configured = true;
  Pass(1h);
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "ABSENT") << "it is configured again";
}

TEST_F(TimersTest, NothingIsSweptWhileTheClockIsInDoubt) {
  Send(ReserveDispatchLater("k", 1));
  Pass(kLease);
  core::Now now = core::At(kStart + kForgotten);
  now.in_doubt = true;
  clock.Set(now);
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "PENDING");
  clock.Set(core::At(kStart + kForgotten));
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "ABSENT");
}

TEST_F(TimersTest, AfterARestartTheSameIsSwept) {
  Send(ReserveDispatchLater("freed", 1));
  Send(Rerun(Reserve("marked", 2), 1h));
  Send(Rerun(Mark("marked", 2), 1h));
  Send(Reserve("kept", 3));
  Send(Mark("kept", 3));
  Restart();
  clock.Advance(2h);
  ASSERT_TRUE(store->LoadOpen().ok());
  RunTimers();
  store->Sweep();
  EXPECT_EQ(StoredAs("freed"), "ABSENT");
  EXPECT_EQ(StoredAs("marked"), "ABSENT");
  EXPECT_EQ(StoredAs("kept"), "UNRESOLVED");
}

}  // namespace
}  // namespace idempotency::keystore
