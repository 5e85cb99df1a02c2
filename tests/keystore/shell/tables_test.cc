// The small tables that a lane keeps in memory, and the handshake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "keystore/command_queue.h"
#include "keystore/core/limits.h"
#include "keystore/drain_rate.h"
#include "keystore/handshake.h"
#include "keystore/open_leases.h"
#include "keystore/pushback.h"
#include "keystore/ready_commands.h"
#include "keystore/waiters.h"

namespace idempotency::keystore {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""min;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr core::Time kStart{core::Duration(1'800'000'000'000)};

core::Key KeyOf(const std::string& key) { return core::Key{"pay", "eu", key}; }

// --- Waiters ---------------------------------------------------------------------------------

PendingCommandPtr Waiter(uint64_t id, const std::string& key, core::Duration until) {
  auto command = std::make_unique<PendingCommand>();
  command->id = id;
  command->request.key = KeyOf(key);
  command->wait_until = kStart + until;
  return command;
}

std::vector<uint64_t> Ids(const std::vector<PendingCommandPtr>& commands) {
  std::vector<uint64_t> ids;
  for (const PendingCommandPtr& command : commands) ids.push_back(command->id);
  return ids;
}

class WaitersTest : public testing::Test {
 protected:
  WaitersTest() {
    waiters.Add(Waiter(1, "k", 30s));
    waiters.Add(Waiter(2, "k", 10s));
    waiters.Add(Waiter(3, "other", 20s));
    waiters.Add(Waiter(4, "k", 20s));
  }
  Waiters waiters;
};

TEST_F(WaitersTest, OfAKeyComeInTheOrderInWhichTheyCame) {
  EXPECT_EQ(waiters.CountOf(KeyOf("k")), 3u);
  EXPECT_THAT(Ids(waiters.TakeKey(KeyOf("k"))), ElementsAre(1, 2, 4));
  EXPECT_EQ(waiters.CountOf(KeyOf("k")), 0u);
  EXPECT_EQ(waiters.size(), 1u);
  EXPECT_THAT(waiters.TakeKey(KeyOf("k")), IsEmpty());
}

TEST_F(WaitersTest, AreDueInTheOrderOfTheirEnds) {
  EXPECT_EQ(waiters.NextDue(), kStart + 10s);
  EXPECT_THAT(waiters.TakeDue(kStart + 10s - 1ms), IsEmpty());
  EXPECT_THAT(Ids(waiters.TakeDue(kStart + 20s)), ElementsAre(2, 3, 4));
  EXPECT_EQ(waiters.NextDue(), kStart + 30s);
  EXPECT_THAT(Ids(waiters.TakeDue(kStart + 60s)), ElementsAre(1));
  EXPECT_EQ(waiters.NextDue(), std::nullopt);
}

TEST_F(WaitersTest, AreTakenFromTheMiddleOfTheLine) {
  EXPECT_EQ(waiters.Take(2)->id, 2u);
  EXPECT_EQ(waiters.Take(2), nullptr);
  EXPECT_EQ(waiters.Take(99), nullptr);
  EXPECT_EQ(waiters.CountOf(KeyOf("k")), 2u);
  waiters.Add(Waiter(5, "k", 5s));
  EXPECT_THAT(Ids(waiters.TakeKey(KeyOf("k"))), ElementsAre(1, 4, 5));
  EXPECT_EQ(waiters.NextDue(), kStart + 20s);
}

TEST_F(WaitersTest, AreAllTaken) {
  EXPECT_THAT(Ids(waiters.TakeAll()), testing::UnorderedElementsAre(1, 2, 3, 4));
  EXPECT_EQ(waiters.size(), 0u);
  EXPECT_EQ(waiters.NextDue(), std::nullopt);
}

// --- CommandQueue and ReadyCommands -----------------------------------------------------------

PendingCommandPtr Command(uint64_t id = 0) {
  auto command = std::make_unique<PendingCommand>();
  command->id = id;
  return command;
}

std::vector<uint64_t> PopAll(CommandQueue& queue) {
  std::vector<uint64_t> ids;
  while (const PendingCommandPtr command = queue.Pop()) ids.push_back(command->id);
  return ids;
}

TEST(CommandQueueTest, NumbersCommandsAndGivesThemInTheirOrder) {
  CommandQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Push(Command()), 1u);
  EXPECT_EQ(queue.Push(Command()), 2u);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(PopAll(queue), ElementsAre(1, 2));
  EXPECT_EQ(queue.Push(Command()), 3u) << "no id is used twice";
}

