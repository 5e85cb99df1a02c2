// What a lane does with more than it can do in time: callers who leave, how long others would be
// queued, what a read may bring in, and many that are cancelled at once.
#include <string>
#include <utility>
#include <vector>

#include "keystore/core/limits.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Not;

Request Listening(Request request, core::Duration time_left) {
  request.time_left = time_left;
  return request;
}

std::string Numbered(const char* text, size_t number) { return text + std::to_string(number); }

// --- Callers who leave -------------------------------------------------------------------------

class CallerLeavesTest : public ShellTest {
 protected:
  // Queues behind a read that lasts `span`.
  std::vector<Call*> QueueFor(core::Duration span, std::vector<Request> requests) {
    engine.Hold(FakeEngine::Call::kRead);
    Send(Get("first"));
    std::vector<Call*> calls = SendAll(std::move(requests));
    clock.Advance(span);
    engine.HoldNoMore();
    engine.ReleaseAll();
    return calls;
  }
};

TEST_F(CallerLeavesTest, AReserveIsBegunForOneWhoStillListens) {
  const auto calls = QueueFor(99ms, {Listening(Reserve("k", 1), 100ms), Reserve("j", 2)});
  EXPECT_THAT(Said(calls), ElementsAre("ACQUIRED 1", "ACQUIRED 2"));
}

TEST_F(CallerLeavesTest, AReserveWhoseDeadlineHasPassedIsNotBegun) {
  const auto calls = QueueFor(100ms, {Listening(Reserve("k", 1), 100ms), Reserve("j", 2)});
  EXPECT_THAT(Said(calls), ElementsAre("CANCELLED", "ACQUIRED 1"));
  EXPECT_EQ(StoredAs("k"), "ABSENT");
  EXPECT_EQ(store->queued(), 0u);
  EXPECT_THAT(engine.reads(), ElementsAre(1u, 1u)) << "its key is not even read";
}

TEST_F(CallerLeavesTest, WhatWasReadOnlyForOneWhoLeftIsDroppedToo) {
  EXPECT_THAT(Said(QueueFor(101ms, {Listening(Get("k"), 100ms), Listening(Inspect("k"), 100ms)})),
              Each("CANCELLED"));
}

TEST_F(CallerLeavesTest, WhatAnOwnerReportsIsAppliedThoughItHasLeft) {
  for (const char* key : {"a", "b", "c", "d"}) Send(Reserve(key, 1));
  const auto calls =
      QueueFor(1s, {Listening(Complete("a", 1), 100ms), Listening(Mark("b", 2), 100ms),
                    Listening(Release("c", 3), 100ms), Listening(Renew("d", 4), 100ms)});
  EXPECT_THAT(Said(calls),
              ElementsAre("COMPLETE", "MARKED UNRESOLVED", "RELEASED FREED", "RENEWED 4"));
}

TEST_F(CallerLeavesTest, ACallThatComesTooLateIsNotQueued) {
  engine.Hold(FakeEngine::Call::kRead);
  Send(Get("first"));
  EXPECT_EQ(Send(Listening(Reserve("k", 1), 0ms))->said, "CANCELLED");
  EXPECT_EQ(Send(Listening(Complete("k", 1), 0ms))->said, "") << "it has something to report";
  engine.ReleaseAll();
}

TEST_F(CallerLeavesTest, AllOfABatchMayBeLate) {
  std::vector<Request> requests;
  for (size_t i = 0; i < 3 * core::kMaxBatchCommands; ++i) {
    requests.push_back(Listening(Reserve(Numbered("k", i), 1), 100ms));
  }
  EXPECT_THAT(Said(QueueFor(1s, std::move(requests))), Each("CANCELLED"));
  EXPECT_EQ(engine.size(), 0u);
  EXPECT_EQ(Send(Reserve("k", 1))->said, "ACQUIRED 1") << "the lane goes on";
}

// --- How long one would be queued --------------------------------------------------------------

class QueueTimeTest : public ShellTest {
 protected:
  QueueTimeTest() : ShellTest(Traits{}, KeyStoreOptions{.max_batch_commands = 10}) {}

  // Leaves 200 commands queued in a lane that takes 10 ms for each.
  void QueueASlowCrowd() {
    engine.Hold(FakeEngine::Call::kRead);
    for (size_t i = 0; i < 230; ++i) Send(Complete(Numbered("k", i), 1));
    Send(Complete("last", 1));
    engine.ReleaseOne();  // the first came alone
    for (int batch = 0; batch < 3; ++batch) {
      clock.Advance(100ms);
      engine.ReleaseOne();
    }
    ASSERT_EQ(store->queued(), 190u);
  }
};

