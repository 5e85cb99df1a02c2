// How answers are given: by a thread that has left the lane, so that the next batch need not wait
// for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "keystore/outstanding.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using DeliveryTest = ShellTest;

TEST_F(DeliveryTest, AnotherThreadRunsTheLaneWhileAnswersAreGiven) {
  absl::Notification giving;
  absl::Notification second_answered;
  std::thread first([&] {
    store->Submit(Reserve("a", 1), [&](const Reply&) {
      giving.Notify();
      // Ends only if the second command does not wait for this answer to be given.
      second_answered.WaitForNotification();
    });
  });
  giving.WaitForNotification();
  std::string said;
  store->Submit(Reserve("b", 2), [&](const Reply& reply) { said = Words(reply); });
  EXPECT_EQ(said, "ACQUIRED 2");
  second_answered.Notify();
  first.join();
}

TEST_F(DeliveryTest, CommandsOfACallbackAreRunAfterItAndNotInsideIt) {
  int depth = 0;
  int deepest = 0;
  int answers = 0;
  std::function<void()> submit = [&] {
    store->Submit(Reserve("k" + std::to_string(answers), 1), [&](const Reply&) {
      deepest = std::max(deepest, ++depth);
      if (++answers < 1000) submit();
      --depth;
    });
  };
  submit();
  EXPECT_EQ(answers, 1000);
  EXPECT_EQ(deepest, 1);
}

TEST_F(DeliveryTest, WhatGatheredWhileAnswersWereGivenIsRunByWhoeverGaveThem) {
  std::vector<std::string> order;
  store->Submit(Reserve("a", 1), [&](const Reply&) {
    for (const char* key : {"b", "c", "d"}) {
      store->Submit(Reserve(key, 1), [&order, key](const Reply&) { order.emplace_back(key); });
    }
    order.emplace_back("a");
  });
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(engine.commits(), (std::vector<size_t>{1, 3}));
}

TEST_F(DeliveryTest, WhoSubmitsManyIsToldThatTheyAreQueuedBeforeAnyIsRun) {
  std::vector<std::pair<Request, ReplyCallback>> requests;
  int answers = 0;
  for (const char* key : {"a", "b"}) {
    requests.emplace_back(Reserve(key, 1), [&answers](const Reply&) { ++answers; });
  }
  bool told = false;
  store->SubmitAll(std::move(requests), [&](const std::vector<CancelHandle>& handles) {
    EXPECT_EQ(handles.size(), 2u);
    EXPECT_EQ(store->queued(), 2u);
    EXPECT_EQ(answers, 0);
    // What is submitted by now shares their batch.
    store->Submit(Reserve("c", 1), [&answers](const Reply&) { ++answers; });
    told = true;
  });
  EXPECT_TRUE(told);
  EXPECT_EQ(answers, 3);
  EXPECT_EQ(engine.commits(), (std::vector<size_t>{3}));
}

TEST_F(DeliveryTest, DrainWaitsForAnswersThatAreBeingGiven) {
  absl::Notification giving;
  absl::Notification go_on;
  std::atomic<bool> given{false};
  std::thread caller([&] {
    store->Submit(Reserve("a", 1), [&](const Reply&) {
      giving.Notify();
      go_on.WaitForNotification();
      given = true;
    });
  });
  giving.WaitForNotification();
  std::thread drainer([&] {
    store->Drain();
    EXPECT_TRUE(given);
  });
  go_on.Notify();
  drainer.join();
  caller.join();
}

// --- Outstanding -----------------------------------------------------------------------------

TEST(OutstandingTest, IsNotWaitedForWhereThereIsNone) {
  Outstanding outstanding;
  outstanding.AwaitNone();
  outstanding.Enter();
  outstanding.Leave();
  outstanding.AwaitNone();
}

TEST(OutstandingTest, AWaitThatIsTooLongEndsAndAnotherMayFollow) {
  Outstanding outstanding;
  outstanding.Enter();
  outstanding.AwaitNone(absl::ZeroDuration());
  outstanding.Leave();
  outstanding.AwaitNone();
}

TEST(OutstandingTest, MayBeDestroyedByWhoeverHasWaitedForTheLastToLeave) {
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::thread> threads;
    {
      Outstanding outstanding;
      for (int i = 0; i < 3; ++i) outstanding.Enter();
      threads.reserve(3);
      for (int i = 0; i < 3; ++i) threads.emplace_back([&outstanding] { outstanding.Leave(); });
      outstanding.AwaitNone();
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace idempotency::keystore
