// Waiting for a lease to end: what wakes, who goes first, what bounds it, how it is cancelled.
#include <string>
#include <utility>
#include <vector>

#include "keystore/core/transition.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::Each;
using testing::ElementsAre;

class WaitingTest : public ShellTest {
 protected:
  explicit WaitingTest(Traits traits = {}, KeyStoreOptions options = {})
      : ShellTest(traits, std::move(options)) {}
};

// --- Waking ----------------------------------------------------------------------------------

TEST_F(WaitingTest, AWaitingCommandIsNotAnswered) {
  Send(Reserve("k", 1));
  const std::vector<Call*> waiters = {Send(Reserve("k", 2, 10s)), Send(Get("k", 10s))};
  EXPECT_THAT(Said(waiters), Each(""));
  EXPECT_EQ(store->waiters(), 2u);
  EXPECT_EQ(store->queued(), 0u);
}

TEST_F(WaitingTest, NothingElseWaits) {
  EXPECT_EQ(Send(Get("absent", 10s))->said, "OPERATION_NOT_FOUND");
  Send(Reserve("k", 1));
  EXPECT_EQ(Send(Reserve("k", 1, 10s))->said, "ALREADY_HELD 1");
  EXPECT_EQ(Send(Reserve("k", 2))->said, "IN_PROGRESS") << "no wait asked for";
  Request other = Reserve("k", 3, 10s);
  std::get<core::ReserveCommand>(other.command).fingerprint.digest = "another request";
  EXPECT_EQ(Send(other)->said, "FINGERPRINT_MISMATCH");
  Send(Mark("k", 1));
  EXPECT_EQ(Send(Reserve("k", 4, 10s))->said, "UNRESOLVED");
}

struct EndingCase {
  std::string name;
  Request ending;
  std::string reserve_said;
  std::string get_said;
};

void PrintTo(const EndingCase& c, std::ostream* out) { *out << c.name; }

class EndingTest : public WaitingTest, public testing::WithParamInterface<EndingCase> {};

TEST_P(EndingTest, WakesWhoWaits) {
  Send(Reserve("k", 1));
  Call* const get = Send(Get("k", 10s));
  Call* const reserve = Send(Reserve("k", 2, 10s));
  Send(GetParam().ending);
  EXPECT_EQ(get->said, GetParam().get_said);
  EXPECT_EQ(reserve->said, GetParam().reserve_said);
  EXPECT_EQ(store->waiters(), 0u);
}

// The lease ends while the ending is being read: it is the ending that wakes.
TEST_P(EndingTest, WakesWhoWaitsAlsoWhenTheLeaseEndedUnnoticed) {
  Send(Reserve("k", 1));
  Call* const get = Send(Get("k", 60s));
  engine.Hold(FakeEngine::Call::kRead);
  Send(GetParam().ending);
  clock.Advance(kLease);
  engine.HoldNoMore();
  engine.ReleaseAll();
  EXPECT_EQ(get->said, GetParam().get_said);
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, EndingTest,
    testing::Values(EndingCase{"Complete", Complete("k", 1), "COMPLETED", "GOT COMPLETE"},
                    EndingCase{"Release", Release("k", 1), "ACQUIRED 2", "GOT FREED"},
                    EndingCase{"MarkUnresolved", Mark("k", 1), "UNRESOLVED", "GOT UNRESOLVED"},
                    EndingCase{"CompleteWithZeroRetention", ZeroRetention(Complete("k", 1)),
                               "ACQUIRED 2", "GOT FREED"}),
    [](const auto& param) { return param.param.name; });

struct OperatorCase {
  std::string name;
  Request ending;
  std::string said;
};

void PrintTo(const OperatorCase& c, std::ostream* out) { *out << c.name; }

class OperatorTest : public WaitingTest, public testing::WithParamInterface<OperatorCase> {};

