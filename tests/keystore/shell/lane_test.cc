// Batches: order, overlay, group commit, and that only what is durable is answered.
#include <string>
#include <vector>

#include "keystore/core/limits.h"
#include "keystore/core/transition.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

class LaneTest : public ShellTest {};

TEST_F(LaneTest, AnswersInTheOrderSubmitted) {
  const auto calls = SendAll({Reserve("k", 1), Reserve("k", 2), Get("k"), Reserve("other", 3)});
  EXPECT_THAT(Said(calls), ElementsAre("ACQUIRED 1", "IN_PROGRESS", "GOT PENDING", "ACQUIRED 2"));
  EXPECT_THAT(observer.answers, ElementsAre("k: ACQUIRED 1", "k: IN_PROGRESS", "k: GOT PENDING",
                                            "other: ACQUIRED 2"));
}

TEST_F(LaneTest, QueuedCommandsOfAKeyKeepTheirOrder) {
  engine.Hold(FakeEngine::Call::kRead);
  const std::vector<Call*> calls = {Send(Reserve("k", 1)), Send(Complete("k", 1)),
                                    Send(Reserve("k", 2)), Send(Get("k"))};
  EXPECT_THAT(Said(calls), Each(""));
  EXPECT_EQ(store->queued(), 3u) << "the first is in a batch";
  engine.ReleaseAll();
  EXPECT_THAT(Said(calls), ElementsAre("ACQUIRED 1", "COMPLETE", "COMPLETED", "GOT COMPLETE"));
  EXPECT_EQ(store->queued(), 0u);
}

TEST_F(LaneTest, RepeatsOfAKeyInOneBatchSeeEachOtherAndWriteOnce) {
  const auto calls = SendAll({Reserve("k", 1), Complete("k", 1), Reserve("k", 2)});
  EXPECT_THAT(Said(calls), ElementsAre("ACQUIRED 1", "COMPLETE", "COMPLETED"));
  EXPECT_THAT(engine.reads(), ElementsAre(1)) << "one key";
  EXPECT_THAT(engine.commits(), ElementsAre(1)) << "its last state";
  EXPECT_EQ(StoredAs("k"), "COMPLETE");
}

TEST_F(LaneTest, CommandsThatGatherDuringACommitShareTheNextOne) {
  engine.Hold(FakeEngine::Call::kCommit);
  Call* const first = Send(Reserve("first", 1));
  std::vector<Call*> gathered;
  for (uint64_t i = 0; i < 20; ++i) gathered.push_back(Send(Reserve("k" + std::to_string(i), i)));
  EXPECT_EQ(first->said, "") << "its commit is held";
  EXPECT_THAT(Said(gathered), Each(""));

  engine.ReleaseOne();
  EXPECT_EQ(first->said, "ACQUIRED 1");
  EXPECT_THAT(Said(gathered), Each("")) << "their own commit is held";
  EXPECT_EQ(engine.held(), 1u);

  engine.ReleaseOne();
  EXPECT_THAT(Said(gathered), Each(testing::StartsWith("ACQUIRED ")));
  EXPECT_THAT(engine.commits(), ElementsAre(1, 20));
  EXPECT_THAT(observer.commits, ElementsAre(std::pair(1u, 1u), std::pair(20u, 20u)));
}

TEST_F(LaneTest, AReadInABatchIsAnsweredOnlyWhenTheBatchIsDurable) {
  engine.Hold(FakeEngine::Call::kCommit);
  const auto calls = SendAll({Reserve("k", 1), Get("k"), Reserve("k", 1)});
  EXPECT_THAT(Said(calls), Each(""));
  EXPECT_EQ(StoredAs("k"), "ABSENT");
  engine.ReleaseOne();
  EXPECT_THAT(Said(calls), ElementsAre("ACQUIRED 1", "GOT PENDING", "ALREADY_HELD 1"));
}

