// Writes that lose a race, whose outcome nobody knows, or that end the engine; reads that fail.
#include <string>
#include <utility>
#include <vector>

#include "keystore/core/transition.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using Fate = FakeEngine::Fate;

// What another replica stores when it serves `request`.
core::Record StoredByAnother(const Request& request, core::Time at, uint64_t token_floor) {
  const core::Decision decision =
      core::Step(core::Absent{}, request.command, *request.policy, core::At(at), token_floor);
  return *decision.record;
}

class ReplicatedTest : public ShellTest {
 protected:
  explicit ReplicatedTest(KeyStoreOptions options = {})
      : ShellTest(Replicated(), std::move(options)) {}

  // Right before our next commit another replica acquires the key.
  void AnotherAcquiresFirst(std::string_view key) {
    engine.BeforeNextCommit([this, key = std::string(key)] {
      engine.Put(KeyOf(key), StoredByAnother(Reserve(key, 99), kStart, 50));
    });
  }
};

// --- Lost races ------------------------------------------------------------------------------

TEST_F(ReplicatedTest, ALostRaceIsSteppedAgainOnWhatIsStored) {
  AnotherAcquiresFirst("k");
  EXPECT_EQ(Send(Reserve("k", 1))->said, "IN_PROGRESS");
  EXPECT_THAT(engine.reads(), ElementsAre(1, 1));
  EXPECT_THAT(observer.answers, ElementsAre("k: IN_PROGRESS")) << "the first answer is not shown";
}

TEST_F(ReplicatedTest, ALostRaceOfOneKeyDoesNotHoldUpTheOthers) {
  engine.NextWrites({Fate::kLoseRace, Fate::kCommit});
  const auto calls = SendAll({Reserve("a", 1), Reserve("b", 2)});
  EXPECT_THAT(observer.answers, ElementsAre("b: ACQUIRED 2", "a: ACQUIRED 3"));
  EXPECT_THAT(engine.commits(), ElementsAre(2, 1));
}

TEST_F(ReplicatedTest, ALostRaceTakesBackAllAnswersOfItsKey) {
  AnotherAcquiresFirst("k");
  const auto calls = SendAll({Get("k"), Reserve("k", 1), Release("k", 1), Get("other")});
  EXPECT_THAT(Said(calls), ElementsAre("GOT PENDING", "IN_PROGRESS", "STALE_FENCING_TOKEN",
                                       "OPERATION_NOT_FOUND"));
}

TEST_F(ReplicatedTest, LosingManyRacesInARowEndsWithTheRightAnswer) {
  engine.NextWrites(std::vector<Fate>(100, Fate::kLoseRace));
  EXPECT_EQ(Send(Reserve("k", 1))->said, "ACQUIRED 1");
  EXPECT_THAT(engine.commits(), testing::SizeIs(101));
}

class SmallReplicatedTest : public ReplicatedTest {
 protected:
  SmallReplicatedTest() : ReplicatedTest(KeyStoreOptions{.max_batch_commands = 2}) {}
};

TEST_F(SmallReplicatedTest, AfterALostRaceALaterWaiterDoesNotOvertake) {
  Send(Reserve("k", 1));
  const std::vector<Call*> waiters = {Send(Reserve("k", 2, 10s)), Send(Reserve("k", 3, 10s)),
                                      Send(Reserve("k", 4, 10s))};
  engine.NextWrites({Fate::kCommit, Fate::kLoseRace});
  Send(Release("k", 1));
  EXPECT_THAT(Said(waiters), ElementsAre("ACQUIRED 2", "", ""));
}