TEST(CommandQueueTest, GivesAwayFromAnywhere) {
  CommandQueue queue;
  for (int i = 0; i < 5; ++i) queue.Push(Command());
  for (const uint64_t id : {1, 3, 5}) {
    EXPECT_EQ(queue.Find(id)->id, id);
    EXPECT_EQ(queue.Take(id)->id, id);
    EXPECT_EQ(queue.Find(id), nullptr);
    EXPECT_EQ(queue.Take(id), nullptr);
  }
  EXPECT_EQ(queue.Find(0), nullptr);
  EXPECT_EQ(queue.Take(6), nullptr);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(PopAll(queue), ElementsAre(2, 4));
  EXPECT_EQ(queue.Take(2), nullptr);
  EXPECT_TRUE(queue.empty());
}

TEST(CommandQueueTest, CancellingAFullQueueTakesAFewStepsEach) {
  constexpr uint64_t kCommands = 10'000;
  for (const bool from_the_front : {true, false}) {
    CommandQueue queue;
    for (uint64_t i = 0; i < kCommands; ++i) queue.Push(Command());
    for (uint64_t i = 1; i <= kCommands; ++i) {
      const uint64_t id = from_the_front ? i : kCommands + 1 - i;
      ASSERT_NE(queue.Find(id), nullptr);
      ASSERT_EQ(queue.Take(id)->id, id);
    }
    EXPECT_TRUE(queue.empty());
    // Two binary searches of 14 steps, and a share of moving what is left together, and of
    // forgetting whose turn it would have been.
    EXPECT_LE(queue.steps(), 34 * kCommands);
  }
}

// While the store hangs, callers come and go before anything is taken.
TEST(CommandQueueTest, TheEmptyPlacesOfThoseWhoLeftDoNotPileUp) {
  CommandQueue queue;
  queue.Push(Command());
  for (uint64_t id = 2; id <= 100'000; ++id) {
    queue.Push(Command());
    ASSERT_EQ(queue.Take(id)->id, id);
    ASSERT_LE(queue.places(), 128u);
  }
  EXPECT_THAT(PopAll(queue), ElementsAre(1));
}

