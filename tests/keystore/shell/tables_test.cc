// The small tables that a lane keeps in memory, and the handshake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "keystore/handshake.h"
#include "keystore/open_leases.h"
#include "keystore/waiters.h"

namespace idempotency::keystore {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
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