TEST_F(LaneTest, AReadBesideACommitWaitsForItAndShowsIt) {
  Send(Reserve("k", 1));
  engine.Hold(FakeEngine::Call::kCommit);
  Call* const complete = Send(Complete("k", 1));
  Call* const get = Send(Get("k"));
  EXPECT_EQ(get->said, "") << "neither the old state nor one that is not durable";
  engine.ReleaseOne();
  EXPECT_EQ(complete->said, "COMPLETE");
  EXPECT_EQ(get->said, "GOT COMPLETE");
}

TEST_F(LaneTest, ReadsAloneCommitNothing) {
  EXPECT_EQ(Send(Get("k"))->said, "OPERATION_NOT_FOUND");
  EXPECT_THAT(engine.commits(), IsEmpty());
  EXPECT_THAT(observer.commits, ElementsAre(std::pair(1u, 0u)));
}

TEST_F(LaneTest, ServerTimeIsReadAfterTheCommit) {
  engine.Hold(FakeEngine::Call::kCommit);
  Call* const call = Send(Reserve("k", 1));
  clock.Advance(5s);
  engine.ReleaseOne();
  EXPECT_EQ(call->reply.server_time, kStart + 5s);
  const auto& lease = std::get<core::ReserveAnswer>(call->reply.answer).lease;
  EXPECT_EQ(lease->expire_time, kStart + kLease) << "granted before";
}

// A step that erases what is released, so that a key is erased and created again in one batch.
core::Decision EraseOnRelease(core::Stored stored, const core::Command& command,
                              const core::Policy& policy, const core::Now& now, uint64_t floor) {
  if (std::holds_alternative<core::ReleaseCommand>(command)) {
    return {.answer = core::ReleaseAnswer{}, .effect = core::Effect::kErase};
  }
  return core::Step(std::move(stored), command, policy, now, floor);
}

TEST_F(LaneTest, TokensRiseWhenAKeyIsErasedAndCreatedAgainInOneBatch) {
  Restart({.step = &EraseOnRelease});
  const auto calls = SendAll(
      {Reserve("k", 1), Release("k", 1), Reserve("k", 2), Release("k", 2), Reserve("k", 3)});
  EXPECT_THAT(Said(calls), ElementsAre("ACQUIRED 1", "RELEASED FREED", "ACQUIRED 2",
                                       "RELEASED FREED", "ACQUIRED 3"));
}

TEST_F(LaneTest, TokensRiseWhenAForgottenKeyIsDeletedAndCreatedAgain) {
  Send(ReserveDispatchLater("k", 1));
  clock.Advance(kLease + core::kFreedMemory);
  const auto calls = SendAll({Delete("k"), Reserve("k", 2)});
  EXPECT_THAT(Said(calls), ElementsAre("DELETED", "ACQUIRED 2"));
  EXPECT_EQ(Send(Complete("k", 1))->said, "STALE_FENCING_TOKEN");
}

TEST_F(LaneTest, WhatCannotBeReadHarmsNoOtherKey) {
  engine.Put(KeyOf("bad"), core::Unreadable{});
  const auto calls = SendAll({Reserve("bad", 1), Reserve("good", 2), Get("bad")});
  EXPECT_THAT(Said(calls), ElementsAre("RECORD_UNREADABLE", "ACQUIRED 1", "RECORD_UNREADABLE"));
  EXPECT_THAT(observer.unreadable, ElementsAre("bad"));
  EXPECT_EQ(Send(Delete("bad"))->said, "RECORD_UNREADABLE");
  EXPECT_EQ(Send(Delete("bad", /*force=*/true))->said, "DELETED");
  EXPECT_EQ(Send(Reserve("bad", 1))->said, "ACQUIRED 2");
}