TEST(CommandQueueTest, ATenantDoesNotWaitForAllThatAnotherHasSent) {
  CommandQueue queue;
  for (int i = 0; i < 10'000; ++i) queue.Push(Command());
  PendingCommandPtr other = Command();
  other->tenant = {2, 3};
  const uint64_t id = queue.Push(std::move(other));
  EXPECT_TRUE(queue.is_shared());
  EXPECT_EQ(queue.QueuedOf({2, 3}), 1u);
  int before = 0;
  for (; queue.Pop()->id != id; ++before) ASSERT_LT(before, 20);
  EXPECT_FALSE(queue.is_shared());
  const std::vector<uint64_t> rest = PopAll(queue);
  EXPECT_EQ(rest.size(), 10'000u - static_cast<size_t>(before));
  EXPECT_TRUE(std::is_sorted(rest.begin(), rest.end()));
  EXPECT_EQ(queue.places(), 0u);
}

// A turn may fall on a command whose caller has gone.
TEST(CommandQueueTest, TakesTheNextInTurnWhereACommandWasTakenOut) {
  CommandQueue queue;
  for (int i = 0; i < 6; ++i) {
    PendingCommandPtr command = Command();
    command->tenant = {1, 1 + static_cast<uint64_t>(i % 2)};
    queue.Push(std::move(command));
  }
  queue.Take(1);
  queue.Take(2);
  queue.Take(4);
  EXPECT_THAT(PopAll(queue), testing::UnorderedElementsAre(3, 5, 6));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.places(), 0u);
}

std::vector<PendingCommandPtr> Commands(const std::vector<uint64_t>& ids) {
  std::vector<PendingCommandPtr> commands;
  for (const uint64_t id : ids) commands.push_back(Command(id));
  return commands;
}

TEST(ReadyCommandsTest, AreTakenInTheirOrderFromEitherEnd) {
  ReadyCommands ready;
  ready.Add(Commands({5, 0, 6}));
  ready.AddFirst(Commands({1, 2}));
  EXPECT_EQ(ready.Find(6)->id, 6u);
  EXPECT_EQ(ready.Take(2)->id, 2u);
  EXPECT_EQ(ready.Take(2), nullptr);
  EXPECT_EQ(ready.Find(2), nullptr);
  EXPECT_EQ(ready.Find(0), nullptr) << "the lane's own";
  EXPECT_FALSE(ready.empty());
  std::vector<uint64_t> ids;
  while (const PendingCommandPtr command = ready.Pop()) ids.push_back(command->id);
  EXPECT_THAT(ids, ElementsAre(1, 5, 0, 6));
  EXPECT_EQ(ready.Find(1), nullptr);
  EXPECT_TRUE(ready.empty());
}

// --- DrainRate and Pushback --------------------------------------------------------------------

TEST(DrainRateTest, KnowsNothingBeforeItHasSeenAWindow) {
  DrainRate rate;
  EXPECT_EQ(rate.TimeFor(1000), 0ms);
  rate.OnTaken(100, kStart);
  EXPECT_EQ(rate.TimeFor(1000), 0ms);
  rate.OnTaken(100, kStart + DrainRate::kWindow - 1ms);
  EXPECT_EQ(rate.TimeFor(1000), 0ms);
}

TEST(DrainRateTest, FollowsTheNewestWindow) {
  DrainRate rate;
  rate.OnTaken(100, kStart);
  rate.OnTaken(300, kStart + 100ms);
  EXPECT_EQ(rate.TimeFor(1000), 1000ms) << "100 took 100 ms";
  rate.OnTaken(100, kStart + 250ms);
  EXPECT_EQ(rate.TimeFor(1000), 500ms) << "300 took 150 ms";
  rate.OnEmptied();
  EXPECT_EQ(rate.TimeFor(1000), 0ms);
}

// What callers are told within a second in which so many are served and refused.
struct Told {
  core::Duration least{core::Duration::max()};
  core::Duration most{0};
};

Told OneSecond(Pushback& pushback, core::Time from, int served, int refused) {
  Told told;
  for (int i = 0; i < served; ++i) pushback.OnServed();
  for (int i = 0; i < refused; ++i) {
    const core::Duration delay = pushback.OnRefused(from + i * 1000ms / refused);
    told.least = std::min(told.least, delay);
    told.most = std::max(told.most, delay);
  }
  return told;
}

TEST(PushbackTest, IsSpreadAroundASecond) {
  Pushback pushback;
  const Told told = OneSecond(pushback, kStart, 1000, 1000);
  EXPECT_GE(told.least, core::kOverloadRetryAfter * 3 / 4);
  EXPECT_LT(told.least, core::kOverloadRetryAfter * 76 / 100);
  EXPECT_GT(told.most, core::kOverloadRetryAfter * 124 / 100);
  EXPECT_LT(told.most, core::kOverloadRetryAfter * 5 / 4);
}

TEST(PushbackTest, GrowsWhileManyComeBackAndNoFurtherThanItsMost) {
  Pushback pushback;
  OneSecond(pushback, kStart, 1000, 1000);
  EXPECT_GE(OneSecond(pushback, kStart + 1s, 1000, 1000).least, 1500ms);
  for (int i = 2; i < 10; ++i) OneSecond(pushback, kStart + i * 1s, 1000, 1000);
  const Told told = OneSecond(pushback, kStart + 10s, 1000, 1000);
  EXPECT_GE(told.least, core::kMaxOverloadRetryAfter * 3 / 4);
  EXPECT_LT(told.most, core::kMaxOverloadRetryAfter * 5 / 4);
}

// A crowd whose size does not change comes back as often as it is told to.
TEST(PushbackTest, SettlesWhereTheRefusedAreFewBesideTheServed) {
  constexpr int kCrowd = 4000;
  constexpr int kServed = 10'000;
  Pushback pushback;
  double delay_seconds = 1;
  for (int i = 0; i < 20; ++i) {
    const Told told =
        OneSecond(pushback, kStart + i * 1s, kServed, static_cast<int>(kCrowd / delay_seconds));
    delay_seconds = static_cast<double>((told.least + told.most).count()) / 2000;
  }
  EXPECT_NEAR(kCrowd / delay_seconds, kServed * Pushback::kRefusedPerServed, 200);
}

TEST(PushbackTest, FallsBackOnceTheCrowdHasGone) {
  Pushback pushback;
  for (int i = 0; i < 10; ++i) OneSecond(pushback, kStart + i * 1s, 100, 1000);
  for (int i = 10; i < 20; ++i) OneSecond(pushback, kStart + i * 1s, 1000, 10);
  EXPECT_LT(OneSecond(pushback, kStart + 20s, 1000, 10).most, core::kOverloadRetryAfter * 5 / 4);
}

TEST(PushbackTest, ALongQuietDoesNotCountAsACrowd) {
  Pushback pushback;
  for (int i = 0; i < 3; ++i) OneSecond(pushback, kStart + i * 1s, 100, 1000);
  const core::Duration before = pushback.OnRefused(kStart + 3s);
  EXPECT_LT(pushback.OnRefused(kStart + 10min), before);
}

// --- OpenLeases ------------------------------------------------------------------------------

TEST(OpenLeasesTest, AreDueTheOldestFirstAndAtMostSoMany) {
  OpenLeases leases;
  leases.Set(KeyOf("b"), kStart + 2s);
  leases.Set(KeyOf("c"), kStart + 3s);
  leases.Set(KeyOf("a"), kStart + 1s);
  EXPECT_EQ(leases.NextDue(), kStart + 1s);
  EXPECT_THAT(leases.TakeDue(kStart + 1s - 1ms, 10), IsEmpty());
  EXPECT_THAT(leases.TakeDue(kStart + 9s, 2), ElementsAre(KeyOf("a"), KeyOf("b")));
  EXPECT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases.NextDue(), kStart + 3s);
}

