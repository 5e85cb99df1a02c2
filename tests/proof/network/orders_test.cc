#include "tests/proof/network/orders.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/keystore/core/core_text.h"
#include "tests/proof/network/call.h"
#include "tests/proof/network/spaces.h"

namespace idempotency::proof::network {
namespace {

using core::Duration;
using core::Time;

constexpr Time kServerTime{std::chrono::hours(24 * 365 * 50)};
constexpr Duration kShort{20};

// Calls of one key: each begins after the one before has ended, but for those that overlap.
class Story {
 public:
  explicit Story(const std::string& space = "reconcile") {
    history_.key = "key";
    history_.space = &SpaceNamed(space);
  }

  Call& Answered(core::Command command, std::string answer) {
    Call& call = Add(std::move(command));
    call.ended = Ended::kAnswered;
    call.received = ++now_;
    call.told.answer = std::move(answer);
    const size_t token = call.told.answer.find("token=");
    if (token != std::string::npos)
      call.told.token = std::stoull(call.told.answer.substr(token + 6));
    return call;
  }
  Call& Lost(core::Command command) { return Add(std::move(command)); }
  // The last one was under way since the call before it was sent.
  void LastOverlaps() {
    history_.calls.back().sent = history_.calls[history_.calls.size() - 2].sent;
  }

  Verdict Check(uint64_t max_trials = 100'000) const { return FindOrder(history_, max_trials); }
  std::string Wrong() const { return Check().wrong; }
  bool Explained() const { return Wrong().empty(); }

  KeyHistory& history() { return history_; }

 private:
  Call& Add(core::Command command) {
    Call call;
    call.command = std::move(command);
    if (const auto* reserve = std::get_if<core::ReserveCommand>(&call.command)) {
      call.span = reserve->lease == kModelShort ? kShort : reserve->lease;
    }
    if (const auto* renew = std::get_if<core::RenewCommand>(&call.command)) {
      call.span = renew->lease == kModelShort ? kShort : renew->lease;
    }
    call.sent = ++now_;
    history_.calls.push_back(std::move(call));
    return history_.calls.back();
  }

  Moment now_ = 0;
  KeyHistory history_;
};

core::Command Reserve(const std::string& id, Duration lease = kFar) {
  core::ReserveCommand command;
  command.fingerprint = core::FingerprintOf("request");
  command.attempt_id = core::DigestOf(id);
  command.lease = lease;
  return command;
}

core::Command Complete(uint64_t token, const std::string& body = "answer") {
  core::CompleteCommand command;
  command.token = token;
  command.response.bytes = core::Blob(body);
  command.content = core::ContentOf(command);
  return command;
}

core::Command Release(uint64_t token) { return core::ReleaseCommand{.token = token}; }
core::Command Renew(uint64_t token, Duration lease) {
  return core::RenewCommand{.token = token, .lease = lease};
}
core::Command Get() { return core::GetCommand{core::FingerprintOf("request")}; }

constexpr char kPending[] = "PENDING RESERVE_AGAIN";
constexpr char kComplete[] = "COMPLETE USE_RESPONSE SUCCEEDED body='answer'";
constexpr char kLapsed[] = "UNRESOLVED RECONCILE_FIRST";

TEST(OrdersTest, ATrueStoryIsExplained) {
  Story story;
  story.Answered(Get(), "error OPERATION_NOT_FOUND");
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Reserve("b"), "IN_PROGRESS RESERVE_AGAIN");
  story.Answered(Reserve("a"), "ALREADY_HELD PROCEED_UNLESS_STARTED token=5 attempt=1");
  story.Answered(Complete(5), "COMPLETE SUCCEEDED");
  story.Answered(Complete(5), "already COMPLETE SUCCEEDED");
  story.Answered(Reserve("b"), "COMPLETED USE_RESPONSE SUCCEEDED body='answer'");
  EXPECT_EQ(story.Wrong(), "");
}

TEST(OrdersTest, ASecondGrantIsNotExplained) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Reserve("b"), "ACQUIRED PROCEED token=6 attempt=1");
  EXPECT_FALSE(story.Explained());
}