TEST_F(SmallReplicatedTest, NoMoreThanABatchIsHeldBackBehindADelete) {
  Send(Reserve("k", 1));
  Send(Complete("k", 1));
  const auto calls = SendAll({Delete("k"), Get("k"), Get("k"), Get("k"), Get("k"), Get("other")});
  EXPECT_EQ(calls.back()->said, "OPERATION_NOT_FOUND");
  // Reserve, Complete; Delete, the line behind it, and what is behind the line.
  EXPECT_THAT(engine.reads(), ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST_F(SmallReplicatedTest, AfterALostRaceCommandsOfAKeyKeepTheirOrder) {
  engine.Hold(FakeEngine::Call::kRead);
  engine.NextWrites({Fate::kLoseRace});
  const auto calls =
      SendAll({Reserve("k", 1), Get("k"), Complete("k", 1), Get("k"), Reserve("k", 2)});
  engine.ReleaseAll();
  EXPECT_THAT(Said(calls),
              ElementsAre("ACQUIRED 1", "GOT PENDING", "COMPLETE", "GOT COMPLETE", "COMPLETED"));
}

// --- Unknown, and to be asked again ----------------------------------------------------------

struct UnknownCase {
  std::string name;
  std::vector<Request> before;
  core::Duration pass;
  Request request;
  std::string if_written;
  std::string if_not_written;
};

void PrintTo(const UnknownCase& c, std::ostream* out) { *out << c.name; }

class UnknownTest : public ReplicatedTest, public testing::WithParamInterface<UnknownCase> {
 protected:
  std::string AnswerWhen(Fate fate) {
    const UnknownCase& c = GetParam();
    for (const Request& request : c.before) Send(request);
    clock.Advance(c.pass);
    engine.NextWrites({fate});
    return Send(c.request)->said;
  }
};

TEST_P(UnknownTest, WrittenAllTheSame) {
  EXPECT_EQ(AnswerWhen(Fate::kUnknownWritten), GetParam().if_written);
}

TEST_P(UnknownTest, NotWritten) {
  EXPECT_EQ(AnswerWhen(Fate::kUnknownNotWritten), GetParam().if_not_written);
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, UnknownTest,
    testing::Values(
        UnknownCase{"Reserve", {}, 0ms, Reserve("k", 1), "ALREADY_HELD 1", "ACQUIRED 1"},
        UnknownCase{"Renew", {Reserve("k", 1)}, 5s, Renew("k", 1), "RENEWED 1", "RENEWED 1"},
        UnknownCase{
            "Complete", {Reserve("k", 1)}, 5s, Complete("k", 1), "COMPLETE ALREADY", "COMPLETE"},
        UnknownCase{
            "Release", {Reserve("k", 1)}, 5s, Release("k", 1), "RELEASED FREED", "RELEASED FREED"},
        UnknownCase{"MarkUnresolved",
                    {Reserve("k", 1)},
                    5s,
                    Mark("k", 1),
                    "MARKED UNRESOLVED",
                    "MARKED UNRESOLVED"},
        UnknownCase{"Resolve",
                    {Reserve("k", 1), Mark("k", 1)},
                    5s,
                    Resolve("k", core::Resolution::kCompleted),
                    "RESOLVED COMPLETE",
                    "RESOLVED COMPLETE"},
        UnknownCase{
            "Delete", {Reserve("k", 1), Complete("k", 1)}, 5s, Delete("k"), "DELETED", "DELETED"}),
    [](const auto& param) { return param.param.name; });

TEST_F(ReplicatedTest, AnUnknownDeleteIsAnsweredAsDoneThoughAReserveCameBehindIt) {
  Send(Reserve("k", 1));
  Send(Complete("k", 1));
  engine.NextWrites({Fate::kUnknownWritten});
  EXPECT_THAT(Said(SendAll({Delete("k"), Reserve("k", 2), Get("k")})),
              ElementsAre("DELETED", testing::StartsWith("ACQUIRED"), "GOT PENDING"));
}

TEST_F(ReplicatedTest, AnUnknownResolutionIsAnsweredAsDoneThoughAReserveCameBehindIt) {
  Send(Reserve("k", 1));
  Send(Mark("k", 1));
  Pass(2min);
  engine.NextWrites({Fate::kUnknownWritten});
  EXPECT_THAT(Said(SendAll({Resolve("k", core::Resolution::kNotExecuted), Reserve("k", 2)})),
              ElementsAre("RESOLVED FREED", testing::StartsWith("ACQUIRED")));
}

// What settles an operation over its owner's head is written, nobody knows of it, and before it is
// looked at another replica has served somebody else.
class OvertakenTest : public ReplicatedTest {
 protected:
  Call* SendOvertaken(const Request& request, Fate fate, const std::vector<Request>& by) {
    engine.NextWrites({fate});
    engine.Hold(FakeEngine::Call::kRead);
    Call* const call = Send(request);
    engine.ReleaseOne();
    EXPECT_EQ(call->said, "");
    for (const Request& other : by) {
      const core::Decision decision =
          core::Step(engine.At(other.key), other.command, *other.policy, clock.Read(), 50);
      engine.Put(other.key, *decision.record);
    }
    engine.HoldNoMore();
    engine.ReleaseAll();
    return call;
  }
};

TEST_F(OvertakenTest, AnUnknownDeleteIsNotCalledRefusedSinceAnotherReplicaHasGrantedTheKey) {
  Send(Reserve("k", 1));
  Send(Complete("k", 1));
  const Call* const call = SendOvertaken(Delete("k"), Fate::kUnknownWritten, {Reserve("k", 2)});
  EXPECT_EQ(call->said, "STORE_UNAVAILABLE") << "it was done, and is not LEASE_LIVE";
  EXPECT_EQ(StoredAs("k"), "PENDING");
}

TEST_F(OvertakenTest, AnUnknownDeleteDoesNotTakeWhatAnotherReplicaHasCompletedSince) {
  Send(Reserve("k", 1));
  Send(Complete("k", 1));
  const Call* const call =
      SendOvertaken(Delete("k"), Fate::kUnknownWritten, {Reserve("k", 2), Complete("k", 50)});
  EXPECT_EQ(call->said, "STORE_UNAVAILABLE");
  EXPECT_EQ(StoredAs("k"), "COMPLETE");
}

TEST_F(OvertakenTest, AnUnknownResolutionDoesNotSettleALaterAttempt) {
  Send(Reserve("k", 1));
  Send(Mark("k", 1));
  Pass(2min);
  const Call* const call = SendOvertaken(Resolve("k", core::Resolution::kNotExecuted),
                                         Fate::kUnknownWritten, {Reserve("k", 2), Mark("k", 50)});
  EXPECT_EQ(call->said, "STORE_UNAVAILABLE");
  EXPECT_EQ(StoredAs("k"), "UNRESOLVED");
}

TEST_F(OvertakenTest, WhereNobodyHasComeBetweenItIsDone) {
  Send(Reserve("k", 1));
  Send(Complete("k", 1));
  // Twice unknown and not written, then a lost race: it is the same operation all the time.
  engine.NextWrites({Fate::kUnknownNotWritten, Fate::kUnknownNotWritten, Fate::kLoseRace});
  EXPECT_EQ(Send(Delete("k"))->said, "DELETED");
}

TEST_F(ReplicatedTest, AnUnknownCompletionThatWasWrittenStillWakesTheWaiters) {
  Send(Reserve("k", 1));
  Call* const waiter = Send(Reserve("k", 2, 10s));
  engine.NextWrites({Fate::kUnknownWritten});
  EXPECT_EQ(Send(Complete("k", 1))->said, "COMPLETE ALREADY");
  EXPECT_EQ(waiter->said, "COMPLETED");
}

TEST_F(ReplicatedTest, ALapseAfterAnUnknownAcquisitionIsReported) {
  engine.NextWrites({Fate::kUnknownWritten});
  EXPECT_EQ(Send(Reserve("k", 1))->said, "ALREADY_HELD 1");
  Pass(kLease);
  EXPECT_THAT(observer.lapses, ElementsAre("k: UNRESOLVED"));
}

TEST_F(ReplicatedTest, AReservationThatMayHaveBeenWrittenIsNotCalledCancelledWithoutEffect) {
  engine.NextWrites({Fate::kUnknownWritten});
  engine.Hold(FakeEngine::Call::kCommit);
  Call* const call = Send(Reserve("k", 1));
  Cancel(call);
  engine.HoldNoMore();
  engine.ReleaseAll();
  EXPECT_EQ(StoredAs("k"), "PENDING");
  EXPECT_EQ(call->said, "ALREADY_HELD 1");
}

class DoubtfulWaiterTest : public ShellTest {
 protected:
  DoubtfulWaiterTest() : ShellTest(Traits{.exclusive = false, .clock_skew = 2s}) {}
};

// Its own lease is over for it and not yet for others, so that it waits for itself.
TEST_F(DoubtfulWaiterTest, AWaiterThatMayHaveTakenTheKeyIsNotCalledCancelledWithoutEffect) {
  engine.NextWrites({Fate::kUnknownWritten});
  engine.Hold(FakeEngine::Call::kRead);
  Call* const call = Send(Reserve("k", 1, 60s));
  engine.ReleaseOne();
  clock.Advance(kLease);
  engine.HoldNoMore();
  engine.ReleaseAll();
  ASSERT_EQ(call->said, "") << "it waits";
  Cancel(call);
  EXPECT_EQ(call->said, "IN_PROGRESS");
  EXPECT_EQ(StoredAs("k"), "PENDING");
}

TEST_F(ReplicatedTest, AReservationThatLostARaceMayStillBeCancelled) {
  AnotherAcquiresFirst("k");
  engine.Hold(FakeEngine::Call::kCommit);
  Call* const call = Send(Reserve("k", 1));
  Cancel(call);
  engine.ReleaseAll();
  EXPECT_EQ(call->said, "CANCELLED");
}

TEST_F(ReplicatedTest, TheEngineIsNotDeadBecauseOfAnUnknownWrite) {
  engine.NextWrites({Fate::kUnknownNotWritten});
  Send(Reserve("k", 1));
  EXPECT_EQ(observer.deaths, 0);
  EXPECT_EQ(Send(Reserve("other", 1))->said, "ACQUIRED 2");
}

// --- Unknown, and final ----------------------------------------------------------------------

class ExclusiveTest : public ShellTest {
 protected:
  explicit ExclusiveTest(KeyStoreOptions options = {}) : ShellTest(Traits{}, std::move(options)) {}
};

TEST_F(ExclusiveTest, AnUnknownWriteEndsItForTheWholeBatchAndAllAfterIt) {
  engine.NextWrites({Fate::kCommit, Fate::kUnknownNotWritten});
  const auto calls = SendAll({Reserve("a", 1), Reserve("b", 2), Get("c")});
  EXPECT_THAT(Said(calls), Each("STORE_UNAVAILABLE"));
  EXPECT_THAT(Said({Send(Get("a")), Send(Complete("a", 1)), Send(Reserve("c", 3))}),
              Each("STORE_UNAVAILABLE"));
  EXPECT_EQ(observer.deaths, 1);
}

TEST_F(ExclusiveTest, WhatIsQueuedBehindAnUnknownWriteIsNeitherReadNorWritten) {
  engine.Hold(FakeEngine::Call::kCommit);
  engine.NextWrites({Fate::kUnknownWritten});
  Call* const first = Send(Reserve("k", 1));
  const std::vector<Call*> queued = {Send(Reserve("k", 2)), Send(Get("k")), Send(Reserve("l", 3)),
                                     Send(Complete("k", 1))};
  engine.HoldNoMore();
  engine.ReleaseAll();
  EXPECT_EQ(first->said, "STORE_UNAVAILABLE");
  EXPECT_THAT(Said(queued), Each("STORE_UNAVAILABLE"))
      << "what is stored may not be what will be found after a restart";
  EXPECT_EQ(StoredAs("l"), "ABSENT");
  EXPECT_EQ(observer.deaths, 1);
}

TEST_F(ExclusiveTest, AnUnknownWriteFailsTheWaiters) {
  Send(Reserve("k", 1));
  Call* const waiter = Send(Reserve("k", 2, 10s));
  engine.NextWrites({Fate::kUnknownNotWritten});
  Send(Reserve("other", 3));
  EXPECT_EQ(waiter->said, "STORE_UNAVAILABLE");
  EXPECT_EQ(store->waiters(), 0u);
}

class ExclusiveLanesTest : public ExclusiveTest {
 protected:
  ExclusiveLanesTest() : ExclusiveTest(KeyStoreOptions{.lanes = 4}) {}
};

TEST_F(ExclusiveLanesTest, AnUnknownWriteFailsTheWaitersOfEveryLane) {
  std::vector<Call*> waiters;
  for (uint64_t i = 0; i < 32; ++i) {
    const std::string key = "k" + std::to_string(i);
    Send(Reserve(key, 1));
    waiters.push_back(Send(Reserve(key, 2, 10s)));
  }
  engine.NextWrites({Fate::kUnknownNotWritten});
  Send(Reserve("other", 3));
  EXPECT_THAT(Said(waiters), Each("STORE_UNAVAILABLE"));
  EXPECT_EQ(observer.deaths, 1);
}

TEST_F(ExclusiveTest, AnEngineFoundDeadByAReadIsReported) {
  Call* const holder = Send(Reserve("k", 1));
  Call* const waiter = Send(Reserve("k", 2, 10s));
  engine.SetPressure({.alive = false});
  engine.FailNextReads(SIZE_MAX);
  EXPECT_EQ(Send(Complete("k", 1))->said, "STORE_UNAVAILABLE");
  EXPECT_EQ(observer.deaths, 1) << "nothing but the exit of the process brings it back";
  EXPECT_EQ(waiter->said, "STORE_UNAVAILABLE");
  EXPECT_EQ(holder->said, "ACQUIRED 1");
}

// --- Reads that fail -------------------------------------------------------------------------

TEST_F(ReplicatedTest, AFailedReadIsUnavailableAndNeverAbsent) {
  Send(Reserve("k", 1));
  // What comes behind Resolve is in a second batch.
  engine.FailNextReads(2);
  const auto calls =
      SendAll({Reserve("k", 1), Renew("k", 1), Complete("k", 1), Release("k", 1), Mark("k", 1),
               Get("k"), Inspect("k"), Resolve("k", core::Resolution::kCompleted), Delete("k"),
               Reserve("new", 2), Get("new")});
  EXPECT_THAT(Said(calls), Each("STORE_UNAVAILABLE"));
  EXPECT_EQ(StoredAs("new"), "ABSENT");
  EXPECT_EQ(observer.deaths, 0);
  const auto* refusal = std::get_if<core::Refusal>(&calls[0]->reply.answer);
  EXPECT_EQ(refusal->retry_after, core::kOverloadRetryAfter);
}

TEST_F(ReplicatedTest, AFailedReadIsNotRemembered) {
  engine.FailNextReads(1);
  EXPECT_EQ(Send(Reserve("k", 1))->said, "STORE_UNAVAILABLE");
  EXPECT_EQ(Send(Reserve("k", 1))->said, "ACQUIRED 1");
}

TEST_F(ReplicatedTest, ALapseThatCouldNotBeReadIsReportedLater) {
  Send(Reserve("k", 1));
  engine.FailNextReads(1);
  Pass(kLease);
  EXPECT_THAT(observer.lapses, IsEmpty());
  Pass(core::kOverloadRetryAfter);
  EXPECT_THAT(observer.lapses, ElementsAre("k: UNRESOLVED"));
}

}  // namespace
}  // namespace idempotency::keystore