TEST_F(LaneTest, ACallbackMaySubmitAgainWithoutDeepeningTheStack) {
  constexpr int kCalls = 20'000;
  int answered = 0;
  std::function<void(Reply)> next = [&](Reply) {
    if (++answered < kCalls) store->Submit(Get("k"), next);
  };
  store->Submit(Get("k"), next);
  EXPECT_EQ(answered, kCalls);
}

// --- The bounds of a batch -------------------------------------------------------------------

// Sends 7 reads on keys of their own while an eighth is held: how large their batches are.
std::vector<size_t> BatchesOfSeven(FakeEngine& engine, KeyStore& store) {
  engine.Hold(FakeEngine::Call::kRead);
  for (int i = 0; i < 8; ++i) store.Submit(Get("k" + std::to_string(i)), [](Reply) {});
  engine.ReleaseAll();
  std::vector<size_t> reads = engine.reads();
  reads.erase(reads.begin());
  return reads;
}

TEST_F(LaneTest, ABatchEndsAtMaxBatchCommands) {
  Restart({.max_batch_commands = 3});
  EXPECT_THAT(BatchesOfSeven(engine, *store), ElementsAre(3, 3, 1));
}

class SmallBatchEngineTest : public ShellTest {
 protected:
  SmallBatchEngineTest() : ShellTest(Traits{.max_batch_writes = 2}) {}
};

TEST_F(SmallBatchEngineTest, ABatchEndsAtWhatTheEngineCanWrite) {
  EXPECT_THAT(BatchesOfSeven(engine, *store), ElementsAre(2, 2, 2, 1));
}

TEST_F(LaneTest, ABatchEndsAtItsResponseBytes) {
  const core::Blob body(std::string(core::kMaxResponseBytes, 'x'));
  for (uint64_t i = 1; i <= 4; ++i) Send(Reserve("k" + std::to_string(i), i));
  const size_t before = engine.commits().size();
  engine.Hold(FakeEngine::Call::kRead);
  std::vector<Call*> calls = {Send(Get("k1"))};
  for (uint64_t i = 1; i <= 4; ++i) {
    Request request = Complete("k" + std::to_string(i), i);
    std::get<core::CompleteCommand>(request.command).response.bytes = body;
    calls.push_back(Send(std::move(request)));
  }
  engine.ReleaseAll();
  EXPECT_THAT(Said(calls),
              ElementsAre("GOT PENDING", "COMPLETE", "COMPLETE", "COMPLETE", "COMPLETE"));
  std::vector<size_t> commits = engine.commits();
  commits.erase(commits.begin(), commits.begin() + static_cast<ptrdiff_t>(before));
  static_assert(3 * size_t{core::kMaxResponseBytes} >= core::kMaxBatchResponseBytes);
  EXPECT_THAT(commits, ElementsAre(3, 1));
}

// --- Several lanes ---------------------------------------------------------------------------

class LanesTest : public ShellTest {
 protected:
  LanesTest() : ShellTest(Traits{}, KeyStoreOptions{.lanes = 4}) {}
};

TEST_F(LanesTest, SubmitAllEntersEachLaneOnceAndAnswersAll) {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 64; ++i) requests.push_back(Reserve("k" + std::to_string(i), i));
  const auto calls = SendAll(std::move(requests));
  EXPECT_THAT(Said(calls), Each(testing::StartsWith("ACQUIRED ")));
  EXPECT_THAT(engine.commits(), SizeIs(Le(4u)));
  EXPECT_THAT(calls, Each(Field(&Call::handle, AllOf(Field(&CancelHandle::lane, Le(3u)),
                                                     Field(&CancelHandle::id, testing::Gt(0u))))));
}

TEST_F(LanesTest, ALaneDoesNotWaitForAnotherLanesCommit) {
  engine.Hold(FakeEngine::Call::kCommit);
  for (uint64_t i = 0; i < 64; ++i) Send(Reserve("k" + std::to_string(i), i));
  EXPECT_EQ(engine.held(), 4u) << "one commit for each lane";
}

}  // namespace
}  // namespace idempotency::keystore