// Operators end nothing whose lease is live, so theirs are endings only after a lapse that
// nobody has noticed yet.
TEST_P(OperatorTest, WakesWhoWaits) {
  Send(Reserve("k", 1));
  Call* const waiter = Send(Reserve("k", 2, 60s));
  engine.Hold(FakeEngine::Call::kRead);
  Call* const ending = Send(GetParam().ending);
  clock.Advance(kLease);
  engine.HoldNoMore();
  engine.ReleaseAll();
  EXPECT_NE(ending->said, "LEASE_LIVE");
  EXPECT_EQ(waiter->said, GetParam().said);
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, OperatorTest,
    testing::Values(
        OperatorCase{"ResolvedCompleted", Resolve("k", core::Resolution::kCompleted), "COMPLETED"},
        OperatorCase{"ResolvedAbandoned", Resolve("k", core::Resolution::kAbandoned), "COMPLETED"},
        OperatorCase{"Deleted", Delete("k", /*force=*/true), "ACQUIRED 2"}),
    [](const auto& param) { return param.param.name; });

TEST_F(WaitingTest, ACommandOfTheSameBatchWakes) {
  Send(Reserve("k", 1));
  const auto calls = SendAll({Reserve("k", 2, 10s), Complete("k", 1)});
  EXPECT_THAT(Said(calls), ElementsAre("COMPLETED", "COMPLETE"));
}

TEST_F(WaitingTest, ALapseWakesAtTheEndOfTheLeaseAndNotBefore) {
  Send(Reserve("k", 1));
  const std::vector<Call*> waiters = {Send(Reserve("k", 2, 60s)), Send(Get("k", 60s))};
  EXPECT_EQ(UntilTimer(), kLease);
  Pass(kLease - 1ms);
  EXPECT_THAT(Said(waiters), Each(""));
  Pass(1ms);
  EXPECT_THAT(Said(waiters), ElementsAre("UNRESOLVED", "GOT UNRESOLVED"));
  EXPECT_EQ(UntilTimer(), -1ms);
}

TEST_F(WaitingTest, RenewalsMoveTheLapse) {
  Send(Reserve("k", 1));
  Call* const waiter = Send(Reserve("k", 2, 10min));
  Pass(20s);
  EXPECT_EQ(Send(Renew("k", 1, 60s))->said, "RENEWED 1");
  EXPECT_EQ(UntilTimer(), 60s);
  Pass(60s - 1ms);
  EXPECT_EQ(waiter->said, "");
  Pass(1ms);
  EXPECT_EQ(waiter->said, "UNRESOLVED");
}

TEST_F(WaitingTest, ARenewalInTheBatchOfAWaiterMovesItsLapse) {
  Send(Reserve("k", 1));
  SendAll({Reserve("k", 2, 10min), Renew("k", 1, 60s)});
  EXPECT_EQ(UntilTimer(), 60s);
}

// Puts under the key what another replica has stored for `request`, without telling.
void AnotherApplies(FakeEngine& engine, const Request& request) {
  const core::Decision decision =
      core::Step(engine.At(request.key), request.command, *request.policy, core::At(kStart), 1);
  engine.Put(request.key, *decision.record);
}

TEST_F(WaitingTest, TheLapseOfALeaseThatAnotherReplicaGaveWakes) {
  AnotherApplies(engine, Reserve("k", 1));
  Call* const waiter = Send(Reserve("k", 2, 60s));
  EXPECT_EQ(UntilTimer(), kLease);
  Pass(kLease);
  EXPECT_EQ(waiter->said, "UNRESOLVED");
}

TEST_F(WaitingTest, AForeignChangeWakes) {
  Send(Reserve("k", 1));
  Call* const waiter = Send(Reserve("k", 2, 10s));
  engine.TellForeignChange(KeyOf("k"));
  EXPECT_EQ(waiter->said, "") << "nothing has changed: it waits on";
  AnotherApplies(engine, Complete("k", 1));
  engine.TellForeignChange(KeyOf("other"));
  EXPECT_EQ(waiter->said, "");
  engine.TellForeignChange(KeyOf("k"));
  EXPECT_EQ(waiter->said, "COMPLETED");
}