TEST_F(QueueTimeTest, WhoWouldBeGoneBeforeItsTurnIsToldSoAtOnce) {
  QueueASlowCrowd();
  const Call* const call = Send(Listening(Reserve("k", 1), 1900ms));
  EXPECT_EQ(call->said, "OVERLOADED");
  EXPECT_GT(std::get<core::Refusal>(call->reply.answer).retry_after, 0ms);
  EXPECT_EQ(Send(Listening(Get("k"), 1900ms))->said, "OVERLOADED");
  EXPECT_EQ(Send(Listening(Reserve("k", 1), 1901ms))->said, "") << "queued";
  EXPECT_EQ(Send(Reserve("k", 1))->said, "") << "it has all the time of the world";
  EXPECT_EQ(Send(Listening(Complete("k", 1), 1ms))->said, "") << "never refused";
  engine.ReleaseAll();
}

TEST_F(QueueTimeTest, AnEmptiedQueueHoldsUpNobody) {
  QueueASlowCrowd();
  engine.HoldNoMore();
  engine.ReleaseAll();
  EXPECT_EQ(Send(Listening(Reserve("k", 1), 1ms))->said, "ACQUIRED 1");
}

// --- Large records -----------------------------------------------------------------------------

class LargeReadsTest : public ShellTest {};

TEST_F(LargeReadsTest, WhatAReadPutsOffIsReadWithTheNextBatch) {
  Send(Reserve("a", 1));
  engine.LimitReads(2);
  const auto calls = SendAll({Get("a"), Reserve("b", 1), Reserve("c", 1), Reserve("d", 1)});
  EXPECT_THAT(Said(calls), ElementsAre("GOT PENDING", "ACQUIRED 2", "ACQUIRED 3", "ACQUIRED 4"));
  EXPECT_THAT(engine.reads(), ElementsAre(1u, 4u, 2u));
  EXPECT_EQ(store->queued(), 0u);
}

// Commands on one key keep their order, also where others come between.
TEST_F(LargeReadsTest, WhatIsPutOffKeepsTheOrderOfItsKey) {
  engine.LimitReads(1);
  const auto calls = SendAll({Get("a"), Reserve("k", 1), Reserve("b", 1), Complete("k", 3),
                              Get("k"), Get("b"), Reserve("k", 2)});
  EXPECT_THAT(Said(calls),
              ElementsAre("OPERATION_NOT_FOUND", "ACQUIRED 1", "ACQUIRED 2",
                          "UNKNOWN_FENCING_TOKEN", "GOT PENDING", "GOT PENDING", "IN_PROGRESS"));
}

TEST_F(LargeReadsTest, WhatIsPutOffCanBeCancelled) {
  engine.LimitReads(1);
  engine.Hold(FakeEngine::Call::kRead);
  const auto calls = SendAll({Get("a"), Reserve("k", 1), Reserve("l", 1)});
  engine.ReleaseOne();
  Cancel(calls[2]);
  engine.ReleaseAll();
  EXPECT_THAT(Said(calls), ElementsAre("OPERATION_NOT_FOUND", "ACQUIRED 1", "CANCELLED"));
}

// --- Many cancelled at once --------------------------------------------------------------------

TEST_F(CallerLeavesTest, AllCallsOfADeadConnectionAreLetGo) {
  constexpr size_t kCalls = 10'000;
  engine.Hold(FakeEngine::Call::kRead);
  Send(Get("first"));
  std::vector<Call*> calls;
  for (size_t i = 0; i < kCalls; ++i) calls.push_back(Send(Reserve(Numbered("k", i), 1)));
  // From both ends, and then from the middle.
  for (size_t i = 0; i < kCalls / 4; ++i) Cancel(calls[i]);
  for (size_t i = kCalls; i > 3 * kCalls / 4; --i) Cancel(calls[i - 1]);
  for (size_t i = kCalls / 4; i < 3 * kCalls / 4; ++i) Cancel(calls[i]);
  EXPECT_THAT(Said(calls), Each("CANCELLED"));
  EXPECT_EQ(store->queued(), 0u);
  engine.ReleaseAll();
  EXPECT_EQ(engine.size(), 0u);
}

TEST_F(CallerLeavesTest, WokenWaitersOfADeadConnectionAreLetGo) {
  constexpr size_t kWaiters = 1000;
  Send(Reserve("k", 1));
  std::vector<Call*> waiters;
  for (size_t i = 0; i < kWaiters; ++i) waiters.push_back(Send(Get("k", 10s)));
  ASSERT_EQ(store->waiters(), kWaiters);
  engine.Hold(FakeEngine::Call::kCommit);
  Call* const release = Send(Release("k", 1));
  for (const Call* call : waiters) Cancel(call);
  engine.ReleaseAll();
  EXPECT_EQ(release->said, "RELEASED FREED");
  EXPECT_EQ(store->waiters(), 0u);
  EXPECT_EQ(store->queued(), 0u);
  for (const Call* call : waiters) EXPECT_EQ(call->answers, 1);
}

}  // namespace
}  // namespace idempotency::keystore
