// Each rule of BrokenRule, broken once, on records that were whole before.
#include "keystore/core/invariants.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "keystore/core/limits.h"
#include "tests/keystore/core/core_text.h"
#include "tests/keystore/core/machine.h"

namespace idempotency::core {
namespace {

constexpr Duration kSecond{1'000};

ReserveCommand NewAttempt(const std::string& name) {
  ReserveCommand command;
  command.attempt_id = DigestOf(name);
  command.fingerprint = FingerprintOf("x");
  command.lease = 30 * kSecond;
  return command;
}

Record Pending() {
  Machine machine;
  machine.Do(NewAttempt("a"));
  return *machine.Observed();
}

Record Unresolved() {
  Machine machine;
  machine.Do(NewAttempt("a"));
  machine.set_time(kStart + 40 * kSecond);
  return *machine.Observed();
}

Record Complete() {
  Machine machine;
  machine.Do(NewAttempt("a"));
  machine.Do(CompleteCommand{.token = 1});
  return *machine.Observed();
}

Record Abandoned() {
  Machine machine;
  machine.Do(NewAttempt("a"));
  machine.set_time(kStart + 40 * kSecond);
  machine.Do(ResolveCommand{.resolution = Resolution::kAbandoned});
  return *machine.Observed();
}

Record Expired() {
  Machine machine;
  machine.Do(NewAttempt("a"));
  machine.Do(CompleteCommand{.token = 1});
  machine.set_time(kStart + kDay);
  return *machine.Observed();
}

Record Freed() {
  Machine machine;
  machine.Do(NewAttempt("a"));
  machine.Do(ReleaseCommand{.token = 1});
  return *machine.Observed();
}

TEST(Invariants, HoldOfWholeRecords) {
  for (const Record& record :
       {Pending(), Unresolved(), Complete(), Abandoned(), Expired(), Freed()}) {
    EXPECT_EQ(BrokenRule(record), "") << Text(record);
  }
}

struct Breakage {
  std::string name;
  Record (*whole)();
  std::function<void(Record&)> harm;
  std::string rule;

  friend void PrintTo(const Breakage& breakage, std::ostream* out) { *out << breakage.rule; }
};

// Of the fields that every record has.
std::vector<Breakage> CommonBreakages() {
  return {
      {"TokenZero", Pending, [](Record& r) { r.token = 0; }, "a token is 1 .. 2^53 - 1"},
      {"TokenTooLarge", Pending, [](Record& r) { r.token = kMaxFencingToken + 1; },
       "a token is 1 .. 2^53 - 1"},
      {"AttemptZero", Pending, [](Record& r) { r.attempt = 0; }, "attempts count from 1"},
      {"NeverChanged", Pending, [](Record& r) { r.changes = 0; },
       "a record has been changed at least once"},
      {"NoCreateTime", Pending, [](Record& r) { r.create_time = Time{}; },
       "an operation has a create_time"},
      {"UpdatedBeforeCreated", Pending, [](Record& r) { r.update_time = r.create_time - kSecond; },
       "no update before creation"},
      {"TooManyEvents", Pending, [](Record& r) { r.history.resize(kMaxHistoryEvents + 1); },
       "too many events"},
      {"LabelsUnsorted", Pending,
       [](Record& r) {
         r.labels = {{"b", "1"}, {"a", "1"}};
       },
       "labels are sorted"},
      {"TimeTooLate", Pending, [](Record& r) { r.lease_expire_time = kMaxTime + kSecond; },
       "times lie between the epoch and kMaxTime"},
      {"EventTooEarly", Pending, [](Record& r) { r.history[0].time = Time{} - kSecond; },
       "times lie between the epoch and kMaxTime"},
      {"UnknownTooLate", Unresolved,
       [](Record& r) { r.unknown->next_attempt_time = kMaxTime + kSecond; },
       "times lie between the epoch and kMaxTime"},
      {"EarlierTooLate", Unresolved,
       [](Record& r) { r.earlier = Unknown{.since = kMaxTime + kSecond}; },
       "times lie between the epoch and kMaxTime"},
      {"SpanTooLong", Pending, [](Record& r) { r.terms.settle = kMaxPolicyDuration + kSecond; },
       "durations lie between zero and the longest that a policy may set"},
      {"SpanNegative", Pending, [](Record& r) { r.terms.retention = -kSecond; },
       "durations lie between zero and the longest that a policy may set"},
  };
}

// Of what goes with a state.
std::vector<Breakage> StateBreakages() {
  return {
      {"TooManyEnded", Freed,
       [](Record& r) {
         r.ended.clear();
         for (uint64_t i = 1; i <= kMaxEndedAttempts + 1; ++i) r.ended.push_back({.token = i});
         r.token = kMaxEndedAttempts + 1;
       },
       "too many ended attempts"},
      {"EndedNotRising", Freed,
       [](Record& r) {
         r.token = 2;
         r.ended = {{.token = 2}, {.token = 2}};
       },
       "ended attempts must have rising tokens"},
      {"EndedNewerThanNewest", Freed, [](Record& r) { r.ended[0].token = 2; },
       "an ended attempt is newer than the newest token"},
      {"PendingHasEnded", Pending, [](Record& r) { r.ended = {{.token = 1}}; },
       "exactly the newest attempt of an operation that is not pending has ended"},
      {"FreedHasNotEnded", Freed, [](Record& r) { r.ended.clear(); },
       "exactly the newest attempt of an operation that is not pending has ended"},
      {"UnresolvedWithoutUnknown", Unresolved, [](Record& r) { r.unknown.reset(); },
       "exactly an unresolved operation is unknown"},
      {"PendingWithUnknown", Pending, [](Record& r) { r.unknown = Unknown{}; },
       "exactly an unresolved operation is unknown"},
      {"FreedWithEarlier", Freed, [](Record& r) { r.earlier = Unknown{}; },
       "only an open operation has an earlier unknown"},
      {"UnresolvedWithoutCause", Unresolved,
       [](Record& r) { r.unknown->cause = UnresolvedCause::kNone; },
       "an unresolved operation has a cause"},
      {"UnresolvedByNoAttempt", Unresolved, [](Record& r) { r.unknown->attempt = 0; },
       "attempts count from 1"},
      {"EarlierWithoutCause", Pending, [](Record& r) { r.earlier = Unknown{.attempt = 1}; },
       "an unresolved operation has a cause"},
      {"EarlierByNoAttempt", Pending,
       [](Record& r) { r.earlier = Unknown{.cause = UnresolvedCause::kTimeout}; },
       "attempts count from 1"},
      {"PendingWithoutLease", Pending, [](Record& r) { r.lease_expire_time = Time{}; },
       "a pending operation has a lease"},
      {"PendingResolved", Pending, [](Record& r) { r.resolution = Resolution::kAbandoned; },
       "a pending operation has not been resolved"},
      {"StartedNotDispatched", Pending, [](Record& r) { r.dispatched = false; },
       "a started attempt has been dispatched"},
      {"CompleteWithoutVerdict", Complete, [](Record& r) { r.verdict = Verdict::kNone; },
       "exactly an ended operation has a verdict"},
      {"PendingWithVerdict", Pending, [](Record& r) { r.verdict = Verdict::kFailed; },
       "exactly an ended operation has a verdict"},
      {"ExpiredWithoutCompleteTime", Expired, [](Record& r) { r.complete_time = Time{}; },
       "exactly an ended operation has a complete_time"},
      {"CompleteWithoutRetention", Complete, [](Record& r) { r.response_expire_time = Time{}; },
       "exactly a complete operation has a response_expire_time"},
      {"ExpiredWithRetention", Expired, [](Record& r) { r.response_expire_time = r.update_time; },
       "exactly a complete operation has a response_expire_time"},
      {"ExpiredWithResponse", Expired, [](Record& r) { r.response.bytes = Blob("x"); },
       "only a complete operation has a response"},
      {"FreedForEver", Freed, [](Record& r) { r.forget_time = Time{}; },
       "an ended or freed operation has a forget_time"},
      {"ForgottenBeforeItExpires", Complete,
       [](Record& r) { r.forget_time = r.response_expire_time - kSecond; },
       "an operation is not forgotten before its response expires"},
      {"PendingForgotten", Pending, [](Record& r) { r.forget_time = r.lease_expire_time; },
       "a pending operation has no forget_time"},
  };
}

class BrokenRecord : public testing::TestWithParam<Breakage> {};

TEST_P(BrokenRecord, IsRecognised) {
  Record record = GetParam().whole();
  GetParam().harm(record);
  EXPECT_EQ(BrokenRule(record), GetParam().rule);
}

INSTANTIATE_TEST_SUITE_P(CommonRules, BrokenRecord, testing::ValuesIn(CommonBreakages()),
                         [](const auto& breakage) { return breakage.param.name; });
INSTANTIATE_TEST_SUITE_P(StateRules, BrokenRecord, testing::ValuesIn(StateBreakages()),
                         [](const auto& breakage) { return breakage.param.name; });

struct BadChange {
  std::string name;
  Record (*before)();
  std::function<void(Record&)> change;
  std::string rule;

  friend void PrintTo(const BadChange& bad, std::ostream* out) { *out << bad.rule; }
};

// What every acquisition does.
void Acquire(Record& r) {
  r.state = State::kPending;
  ++r.token;
  r.acquire_time = r.update_time;
}

std::vector<BadChange> BadChanges() {
  return {
      {"TokenFalls", Freed, [](Record& r) { --r.token; }, "a token never falls"},
      {"ChangeNotCounted", Freed, [](Record& r) { --r.changes; }, "every change counts"},
      {"TimeRunsBackwards", Freed, [](Record& r) { r.update_time -= kSecond; },
       "time never runs backwards for a record"},
      {"AcquiredWhatIsHeld", Pending, Acquire, "nobody acquires what is held"},
      {"AcquiredAndNotPending", Freed, [](Record& r) { ++r.token; }, "an acquisition is pending"},
      {"CompleteTakenUpAgain", Complete, Acquire, "what is complete is not taken up again"},
      {"ExpiredTakenUpAgain", Expired, Acquire,
       "what has expired is taken up again only by starting over"},
      {"VerdictChanges", Complete, [](Record& r) { r.verdict = Verdict::kFailed; },
       "a verdict stands"},
  };
}

class BrokenReplacement : public testing::TestWithParam<BadChange> {};

TEST_P(BrokenReplacement, IsRecognised) {
  const Record before = GetParam().before();
  Record after = before;
  ++after.changes;
  ASSERT_EQ(BrokenRule(before, after), "");
  GetParam().change(after);
  EXPECT_EQ(BrokenRule(before, after), GetParam().rule);
}

INSTANTIATE_TEST_SUITE_P(Rules, BrokenReplacement, testing::ValuesIn(BadChanges()),
                         [](const auto& change) { return change.param.name; });

TEST(Invariants, AnAbandonedVerdictMayBeReplaced) {
  const Record before = Abandoned();
  Record after = before;
  ++after.changes;
  after.verdict = Verdict::kSucceeded;
  EXPECT_EQ(BrokenRule(before, after), "");
}

TEST(Invariants, WhatHasExpiredMayBeStartedOver) {
  const Record before = Expired();
  Record after = before;
  ++after.changes;
  Acquire(after);
  after.history.push_back(Event{.kind = EventKind::kStartedOver, .time = after.acquire_time});
  EXPECT_EQ(BrokenRule(before, after), "");
}

}  // namespace
}  // namespace idempotency::core