TEST_F(WaitingTest, AForeignChangeBetweenReadAndWaitIsNotLost) {
  Send(Reserve("k", 1));
  engine.Hold(FakeEngine::Call::kCommit);
  const auto calls = SendAll({Reserve("other", 1), Reserve("k", 2, 10s)});
  AnotherApplies(engine, Complete("k", 1));
  engine.TellForeignChange(KeyOf("k"));
  engine.ReleaseAll();
  EXPECT_EQ(calls[1]->said, "COMPLETED");
}

// --- First come, first served ----------------------------------------------------------------

TEST_F(WaitingTest, TheFirstAcquiresAndTheOthersWaitOn) {
  Send(Reserve("k", 1));
  const std::vector<Call*> waiters = {Send(Reserve("k", 2, 30s)), Send(Reserve("k", 3, 20s)),
                                      Send(Reserve("k", 4, 10s))};
  Send(Release("k", 1));
  EXPECT_THAT(Said(waiters), ElementsAre("ACQUIRED 2", "", ""));
  EXPECT_EQ(store->waiters(), 2u);
  Send(Release("k", 2));
  EXPECT_THAT(Said(waiters), ElementsAre("ACQUIRED 2", "ACQUIRED 3", ""));
  Send(Complete("k", 3));
  EXPECT_THAT(Said(waiters), ElementsAre("ACQUIRED 2", "ACQUIRED 3", "COMPLETED"));
}

TEST_F(WaitingTest, TheFirstAcquiresAfterALapseThatAllowsIt) {
  Send(Rerun(Reserve("k", 1)));
  const std::vector<Call*> waiters = {Send(Rerun(Reserve("k", 2, 60s))),
                                      Send(Rerun(Reserve("k", 3, 60s))), Send(Get("k", 60s))};
  Pass(kLease);
  EXPECT_THAT(Said(waiters), ElementsAre("ACQUIRED 2", "", ""));
  EXPECT_EQ(UntilTimer(), kLease) << "the new lease, and the same end of the waits";
}

TEST_F(WaitingTest, WhoWaitsGoesBeforeWhoIsQueued) {
  Send(Reserve("k", 1));
  Call* const waiter = Send(Reserve("k", 2, 10s));
  engine.Hold(FakeEngine::Call::kRead);
  Send(Release("k", 1));
  Call* const newcomer = Send(Reserve("k", 3));
  engine.ReleaseAll();
  EXPECT_EQ(waiter->said, "ACQUIRED 2");
  EXPECT_EQ(newcomer->said, "IN_PROGRESS");
}

TEST_F(WaitingTest, ANewcomerDoesNotOvertakeWhenTheTimersAreLate) {
  Send(Rerun(Reserve("k", 1)));
  Call* const waiter = Send(Rerun(Reserve("k", 2, 60s)));
  clock.Advance(kLease);
  Call* const newcomer = Send(Rerun(Reserve("k", 3)));
  EXPECT_EQ(waiter->said, "ACQUIRED 2");
  EXPECT_EQ(newcomer->said, "IN_PROGRESS");
}

// --- The end of a wait -----------------------------------------------------------------------

TEST_F(WaitingTest, AWaitEndsWithWhatHoldsThen) {
  Send(Reserve("k", 1));
  const std::vector<Call*> waiters = {Send(Reserve("k", 2, 10s)), Send(Get("k", 10s)),
                                      Send(Reserve("k", 3, 11s))};
  EXPECT_EQ(UntilTimer(), 10s);
  Pass(10s - 1ms);
  EXPECT_THAT(Said(waiters), Each(""));
  Pass(1ms);
  EXPECT_THAT(Said(waiters), ElementsAre("IN_PROGRESS", "GOT PENDING", ""));
  EXPECT_EQ(waiters[0]->reply.server_time, kStart + 10s);
  EXPECT_EQ(UntilTimer(), 1s);
}

