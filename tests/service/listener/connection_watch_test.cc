#include "service/listener/connection_watch.h"

#include "gtest/gtest.h"
#include "service/listener/call_counter.h"
#include "service/listener/peer_limits.h"

namespace idempotency::service {
namespace {

constexpr core::Duration kStart{0};
constexpr uint64_t kMib = 1024 * 1024;
constexpr uint32_t kManyCalls = 1'000'000;
constexpr uint32_t kFewCalls = 10;

// By then the server has sent something every time.
SocketBytes Received(uint64_t bytes) { return SocketBytes{.received = bytes, .sent = bytes}; }

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

TEST(ConnectionWatchTest, AllowsAQuarterOfTheCancelledCallsAtOnce) {
  ConnectionWatch watch(100, kFewCalls, kStart);
  EXPECT_EQ(watch.Look(Received(1), Counts(1'000'000, 25), kStart), Conduct::kFine);
  EXPECT_EQ(watch.Look(Received(2), Counts(1'000'000, 26), kStart), Conduct::kCancelFlood);
}

TEST(ConnectionWatchTest, AllowsToCancelAtOnceWhateverMayBeOpen) {
  EXPECT_EQ(MaxCancelledAtOnce(10'000, 1'875), 2'500u);
  EXPECT_EQ(MaxCancelledAtOnce(2'000, 1'875), 1'875u);
  EXPECT_EQ(MaxCancelledAtOnce(1'000, 1'875), 1'000u);
}

TEST(ConnectionWatchTest, AllowsAsManyCancelledCallsAsItSaysThatAreSpread) {
  ConnectionWatch watch(100, kFewCalls, kStart);
  for (int i = 1; i <= 100; ++i) {
    const CallCounts counts = Counts(1'000'000, static_cast<uint64_t>(i));
    ASSERT_EQ(watch.Look(Received(1), counts, kStart + kCancelWindow * i / 100), Conduct::kFine);
  }
  // All of them, though nobody has looked meanwhile.
  ConnectionWatch late(100, kFewCalls, kStart);
  EXPECT_EQ(late.Look(Received(1), Counts(1'000'000, 125), kStart + kCancelWindow), Conduct::kFine);
}

TEST(ConnectionWatchTest, AllowsThemAgainAfterTheWindowAndNotBefore) {
  ConnectionWatch watch(100, kFewCalls, kStart);
  ASSERT_EQ(watch.Look(Received(1), Counts(25, 25), kStart), Conduct::kFine);
  ConnectionWatch other = watch;
  EXPECT_EQ(watch.Look(Received(2), Counts(125, 125), kStart + kCancelWindow), Conduct::kFine);
  EXPECT_EQ(other.Look(Received(2), Counts(125, 125), kStart + kCancelWindow / 2),
            Conduct::kCancelFlood);
}

TEST(ConnectionWatchTest, SavesNoneUpOverALongTime) {
  ConnectionWatch watch(100, kFewCalls, kStart);
  ASSERT_EQ(watch.Look(Received(1), Counts(0, 0), kStart + 1'000 * kCancelWindow), Conduct::kFine);
  EXPECT_EQ(watch.Look(Received(2), Counts(26, 26), kStart + 1'000 * kCancelWindow),
            Conduct::kCancelFlood);
}

TEST(ConnectionWatchTest, LooksOnlyWhereSomethingHasCome) {
  ConnectionWatch watch(1'000'000, kManyCalls, kStart);
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
  EXPECT_TRUE(ConnectionWatch(100, kFewCalls, kStart).IsWorthALook(24 * 100 / 4));
}

TEST(ConnectionWatchTest, AllowsAsManyCallsAtOnceAsItSays) {
  ConnectionWatch watch(100, 30, kStart);
  EXPECT_EQ(watch.Look(Received(1), CallCounts{130, 100, 0, 130}, kStart), Conduct::kFine);
  EXPECT_EQ(watch.Look(Received(2), CallCounts{131, 100, 0, 131}, kStart), Conduct::kTooManyCalls);
}

TEST(ConnectionWatchTest, EndsABlockOfHeadersThatDoesNotEnd) {
  ConnectionWatch watch(100, kManyCalls, kStart);
  const CallCounts idle = Counts(3, 0);
  ASSERT_EQ(watch.Look(Received(kMib), idle, kStart), Conduct::kFine);
  const uint64_t most = kMib + kMaxWordlessBytes;
  EXPECT_EQ(watch.Look(Received(most), idle, kStart), Conduct::kFine);
  EXPECT_EQ(EndlessLook(&watch, Received(most + 1), idle), Conduct::kNeverEnding);
}

TEST(ConnectionWatchTest, EndsAtOnceWhoSendsMoreThanFitsBeforeACall) {
  ConnectionWatch watch(100, kManyCalls, kStart);
  const CallCounts none;
  EXPECT_EQ(watch.Look(Received(kMaxBytesBeforeACall), none, kStart), Conduct::kFine);
  ConnectionWatch begins = watch;
  EXPECT_EQ(watch.Look(Received(kMaxBytesBeforeACall + 1), none, kStart), Conduct::kNeverEnding);
  EXPECT_EQ(begins.Look(Received(kMaxBytesBeforeACall + 1), Counts(1, 0), kStart), Conduct::kFine);
}

TEST(ConnectionWatchTest, AHeaderBlockWithoutAnEndIsNotTakenForAMessageOf16MiB) {
  ConnectionWatch watch(100, kManyCalls, kStart);
  const CallCounts begun{3, 2, 0, 2};
  ASSERT_EQ(watch.Look({.received = kMib / 2, .sent = 50}, begun, kStart), Conduct::kFine);
  ASSERT_EQ(watch.Look({.received = kMib, .sent = 100}, begun, kStart), Conduct::kFine);
  const uint64_t most = kMib + kMaxUngrantedBytes + kMaxGrantedBytes;
  EXPECT_EQ(watch.Look({.received = most, .sent = 100}, begun, kStart), Conduct::kFine);
  ConnectionWatch message = watch;
  ConnectionWatch other_call = watch;
  ConnectionWatch completed = watch;
  EXPECT_EQ(watch.Look({.received = most + 1, .sent = 100}, begun, kStart), Conduct::kNeverEnding);
  // Whoever sends a message is granted more as it comes.
  EXPECT_EQ(message.Look({.received = most + 1, .sent = 113}, begun, kStart), Conduct::kFine);
  EXPECT_EQ(message.Look({.received = 2 * most - kMib, .sent = 113}, begun, kStart),
            Conduct::kFine);
  EXPECT_EQ(other_call.Look({.received = most + 1, .sent = 100}, {4, 2, 0, 2}, kStart),
            Conduct::kFine);
  EXPECT_EQ(completed.Look({.received = most + 1, .sent = 100}, {3, 2, 0, 3}, kStart),
            Conduct::kFine);
}

TEST(ConnectionWatchTest, WhoCancelsUploadsIsNotCutOffForWhatHadCome) {
  ConnectionWatch watch(100, kManyCalls, kStart);
  const CallCounts open{10, 0, 0, 0};
  const CallCounts cancelled{10, 0, 10, 0};
  ASSERT_EQ(watch.Look({.received = 100, .sent = 100}, open, kStart), Conduct::kFine);
  const uint64_t come = 10 * kMib;
  ASSERT_EQ(watch.Look({.received = come, .sent = 100}, open, kStart), Conduct::kFine);
  EXPECT_EQ(watch.Look({.received = come + 1, .sent = 100}, cancelled, kStart), Conduct::kFine);
  EXPECT_EQ(watch.Look({.received = come + 2, .sent = 100}, cancelled, kStart + kEndlessPatience),
            Conduct::kFine);
  // Where the server has ended them, some may be on its way.
  const uint64_t most = come + 1 + kMaxUngrantedBytes;
  EXPECT_EQ(watch.Look({.received = most, .sent = 100}, cancelled, kStart + kEndlessPatience),
            Conduct::kFine);
  EXPECT_EQ(watch.Look({.received = most + 1, .sent = 100}, cancelled, kStart + kEndlessPatience),
            Conduct::kNeverEnding);
}

TEST(ConnectionWatchTest, CallsThatEndOneAfterTheOtherDoNotLetAHeaderBlockGoOn) {
  ConnectionWatch watch(100, kManyCalls, kStart);
  CallCounts counts{1'000, 0, 0, 0};
  ASSERT_EQ(watch.Look({.received = 0, .sent = 1}, counts, kStart), Conduct::kFine);
  core::Duration now = kStart;
  uint64_t bytes = 0;
  Conduct conduct = Conduct::kFine;
  while (conduct == Conduct::kFine && counts.succeeded < counts.started) {
    now += core::Duration(5);
    bytes += kMib / 2;
    ++counts.succeeded;
    conduct = watch.Look({.received = bytes, .sent = 1 + counts.succeeded}, counts, now);
  }
  EXPECT_EQ(conduct, Conduct::kNeverEnding);
  EXPECT_LE(bytes, kMostUnfinishedBytes + 12 * kMib);
}

TEST(ConnectionWatchTest, EveryOpenCallMayHaveBeenGrantedItsMessage) {
  for (const uint64_t open : {uint64_t{7}, kMaxGrantedCalls}) {
    ConnectionWatch watch(100, kManyCalls, kStart);
    const CallCounts counts{open, 0, 0, 0};
    ASSERT_EQ(watch.Look({.sent = 100}, counts, kStart), Conduct::kFine);
    const uint64_t most = kMaxUngrantedBytes + open * kMaxGrantedBytes;
    EXPECT_EQ(watch.Look({.received = most, .sent = 100}, counts, kStart), Conduct::kFine);
    EXPECT_EQ(watch.Look({.received = most + 1, .sent = 100}, counts, kStart),
              Conduct::kNeverEnding);
  }
  // Of more calls than that, what all of them may leave unfinished is the bound, with its patience.
  ConnectionWatch many(100, kManyCalls, kStart);
  const CallCounts counts{kMaxGrantedCalls + 1, 0, 0, 0};
  ASSERT_EQ(many.Look({.sent = 100}, counts, kStart), Conduct::kFine);
  const uint64_t more = kMaxUngrantedBytes + (kMaxGrantedCalls + 1) * kMaxGrantedBytes + 1;
  EXPECT_EQ(many.Look({.received = more, .sent = 100}, counts, kStart), Conduct::kFine);
}

TEST(ConnectionWatchTest, AMessageWhoseCallIsCountedLateIsNotCutOff) {
  ConnectionWatch watch(100, kManyCalls, kStart);
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
  ConnectionWatch watch(100, kManyCalls, kStart);
  uint64_t bytes = 0;
  core::Duration now = kStart;
  for (int i = 0; i < 1'000; ++i) {
    bytes += 64 * 1024;
    now += core::Duration(64 * 1024 * 1'000 / kForgivenBytesPerSecond);
    ASSERT_EQ(watch.Look(Received(bytes), Counts(3, 0), now), Conduct::kFine) << i;
  }
}

TEST(ConnectionWatchTest, LetsEveryOpenCallSendItsMessage) {
  ConnectionWatch watch(100, kManyCalls, kStart);
  const CallCounts two_open{2, 0, 0, 0};
  ASSERT_EQ(watch.Look(Received(0), two_open, kStart), Conduct::kFine);
  const uint64_t most = 2 * kMaxUnfinishedBytes + kMaxWordlessBytes;
  EXPECT_EQ(watch.Look(Received(most), two_open, kStart), Conduct::kFine);
  EXPECT_EQ(EndlessLook(&watch, Received(most + 1), two_open), Conduct::kNeverEnding);
  // A message that is completed begins it anew.
  ConnectionWatch other(100, kManyCalls, kStart);
  const CallCounts one_message{2, 0, 0, 1};
  ASSERT_EQ(other.Look(Received(0), two_open, kStart), Conduct::kFine);
  ASSERT_EQ(other.Look(Received(kMaxUnfinishedBytes), one_message, kStart), Conduct::kFine);
  EXPECT_EQ(other.Look(Received(kMaxUnfinishedBytes + most), one_message, kStart), Conduct::kFine);
  // However many are open, there is an end.
  ConnectionWatch many(100, kManyCalls, kStart);
  const CallCounts open{1'000, 0, 0, 0};
  ASSERT_EQ(many.Look(Received(0), open, kStart), Conduct::kFine);
  EXPECT_EQ(EndlessLook(&many, Received(kMostUnfinishedBytes + kMaxWordlessBytes + 2'000), open),
            Conduct::kNeverEnding);
}

TEST(ConnectionWatchTest, EndsWhoSendsAndTakesNothing) {
  const CallCounts calls = Counts(3, 0);
  // It is told of nothing: it need not take anything.
  ConnectionWatch watch(100, kManyCalls, kStart);
  ASSERT_EQ(watch.Look({.received = kMib}, calls, kStart), Conduct::kFine);
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