TEST(OrdersTest, ATokenThatDoesNotRiseIsNotExplained) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Release(5), "FREED");
  story.Answered(Reserve("b"), "ACQUIRED PROCEED token=5 attempt=1");
  EXPECT_FALSE(story.Explained());
}

TEST(OrdersTest, ALostReplyForks) {
  for (const bool happened : {true, false}) {
    Story story;
    story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
    story.Lost(Complete(5));
    story.Answered(Get(), happened ? kComplete : kPending);
    EXPECT_EQ(story.Wrong(), "");
    EXPECT_EQ(story.Check().lost_effects, happened ? 1u : 0u);
  }
}

TEST(OrdersTest, WhatWasLostMayHappenMuchLater) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Lost(Complete(5));
  story.Answered(Get(), kPending);
  story.Answered(Reserve("b"), "IN_PROGRESS RESERVE_AGAIN");
  story.Answered(Get(), kComplete);
  EXPECT_EQ(story.Wrong(), "");
}

TEST(OrdersTest, WhatHasHappenedDoesNotUnhappen) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Lost(Complete(5));
  story.Answered(Get(), kComplete);
  story.Answered(Get(), kPending);
  EXPECT_FALSE(story.Explained());
}

TEST(OrdersTest, WhatWasNotAskedDoesNotHappen) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Get(), kComplete);
  EXPECT_FALSE(story.Explained());
}

TEST(OrdersTest, WhatWouldChangeNothingAtFirstMayChangeSomethingLater) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Complete(5), "COMPLETE SUCCEEDED");
  // Under way since before there was anything to delete.
  story.Answered(core::DeleteCommand{.force = true}, "deleted").sent = 1;
  story.Answered(Get(), "FREED PROCEED");
  EXPECT_EQ(story.Wrong(), "");
}

TEST(OrdersTest, ALostGrantIsFoundByWhatIsShownOfIt) {
  Story story;
  story.Lost(Reserve("a"));
  story.Answered(Reserve("b"), "IN_PROGRESS RESERVE_AGAIN");
  story.Answered(Reserve("a"), "ALREADY_HELD PROCEED_UNLESS_STARTED token=9 attempt=1");
  story.Answered(Release(9), "FREED");
  story.Answered(Reserve("b"), "ACQUIRED PROCEED token=12 attempt=1");
  EXPECT_EQ(story.Wrong(), "");
}

TEST(OrdersTest, ALostGrantNeedsNoToken) {
  Story story;
  story.Lost(Reserve("a", kModelShort));
  story.Answered(Reserve("b"), "IN_PROGRESS RESERVE_AGAIN");
  story.Answered(Get(), kLapsed);
  EXPECT_EQ(story.Wrong(), "");
  EXPECT_EQ(story.Check().lapses, 1u);
}

TEST(OrdersTest, OnlyCallsThatOverlapMayChangePlaces) {
  for (const bool overlap : {true, false}) {
    Story story;
    story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
    story.Answered(Complete(5), "COMPLETE SUCCEEDED");
    story.Answered(Get(), kPending);
    if (overlap) story.LastOverlaps();
    EXPECT_EQ(story.Explained(), overlap);
  }
}

TEST(OrdersTest, CallsOnOneStreamKeepTheirOrder) {
  for (const bool one_stream : {true, false}) {
    Story story;
    story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
    story.Answered(Complete(5), "COMPLETE SUCCEEDED");
    story.Answered(Get(), kPending);
    story.LastOverlaps();
    if (one_stream) story.history().calls[2].behind = 1;
    EXPECT_EQ(story.Explained(), !one_stream);
  }
}

TEST(OrdersTest, WhatHadNoEffectIsLeftOut) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Lost(Complete(5)).ended = Ended::kNoEffect;
  story.Answered(Get(), kPending);
  EXPECT_EQ(story.Wrong(), "");
  story.Answered(Get(), kComplete);
  EXPECT_FALSE(story.Explained());
}

TEST(OrdersTest, OnlyAShortLeaseLapses) {
  for (const bool is_short : {true, false}) {
    Story story;
    story.Answered(Reserve("a", is_short ? kModelShort : kFar),
                   "ACQUIRED PROCEED token=5 attempt=1");
    story.Answered(Get(), kPending);
    story.Answered(Get(), kLapsed);
    EXPECT_EQ(story.Explained(), is_short);
  }
}