TEST_F(WaitingTest, AWaitThatEndsWithTheLeaseAcquires) {
  Send(Rerun(Reserve("k", 1)));
  Call* const waiter = Send(Rerun(Reserve("k", 2, kLease)));
  Pass(kLease);
  EXPECT_EQ(waiter->said, "ACQUIRED 2");
}

TEST_F(WaitingTest, AWaitThatEndedDuringTheCommitIsAnsweredAtOnce) {
  Send(Reserve("k", 1));
  engine.Hold(FakeEngine::Call::kCommit);
  const auto calls = SendAll({Reserve("other", 1), Reserve("k", 2, 1s)});
  clock.Advance(1s);
  engine.ReleaseAll();
  EXPECT_EQ(calls[1]->said, "IN_PROGRESS");
}

TEST_F(WaitingTest, AWaitIsNotMeasuredAnewWhenItGoesOn) {
  Send(Reserve("k", 1));
  const std::vector<Call*> waiters = {Send(Reserve("k", 2, 20s)), Send(Reserve("k", 3, 20s))};
  Pass(15s);
  Send(Release("k", 1));
  EXPECT_THAT(Said(waiters), ElementsAre("ACQUIRED 2", ""));
  Pass(5s);
  EXPECT_THAT(Said(waiters), ElementsAre("ACQUIRED 2", "IN_PROGRESS"));
}

// --- Bounds ----------------------------------------------------------------------------------

class BoundedTest : public WaitingTest {
 protected:
  BoundedTest()
      : WaitingTest(Traits{}, KeyStoreOptions{.max_waiters_per_key = 3, .max_waiters = 5}) {}
};

TEST_F(BoundedTest, OverTheBoundOfAKeyIsInProgressAtOnce) {
  Send(Reserve("k", 1));
  std::vector<Call*> waiters;
  for (uint64_t i = 2; i <= 5; ++i) waiters.push_back(Send(Reserve("k", i, 10s)));
  EXPECT_THAT(Said(waiters), ElementsAre("", "", "", "IN_PROGRESS"));
  EXPECT_EQ(store->waiters(), 3u);
}

TEST_F(BoundedTest, TheBoundHoldsWithinOneBatch) {
  Send(Reserve("k", 1));
  std::vector<Request> requests;
  for (uint64_t i = 2; i <= 6; ++i) requests.push_back(Reserve("k", i, 10s));
  EXPECT_THAT(Said(SendAll(std::move(requests))),
              ElementsAre("", "", "", "IN_PROGRESS", "IN_PROGRESS"));
}

TEST_F(BoundedTest, OverTheBoundOfAllIsInProgressAtOnce) {
  std::vector<Call*> waiters;
  for (uint64_t i = 0; i < 6; ++i) {
    const std::string key = "k" + std::to_string(i);
    Send(Reserve(key, 1));
    waiters.push_back(Send(Reserve(key, 2, 10s)));
  }
  EXPECT_THAT(Said(waiters), ElementsAre("", "", "", "", "", "IN_PROGRESS"));
}

TEST_F(BoundedTest, APlaceThatIsGivenBackIsTakenAgain) {
  Send(Reserve("k", 1));
  std::vector<Call*> waiters;
  for (uint64_t i = 2; i <= 4; ++i) waiters.push_back(Send(Reserve("k", i, 10s)));
  Cancel(waiters[1]);
  waiters.push_back(Send(Reserve("k", 5, 10s)));
  EXPECT_THAT(Said(waiters), ElementsAre("", "CANCELLED", "", ""));
}

// --- Cancelling ------------------------------------------------------------------------------

TEST_F(WaitingTest, ACancelledWaiterIsGoneAtOnceAndTheOthersWaitOn) {
  Send(Reserve("k", 1));
  const std::vector<Call*> waiters = {Send(Reserve("k", 2, 10s)), Send(Get("k", 10s)),
                                      Send(Reserve("k", 3, 10s))};
  Cancel(waiters[0]);
  Cancel(waiters[1]);
  EXPECT_THAT(Said(waiters), ElementsAre("CANCELLED", "CANCELLED", ""));
  EXPECT_EQ(store->waiters(), 1u);
  Send(Release("k", 1));
  EXPECT_EQ(waiters[2]->said, "ACQUIRED 2") << "nobody cancelled holds the key";
}

