#include "service/listener/connection_watch.h"

#include "gtest/gtest.h"
#include "service/listener/allowance.h"
#include "service/listener/call_counter.h"
#include "service/listener/peer_limits.h"

namespace idempotency::service {
namespace {

constexpr core::Duration kStart{0};
constexpr uint64_t kMib = 1024 * 1024;
constexpr uint32_t kManyCalls = 1'000'000;
constexpr uint32_t kFewCalls = 10;
constexpr Allowance::Size kCancels =
    CancelsWithin({.max_cancelled_calls = 100, .max_streams = kFewCalls});
constexpr Allowance::Size kManyCancels = CancelsWithin({.max_cancelled_calls = 1'000'000});

SocketBytes Received(uint64_t bytes) { return SocketBytes{.received = bytes}; }

// After so many calls, of which so many were cancelled.
CallCounts Counts(uint64_t started, uint64_t failed) {
  return CallCounts{started, started - failed, failed, started};
}

// Too much is only too much when it has been for a while.
Conduct EndlessLook(ConnectionWatch* watch, const SocketBytes& bytes, const CallCounts& counts) {
  const core::Duration late = kEndlessPatience - core::Duration(1);
  EXPECT_EQ(watch->Look(bytes, counts, kStart), Conduct::kFine);
  // Time forgives some bytes.
  const SocketBytes more = Received(bytes.received + 500);
  EXPECT_EQ(watch->Look(more, counts, kStart + late), Conduct::kFine);
  return watch->Look(more, counts, kStart + kEndlessPatience);
}

TEST(ConnectionWatchTest, AllowsAnEighthOfTheCancelledCallsAtOnce) {
  ConnectionWatch watch(kCancels, kFewCalls, kStart);
  EXPECT_EQ(watch.Look(Received(1), Counts(1'000'000, 12), kStart), Conduct::kFine);
  EXPECT_EQ(watch.Look(Received(2), Counts(1'000'000, 13), kStart), Conduct::kCancelFlood);
}

TEST(ConnectionWatchTest, AllowsToCancelAtOnceWhateverMayBeOpen) {
  const auto at_once = [](uint32_t max_cancelled_calls) {
    return CancelsWithin({.max_cancelled_calls = max_cancelled_calls, .max_streams = 1'250})
        .at_once;
  };
  EXPECT_EQ(at_once(20'000), 2'500u);
  EXPECT_EQ(at_once(10'000), 1'500u);
  EXPECT_EQ(at_once(1'000), 1'000u);
}

TEST(ConnectionWatchTest, GivesSomeAnewHoweverOftenItIsLookedAt) {
  ConnectionWatch watch(kCancels, kManyCalls, kStart);
  core::Duration now = kStart;
  for (uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(watch.Look(Received(i), Counts(1'000'000, i), now), Conduct::kFine) << i;
    for (int wait = 0; wait < 20; ++wait) {
      now += core::Duration(5);
      EXPECT_EQ(watch.Look(Received(i), Counts(1'000'000, i), now), Conduct::kFine) << i;
    }
  }
}

TEST(ConnectionWatchTest, AllowsAsManyCancelledCallsAsItSaysThatAreSpread) {
  ConnectionWatch watch(kCancels, kFewCalls, kStart);
  for (int i = 1; i <= 100; ++i) {
    const CallCounts counts = Counts(1'000'000, static_cast<uint64_t>(i));
    ASSERT_EQ(watch.Look(Received(1), counts, kStart + kCancelWindow * i / 100), Conduct::kFine);
  }
  // All of them, though nobody has looked meanwhile.
  ConnectionWatch late(kCancels, kFewCalls, kStart);
  EXPECT_EQ(late.Look(Received(1), Counts(1'000'000, 112), kStart + kCancelWindow), Conduct::kFine);
}

TEST(ConnectionWatchTest, AllowsThemAgainAfterTheWindowAndNotBefore) {
  ConnectionWatch watch(kCancels, kFewCalls, kStart);
  ASSERT_EQ(watch.Look(Received(1), Counts(12, 12), kStart), Conduct::kFine);
  ConnectionWatch other = watch;
  EXPECT_EQ(watch.Look(Received(2), Counts(112, 112), kStart + kCancelWindow), Conduct::kFine);
  EXPECT_EQ(other.Look(Received(2), Counts(112, 112), kStart + kCancelWindow / 2),
            Conduct::kCancelFlood);
}

TEST(ConnectionWatchTest, SavesNoneUpOverALongTime) {
  ConnectionWatch watch(kCancels, kFewCalls, kStart);
  ASSERT_EQ(watch.Look(Received(1), Counts(0, 0), kStart + 1'000 * kCancelWindow), Conduct::kFine);
  EXPECT_EQ(watch.Look(Received(2), Counts(13, 13), kStart + 1'000 * kCancelWindow),
            Conduct::kCancelFlood);
}

TEST(ConnectionWatchTest, LooksOnlyWhereSomethingHasCome) {
  ConnectionWatch watch(kManyCancels, kManyCalls, kStart);
  EXPECT_FALSE(watch.IsWorthALook(0));
  EXPECT_FALSE(watch.IsWorthALook(16 * 1024 - 1));
  EXPECT_TRUE(watch.IsWorthALook(16 * 1024));
  (void)watch.Look(Received(16 * 1024), Counts(1, 0), kStart);
  EXPECT_FALSE(watch.IsWorthALook(32 * 1024 - 1));
  EXPECT_TRUE(watch.IsWorthALook(32 * 1024));
  // What is counted of it may be less than it was.
  EXPECT_FALSE(watch.IsWorthALook(0));
  EXPECT_EQ(watch.Look(Received(0), Counts(1, 0), kStart), Conduct::kFine);
  EXPECT_FALSE(watch.IsWorthALook(32 * 1024 - 1));
  // Few cancelled calls are few bytes.
  EXPECT_TRUE(ConnectionWatch(kCancels, kFewCalls, kStart).IsWorthALook(24 * 100 / 8));
}

TEST(ConnectionWatchTest, AllowsAsManyCallsAtOnceAsItSays) {
  ConnectionWatch watch(kCancels, 30, kStart);
  EXPECT_EQ(watch.Look(Received(1), CallCounts{130, 100, 0, 130}, kStart), Conduct::kFine);
  EXPECT_EQ(watch.Look(Received(2), CallCounts{131, 100, 0, 131}, kStart), Conduct::kTooManyCalls);
}

TEST(ConnectionWatchTest, EndsBytesThatBecomeNoCall) {
  ConnectionWatch watch(kCancels, kManyCalls, kStart);
  const CallCounts idle = Counts(3, 0);
  ASSERT_EQ(watch.Look(Received(kMib), idle, kStart), Conduct::kFine);
  const uint64_t most = kMib + kMaxWordlessBytes;
  EXPECT_EQ(watch.Look(Received(most), idle, kStart), Conduct::kFine);
  EXPECT_EQ(EndlessLook(&watch, Received(most + 1), idle), Conduct::kNeverEnding);
}

TEST(ConnectionWatchTest, EndsAtOnceWhoSendsMoreThanFitsBeforeACall) {
  ConnectionWatch watch(kCancels, kManyCalls, kStart);
  const CallCounts none;
  EXPECT_EQ(watch.Look(Received(kMaxBytesBeforeACall), none, kStart), Conduct::kFine);
  ConnectionWatch begins = watch;
  EXPECT_EQ(watch.Look(Received(kMaxBytesBeforeACall + 1), none, kStart), Conduct::kNeverEnding);
  EXPECT_EQ(begins.Look(Received(kMaxBytesBeforeACall + 1), Counts(1, 0), kStart), Conduct::kFine);
}

TEST(ConnectionWatchTest, WhoCancelsUploadsIsNotCutOffForWhatHadCome) {
  ConnectionWatch watch(kCancels, kManyCalls, kStart);
  const CallCounts open{10, 0, 0, 0};
  const CallCounts cancelled{10, 0, 10, 0};
  ASSERT_EQ(watch.Look(Received(100), open, kStart), Conduct::kFine);
  const uint64_t come = 10 * kMib;
  ASSERT_EQ(watch.Look(Received(come), open, kStart), Conduct::kFine);
  EXPECT_EQ(watch.Look(Received(come + 1), cancelled, kStart), Conduct::kFine);
  EXPECT_EQ(watch.Look(Received(come + 2), cancelled, kStart + kEndlessPatience), Conduct::kFine);
}

TEST(ConnectionWatchTest, CallsThatEndOneAfterTheOtherDoNotLetBytesGoOn) {
  ConnectionWatch watch(kCancels, kManyCalls, kStart);
  CallCounts counts{1'000, 0, 0, 0};
  ASSERT_EQ(watch.Look(Received(0), counts, kStart), Conduct::kFine);
  core::Duration now = kStart;
  uint64_t bytes = 0;
  Conduct conduct = Conduct::kFine;
  while (conduct == Conduct::kFine && counts.succeeded < counts.started) {
    now += core::Duration(5);
    bytes += kMib / 2;
    ++counts.succeeded;
    conduct = watch.Look(Received(bytes), counts, now);
  }
  EXPECT_EQ(conduct, Conduct::kNeverEnding);
  EXPECT_LE(bytes, kMostUnfinishedBytes + 12 * kMib);
}

TEST(ConnectionWatchTest, AMessageWhoseCallIsCountedLateIsNotCutOff) {
  ConnectionWatch watch(kCancels, kManyCalls, kStart);
  ASSERT_EQ(watch.Look(Received(kMib), Counts(3, 0), kStart), Conduct::kFine);
  const core::Duration soon = kStart + kEndlessPatience;
  EXPECT_EQ(watch.Look(Received(3 * kMib), Counts(3, 0), soon), Conduct::kFine);
  const CallCounts begun{4, 3, 0, 3};
  EXPECT_EQ(watch.Look(Received(4 * kMib), begun, 2 * soon), Conduct::kFine);
  // What is late once more is waited for anew.
  EXPECT_EQ(watch.Look(Received(6 * kMib), Counts(4, 0), 3 * soon), Conduct::kFine);
  EXPECT_EQ(watch.Look(Received(8 * kMib), Counts(4, 0), 4 * soon), Conduct::kFine);
}

TEST(ConnectionWatchTest, ForgivesWhatAnIdleConnectionSaysOverDays) {
  ConnectionWatch watch(kCancels, kManyCalls, kStart);
  uint64_t bytes = 0;
  core::Duration now = kStart;
  for (int i = 0; i < 1'000; ++i) {
    bytes += 64 * 1024;
    now += core::Duration(64 * 1024 * 1'000 / kForgivenBytesPerSecond);
    ASSERT_EQ(watch.Look(Received(bytes), Counts(3, 0), now), Conduct::kFine) << i;
  }
}

TEST(ConnectionWatchTest, LetsEveryOpenCallSendItsMessage) {
  ConnectionWatch watch(kCancels, kManyCalls, kStart);
  const CallCounts two_open{2, 0, 0, 0};
  ASSERT_EQ(watch.Look(Received(0), two_open, kStart), Conduct::kFine);
  const uint64_t most = 2 * kMaxUnfinishedBytes + kMaxWordlessBytes;
  EXPECT_EQ(watch.Look(Received(most), two_open, kStart), Conduct::kFine);
  EXPECT_EQ(EndlessLook(&watch, Received(most + 1), two_open), Conduct::kNeverEnding);
  // A message that is completed begins it anew.
  ConnectionWatch other(kCancels, kManyCalls, kStart);
  const CallCounts one_message{2, 0, 0, 1};
  ASSERT_EQ(other.Look(Received(0), two_open, kStart), Conduct::kFine);
  ASSERT_EQ(other.Look(Received(kMaxUnfinishedBytes), one_message, kStart), Conduct::kFine);
  EXPECT_EQ(other.Look(Received(kMaxUnfinishedBytes + most), one_message, kStart), Conduct::kFine);
  // However many are open, there is an end.
  ConnectionWatch many(kCancels, kManyCalls, kStart);
  const CallCounts open{1'000, 0, 0, 0};
  ASSERT_EQ(many.Look(Received(0), open, kStart), Conduct::kFine);
  EXPECT_EQ(EndlessLook(&many, Received(kMostUnfinishedBytes + kMaxWordlessBytes + 2'000), open),
            Conduct::kNeverEnding);
}

TEST(ConnectionWatchTest, EndsWhoSendsAndTakesNothing) {
  const CallCounts calls = Counts(3, 0);
  // It is told of nothing: it need not take anything.
  ConnectionWatch watch(kCancels, kManyCalls, kStart);
  ASSERT_EQ(watch.Look(Received(kMib), calls, kStart), Conduct::kFine);
  // From here on there is something.
  const uint64_t most = kMib + kMaxDeafBytesOfCalls;
  const CallCounts more = Counts(4, 0);
  ConnectionWatch takes = watch;
  // Without a call it is less.
  ConnectionWatch pings = watch;
  const uint64_t fewer = kMib + kMaxDeafBytes;
  EXPECT_EQ(pings.Look({.received = fewer, .unsent = 1}, calls, kStart), Conduct::kFine);
  EXPECT_EQ(pings.Look({.received = fewer + 1, .unsent = 1}, calls, kStart), Conduct::kDeaf);
  EXPECT_EQ(watch.Look({.received = most, .unsent = 1}, more, kStart), Conduct::kFine);
  EXPECT_EQ(watch.Look({.received = most + 1, .unsent = 1}, more, kStart), Conduct::kFine);
  const core::Duration late = kStart + kDeafPatience;
  EXPECT_EQ(watch.Look({.received = most + 1, .unsent = 1}, more, late), Conduct::kDeaf);
  EXPECT_EQ(takes.Look({.received = most, .unsent = 1}, more, kStart), Conduct::kFine);
  EXPECT_EQ(takes.Look({.received = most + 1, .acknowledged = 1, .unsent = 1}, more, late),
            Conduct::kFine);
}

TEST(CallCounterTest, ReadsNumbersOfGrpcsJson) {
  const char json[] = R"({"socket":{"data":{"streamsFailed":"17","streamsStarted":"18"}}})";
  EXPECT_EQ(NumberIn(json, "streamsStarted"), 18u);
  EXPECT_EQ(NumberIn(json, "streamsFailed"), 17u);
  EXPECT_EQ(NumberIn(json, "streams"), 0u);
  EXPECT_EQ(NumberIn(R"({"streamsFailed":")", "streamsFailed"), 0u);
  EXPECT_EQ(NumberIn("", "streamsFailed"), 0u);
}

}  // namespace
}  // namespace idempotency::service