// A short lease, and what is read at some time after it was granted, by the server's clock.
Story LeaseAndRead(Duration after, const std::string& read) {
  Story story;
  Call& granted = story.Answered(Reserve("a", kModelShort), "ACQUIRED PROCEED token=5 attempt=1");
  granted.told.not_before = granted.told.not_after = kServerTime;
  granted.told.lease_end = kServerTime + kShort;
  Call& got = story.Answered(Get(), read);
  got.told.not_after = kServerTime + after;
  return story;
}

TEST(OrdersTest, ALeaseDoesNotLapseBeforeItsEndByTheServersClock) {
  EXPECT_FALSE(LeaseAndRead(kShort - Duration{1}, kLapsed).Explained());
  EXPECT_EQ(LeaseAndRead(kShort, kLapsed).Wrong(), "");
}

TEST(OrdersTest, ALeaseDoesNotLiveAtItsEndByTheServersClock) {
  for (const Duration late : {Duration{-1}, Duration{0}}) {
    Story story = LeaseAndRead(kShort + Duration{5}, kPending);
    // Somebody else was told of a change at that time.
    story.history().calls.back().told.not_before = kServerTime + kShort + late;
    EXPECT_EQ(story.Explained(), late < Duration{0});
  }
}

TEST(OrdersTest, ALeaseOfWhichOnlyItsEndIsKnownDoesNotLiveAtIt) {
  for (const Duration late : {Duration{-1}, Duration{0}}) {
    Story story;
    story.Lost(Reserve("a", kModelShort));
    Call& got = story.Answered(Get(), kPending);
    got.told.lease_end = kServerTime + kShort;
    got.told.not_before = got.told.lease_end + late;
    EXPECT_EQ(story.Explained(), late < Duration{0});
  }
}

TEST(OrdersTest, ARenewalThatWasLostMayHaveProlonged) {
  for (const bool renewed : {true, false}) {
    Story story = LeaseAndRead(Duration{1}, kPending);
    if (renewed) story.Lost(Renew(5, kModelShort));
    Call& got = story.Answered(Get(), kPending);
    got.told.not_before = kServerTime + kShort;
    got.told.not_after = kServerTime + kShort + Duration{1};
    EXPECT_EQ(story.Explained(), renewed);
  }
}

TEST(OrdersTest, AnEndThatIsShownIsTheEnd) {
  Story story = LeaseAndRead(Duration{1}, kPending);
  story.history().calls.back().told.lease_end = kServerTime + kShort + Duration{1};
  EXPECT_FALSE(story.Explained());
}

TEST(OrdersTest, AnAnswerExpiresOnlyWhereItsRetentionIsShort) {
  for (const std::string space : {"fleeting", "reconcile"}) {
    Story story(space);
    story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
    story.Answered(Complete(5), "COMPLETE SUCCEEDED");
    story.Answered(Reserve("b"), "EXPIRED LOOK_UP_ANSWER SUCCEEDED");
    EXPECT_EQ(story.Explained(), space == "fleeting");
  }
}

TEST(OrdersTest, WhatIsShownCounts) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  Call& got = story.Answered(Get(), kPending);
  got.told.shown = "attempt=1 dispatched";
  got.told.history = "ACQUIRED#1";
  EXPECT_EQ(story.Wrong(), "");
  story.history().calls.back().told.shown = "attempt=2 dispatched";
  EXPECT_FALSE(story.Explained());
  story.history().calls.back().told.shown = "attempt=1 dispatched";
  story.history().calls.back().told.history = "ACQUIRED#1 RELEASED#1";
  EXPECT_FALSE(story.Explained());
}

TEST(OrdersTest, NotToKnowIsToFail) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Complete(5), "COMPLETE SUCCEEDED");
  const Verdict verdict = story.Check(0);
  EXPECT_TRUE(verdict.undecided);
  EXPECT_NE(verdict.wrong.find("undecided"), std::string::npos);
}

// --- Several servers -----------------------------------------------------------------------------