TEST_F(WaitingTest, ACancelledReservationThatIsQueuedHasNoEffect) {
  engine.Hold(FakeEngine::Call::kRead);
  Send(Get("other"));
  const std::vector<Call*> queued = {Send(Reserve("k", 1)), Send(Get("k")), Send(Inspect("k"))};
  for (const Call* call : queued) Cancel(call);
  EXPECT_THAT(Said(queued), Each("CANCELLED"));
  EXPECT_EQ(store->queued(), 0u);
  engine.HoldNoMore();
  engine.ReleaseAll();
  EXPECT_EQ(Send(Get("k"))->said, "OPERATION_NOT_FOUND");
}

TEST_F(WaitingTest, AnythingElseThatIsCancelledIsAppliedAnyway) {
  for (const char* key : {"a", "b", "c", "d"}) Send(Reserve(key, 1));
  engine.Hold(FakeEngine::Call::kRead);
  Send(Get("other"));
  const std::vector<Call*> queued = {Send(Complete("a", 1)), Send(Mark("b", 2)),
                                     Send(Release("c", 3)), Send(Renew("d", 4))};
  for (const Call* call : queued) Cancel(call);
  EXPECT_THAT(Said(queued), Each(""));
  engine.ReleaseAll();
  EXPECT_THAT(Said(queued),
              ElementsAre("COMPLETE", "MARKED UNRESOLVED", "RELEASED FREED", "RENEWED 4"));
  EXPECT_EQ(StoredAs("a"), "COMPLETE");
}

TEST_F(WaitingTest, AReservationCancelledInABatchIsAnsweredAsItWasDecided) {
  engine.Hold(FakeEngine::Call::kCommit);
  Call* const call = Send(Reserve("k", 1));
  Cancel(call);
  engine.ReleaseAll();
  EXPECT_EQ(call->said, "ACQUIRED 1");
}

TEST_F(WaitingTest, ACommandCancelledBeforeItWaitedDoesNotWait) {
  Send(Reserve("k", 1));
  engine.Hold(FakeEngine::Call::kRead);
  Call* const call = Send(Reserve("k", 2, 10s));
  Cancel(call);
  engine.ReleaseAll();
  EXPECT_EQ(call->said, "CANCELLED");
  EXPECT_EQ(store->waiters(), 0u);
}

class OneByOneTest : public WaitingTest {
 protected:
  OneByOneTest() : WaitingTest(Traits{}, KeyStoreOptions{.max_batch_commands = 1}) {}
};

TEST_F(OneByOneTest, AWaiterCancelledAfterItWasWokenHasNoEffect) {
  Send(Reserve("k", 1));
  const std::vector<Call*> waiters = {Send(Get("k", 10s)), Send(Reserve("k", 2, 10s)),
                                      Send(Reserve("k", 3, 10s))};
  engine.Hold(FakeEngine::Call::kRead);
  Send(Release("k", 1));
  engine.ReleaseOne();
  ASSERT_THAT(Said(waiters), Each("")) << "woken; the first is being read";
  Cancel(waiters[1]);
  engine.ReleaseAll();
  EXPECT_THAT(Said(waiters), ElementsAre("GOT FREED", "CANCELLED", "ACQUIRED 2"));
  EXPECT_EQ(store->queued(), 0u);
}

TEST_F(WaitingTest, CancellingWhatIsAnsweredOrUnknownDoesNothing) {
  Call* const call = Send(Reserve("k", 1));
  Cancel(call);
  Cancel(call);
  store->Cancel(CancelHandle{});
  store->Cancel(CancelHandle{0, 123'456});
  EXPECT_EQ(call->said, "ACQUIRED 1");
  EXPECT_EQ(Send(Get("k"))->said, "GOT PENDING");
}

}  // namespace
}  // namespace idempotency::keystore