TEST(OpenLeasesTest, AKeyHasOneEnd) {
  OpenLeases leases;
  leases.Set(KeyOf("k"), kStart + 5s);
  leases.Set(KeyOf("k"), kStart + 1s);
  leases.Set(KeyOf("k"), kStart + 3s);
  EXPECT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases.NextDue(), kStart + 3s);
  EXPECT_THAT(leases.TakeDue(kStart + 9s, 10), ElementsAre(KeyOf("k")));
  EXPECT_EQ(leases.NextDue(), std::nullopt);
}

TEST(OpenLeasesTest, KeysThatEndTogetherAreToldApart) {
  OpenLeases leases;
  leases.Set(KeyOf("a"), kStart);
  leases.Set(KeyOf("b"), kStart);
  leases.Erase(KeyOf("a"));
  leases.Erase(KeyOf("a"));
  leases.Erase(KeyOf("never there"));
  EXPECT_THAT(leases.TakeDue(kStart, 10), ElementsAre(KeyOf("b")));
}

// --- Handshake -------------------------------------------------------------------------------

TEST(HandshakeTest, ExactlyTheSecondGoesOnAndSeesWhatTheFirstDid) {
  constexpr int kRounds = 2000;
  Handshake handshake;
  std::atomic<int> round = 0;
  std::atomic<int> left = 0;
  int work[2] = {0, 0};
  int went_on = 0;
  const auto end = [&](int me) {
    for (int i = 1; i <= kRounds; ++i) {
      while (round.load() != i) std::this_thread::yield();
      work[me] = i;
      if (handshake.Arrive()) {
        EXPECT_EQ(work[0], i);
        EXPECT_EQ(work[1], i);
        ++went_on;
      }
      ++left;
    }
  };
  std::thread one(end, 0);
  std::thread other(end, 1);
  for (int i = 1; i <= kRounds; ++i) {
    handshake.Reset();
    left = 0;
    round = i;
    while (left.load() != 2) std::this_thread::yield();
  }
  one.join();
  other.join();
  EXPECT_EQ(went_on, kRounds);
}

}  // namespace
}  // namespace idempotency::keystore