// A lapse that a Renew under way undoes is told to whoever read the record before it.
Story LateReader() {
  Story story;
  Call& reserve = story.Answered(Reserve("a", kModelShort), "ACQUIRED PROCEED token=5 attempt=1");
  reserve.told.not_after = kServerTime;
  reserve.told.lease_end = kServerTime + kShort;
  Call& renew = story.Answered(Renew(5, kFar), "renewed token=5 attempt=1");
  renew.told.not_after = kServerTime + kShort - Duration{1};
  renew.told.lease_end = renew.told.not_after + kFar;
  Call& get = story.Answered(Get(), kLapsed);
  story.LastOverlaps();
  get.told.not_after = kServerTime + kShort;
  Call& later = story.Answered(Get(), kPending);
  later.told.not_after = kServerTime + 2 * kShort;
  return story;
}

TEST(OrdersTest, OfSeveralServersOneMayTellOfALapseThatAnotherPrevents) {
  Story story = LateReader();
  EXPECT_FALSE(story.Explained());
  story.history().shared = true;
  EXPECT_EQ(story.Wrong(), "");
}

// The reader comes after another one, who has seen the lease alive.
TEST(OrdersTest, OfSeveralServersOneMayTellOfALapseThatALostCompletionPrevents) {
  Story story;
  Call& reserve = story.Answered(Reserve("a", kModelShort), "ACQUIRED PROCEED token=5 attempt=1");
  reserve.told.lease_end = kServerTime + kShort;
  story.Answered(Get(), kPending).told.lease_end = kServerTime + kShort;
  story.Lost(Complete(5));
  Call& late = story.Answered(Get(), kLapsed);
  late.told.history = "ACQUIRED#1 LEASE_LAPSED#1";
  late.told.not_before = late.told.not_after = kServerTime + kShort;
  story.Answered(Get(), kComplete).told.history = "ACQUIRED#1 COMPLETED#1";
  EXPECT_FALSE(story.Explained());
  story.history().shared = true;
  EXPECT_EQ(story.Wrong(), "");
}

TEST(OrdersTest, AlsoOfSeveralServersNoneTellsOfALapseBeforeTheLeaseEnds) {
  Story story = LateReader();
  story.history().shared = true;
  story.history().calls[2].told.not_after = kServerTime + kShort - Duration{1};
  EXPECT_FALSE(story.Explained());
}

TEST(OrdersTest, AlsoOfSeveralServersOneAloneGrantsAKey) {
  Story story;
  story.history().shared = true;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Reserve("b"), "ACQUIRED PROCEED token=6 attempt=1");
  story.LastOverlaps();
  EXPECT_FALSE(story.Explained());
}

TEST(OrdersTest, AlsoOfSeveralServersARecordIsNotReadAsItWasBeforeACallThatHasEnded) {
  Story story;
  story.history().shared = true;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Complete(5), "COMPLETE SUCCEEDED");
  story.Answered(Get(), kPending);
  EXPECT_FALSE(story.Explained());
}

// A late completion that fits already, but comes behind what another answer shows; and renewals,
// which any order may have.
TEST(OrdersTest, AKeyOfWhichManyCallsWereLostIsNotLeftUndecided) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Release(5), "FREED");
  story.Answered(Reserve("b"), "ACQUIRED PROCEED token=6 attempt=1");
  for (int i = 0; i < 12; ++i) story.Lost(Renew(6, kFar));
  story.Lost(Release(6));
  story.Answered(Get(), "FREED PROCEED").told.history =
      "ACQUIRED#1 RELEASED#1 ACQUIRED#1 RELEASED#1";
  story.Answered(Complete(5), "error STALE_FENCING_TOKEN");
  story.LastOverlaps();
  story.Answered(Get(), "FREED PROCEED").told.history =
      "ACQUIRED#1 RELEASED#1 ACQUIRED#1 RELEASED#1 LATE_COMPLETION#1";
  EXPECT_EQ(story.Wrong(), "");
}

TEST(OrdersTest, WhatWasSteppedTwiceIsAnsweredAsARepetition) {
  Story story;
  story.Answered(Reserve("a"), "ACQUIRED PROCEED token=5 attempt=1");
  story.Answered(Complete(5), "already COMPLETE SUCCEEDED");
  EXPECT_FALSE(story.Explained());
  story.history().calls.back().perhaps_twice = true;
  EXPECT_EQ(story.Wrong(), "");
}

}  // namespace
}  // namespace idempotency::proof::network
