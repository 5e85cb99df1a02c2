// What time alone does: the strict end of a lease, clocks that differ or are in doubt, the end
// of retention and of every memory, to the millisecond.
#include <optional>
#include <string>
#include <vector>

#include "keystore/core/limits.h"
#include "tests/keystore/core/core_text.h"
#include "tests/keystore/core/machine.h"
#include "tests/keystore/core/stories.h"

namespace idempotency::core {
namespace {

// A lease until 30s, and what each verb is told a millisecond before, then, and after.
struct LeaseEndCase {
  const char* name;
  const char* command;
  const char* before;
  const char* after;  // at its end, and ever after
};

const std::vector<LeaseEndCase> kLeaseEnd{
    {"Renew", "renew a lease=1s", "renewed token=1 attempt=1 until=30s999ms", "error LEASE_LAPSED"},
    {"ReserveByItsHolder", "reserve a",
     "ALREADY_HELD PROCEED_UNLESS_STARTED token=1 attempt=1 until=30s",
     "UNRESOLVED RECONCILE_FIRST token=1 attempt=1 until=30s cause=LEASE_LAPSED"},
    {"ReserveByAnother", "reserve b", "IN_PROGRESS RESERVE_AGAIN retry=1ms",
     "UNRESOLVED RECONCILE_FIRST cause=LEASE_LAPSED"},
    {"Get", "get", "PENDING RESERVE_AGAIN retry=1ms", "UNRESOLVED RECONCILE_FIRST"},
    {"Resolve", "resolve abandoned", "error LEASE_LIVE retry=1ms", "COMPLETE ABANDONED body=none"},
    {"Delete", "delete", "error LEASE_LIVE retry=1ms", "error WRONG_STATE field=force"},
    {"ForcedDelete", "delete force", "error LEASE_LIVE retry=1ms", "deleted"},
    {"Complete", "complete a body=x", "COMPLETE SUCCEEDED", "COMPLETE SUCCEEDED"},
    {"Release", "release a", "FREED", "FREED"},
    {"Mark", "mark a", "UNRESOLVED RECONCILE_FIRST", "UNRESOLVED RECONCILE_FIRST"},
};

std::vector<Story> LeaseEndStories() {
  std::vector<Story> stories;
  for (const LeaseEndCase& c : kLeaseEnd) {
    for (const auto& [name, when, outcome] : {std::tuple{"_1msBefore", "30s-1ms", c.before},
                                              {"_AtTheEnd", "30s", c.after},
                                              {"_1msAfter", "30s+1ms", c.after}}) {
      stories.push_back(Story{
          std::string(c.name) + name,
          std::string("at 0 reserve a lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n") +
              "at " + when + " " + c.command + "\n " + outcome + "\n"});
    }
  }
  return stories;
}

class LeaseEnd : public StoryTest {};
TEST_P(LeaseEnd, IsStrict) { PlaysAsItSays(); }
INSTANTIATE_TEST_SUITE_P(Boundary, LeaseEnd, testing::ValuesIn(LeaseEndStories()), NameOf);

const std::vector<Story> kRules{
    {"AHolderIsDeadWhenItsLeaseMayHaveEnded", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 27s999ms..29s999ms renew a lease=1s
  renewed token=1 attempt=1 until=30s999ms
at 28s999ms..30s999ms renew a lease=1s
  error LEASE_LAPSED
at 28s999ms..30s999ms reserve a
  IN_PROGRESS RESERVE_AGAIN retry=1s
# It may still report.
at 28s999ms..30s999ms complete a body=x
  COMPLETE SUCCEEDED
)"},
    {"OthersActWhenItMustHaveEnded", R"(
policy unknown_outcome=RERUN
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 29s999ms..31s999ms reserve b
  IN_PROGRESS RESERVE_AGAIN retry=1ms
at 30s..32s reserve b
  ACQUIRED PROCEED token=2 attempt=2 until=1m2s
)"},
    {"ADeadHolderMayReleaseAndMark", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 29s..31s mark a
  UNRESOLVED RECONCILE_FIRST
# Since the end of the lease, which came before the mark.
at 29s..31s show
  UNRESOLVED token=1 attempt=1 cause=TIMEOUT since=30s next=31s dispatched
)"},
    {"TimeNeverRunsBackwardsForARecord", R"(
at 60s reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=1m30s
# Another replica, or a restart: a minute behind.
at 0 renew a lease=40s
  renewed token=1 attempt=1 until=1m40s
at 30s complete a body=x
  COMPLETE SUCCEEDED
at 0 show
  COMPLETE SUCCEEDED body='x' token=1 attempt=1 dispatched expires=1d1m forgotten=31d1m
)"},
    {"InDoubtLeasesGoOnAndNothingExpires", R"(
policy retention=1h memory=1h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s complete a body=x
  COMPLETE SUCCEEDED
at 10h doubt reserve b
  COMPLETED USE_RESPONSE SUCCEEDED body='x'
at 10h doubt reclaim
  reclaimed
at 1h1s show
  EXPIRED SUCCEEDED token=1 attempt=1 dispatched forgotten=2h1s
at 10h doubt delete
  deleted
at 10h doubt reserve b lease=30s
  ACQUIRED PROCEED token=2 attempt=1 until=10h30s
at 10h29s999ms doubt get
  PENDING RESERVE_AGAIN retry=1ms
at 10h30s doubt get
  UNRESOLVED RECONCILE_FIRST
)"},
    {"InDoubtAFreedKeyIsStillAcquired", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 release a
  FREED
at 10h doubt reserve a
  error ATTEMPT_FINISHED field=attempt_id
at 10h doubt reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=10h30s
)"},
    {"RetentionEndsToTheMillisecond", R"(
policy retention=1h memory=1h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s complete a body=x
  COMPLETE SUCCEEDED
at 1h1s-1ms reserve b
  COMPLETED USE_RESPONSE SUCCEEDED body='x'
at 1h1s reserve b
  EXPIRED LOOK_UP_ANSWER SUCCEEDED
at 2h1s-1ms reserve b
  EXPIRED LOOK_UP_ANSWER SUCCEEDED
at 2h1s reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=2h31s
)"},
    {"WithoutMemoryAKeyPastItsRetentionIsNew", R"(
policy retention=1h memory=0
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 complete a body=x
  COMPLETE SUCCEEDED
at 1h-1ms get
  COMPLETE USE_RESPONSE SUCCEEDED body='x'
at 1h get
  error OPERATION_NOT_FOUND
)"},
    {"ExpiredKeepsAllButResponseProgressAndLabels", R"(
policy retention=1h memory=1h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s renew a progress=half
  renewed token=1 attempt=1 until=31s progress=half
at 2s complete a body=x pid=req_1
  COMPLETE SUCCEEDED
at 1h show
  COMPLETE SUCCEEDED body='x' token=1 attempt=1 dispatched progress=half pid=req_1 expires=1h2s forgotten=2h2s
at 1h2s show
  EXPIRED SUCCEEDED token=1 attempt=1 dispatched pid=req_1 forgotten=2h2s
at 1h2s history
  ACQUIRED#1@0/a COMPLETED#1@2s/a/req_1
)"},
    {"ZeroRetentionFreesAtOnce", R"(
policy retention=0 memory=30d
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s renew a progress=half
  renewed token=1 attempt=1 until=31s progress=half
at 2s complete a body=x pid=req_1
  FREED
at 2s show
  FREED token=1 attempt=1 dispatched pid=req_1 forgotten=10m2s
at 10m2s-1ms complete a body=x pid=req_1
  already FREED
at 10m2s complete a body=x pid=req_1
  error OPERATION_NOT_FOUND
)"},
    {"AFreedKeyIsRememberedForTenMinutes", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s release a
  FREED
at 10m1s-1ms release a
  FREED
at 10m1s-1ms reserve a
  error ATTEMPT_FINISHED field=attempt_id
at 10m1s release a
  error OPERATION_NOT_FOUND
at 10m1s reserve a
  ACQUIRED PROCEED token=2 attempt=1 until=10m31s
)"},
    {"ALapseBeforeDispatchIsRememberedFromTheLeaseEnd", R"(
at 0 reserve a lease=30s dispatch_later
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 5m show
  FREED token=1 attempt=1 forgotten=10m30s
at 10m30s-1ms complete a body=x
  COMPLETE SUCCEEDED
at 10m30s-1ms delete
  deleted
at 1h reserve b lease=30s dispatch_later
  ACQUIRED PROCEED token=2 attempt=1 until=1h30s
at 1h10m30s complete b body=x
  error OPERATION_NOT_FOUND
)"},
    {"NotExecutedIsRememberedLikeAnEndedKey", R"(
policy settle=0 memory=30d
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s resolve not_executed
  FREED
at 30d10s-1ms complete a body=x
  COMPLETE SUCCEEDED
at 30d10s-1ms delete
  deleted
at 40d reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=1 until=40d10s
at 40d10s resolve not_executed
  FREED
at 70d10s complete b body=x
  error OPERATION_NOT_FOUND
)"},
    {"NotExecutedIsRememberedAtLeastAsLongAsFreed", R"(
policy settle=0 memory=0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s resolve not_executed
  FREED
at 10s show
  FREED token=1 attempt=1 dispatched resolution=NOT_EXECUTED forgotten=10m10s
)"},
    {"RerunForgetsAnUnresolvedOperationAfterItsRetention", R"(
policy unknown_outcome=RERUN retention=1h memory=30d
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s mark a
  UNRESOLVED RESERVE_AGAIN retry=0
at 1h10s-1ms get
  UNRESOLVED PROCEED
at 1h10s get
  error OPERATION_NOT_FOUND
at 1h10s doubt get
  UNRESOLVED RESERVE_AGAIN retry=10s
)"},
    {"RerunWithoutRetentionForgetsLikeAFreedKey", R"(
policy unknown_outcome=RERUN retention=0
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10m30s-1ms complete a body=x
  FREED
at 30m reserve b lease=30s
  ACQUIRED PROCEED token=2 attempt=1 until=30m30s
at 40m30s complete b body=x
  error OPERATION_NOT_FOUND
)"},
    {"ALateMarkUnderRerunIsRememberedFromThen", R"(
policy unknown_outcome=RERUN retention=1h
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 59m mark a
  UNRESOLVED RESERVE_AGAIN retry=0
at 59m show
  UNRESOLVED token=1 attempt=1 cause=TIMEOUT since=30s next=59m dispatched forgotten=1h59m
)"},
    {"OtherPoliciesNeverForgetWhatIsUnresolved", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=2 retention=1h memory=0
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10000d get
  UNRESOLVED RECONCILE_FIRST
at 10000d reclaim
  reclaimed
at 10000d get
  UNRESOLVED RECONCILE_FIRST
)"},
};

class TimeRule : public StoryTest {};
TEST_P(TimeRule, Holds) { PlaysAsItSays(); }
INSTANTIATE_TEST_SUITE_P(Rules, TimeRule, testing::ValuesIn(kRules), NameOf);

ReserveCommand Labelled() {
  ReserveCommand command;
  command.attempt_id = DigestOf("a");
  command.lease = Duration(1'000);
  command.labels = {{"order", "7"}};
  return command;
}

TEST(Expired, CarriesNoLabels) {
  Machine machine;
  machine.Do(Labelled());
  machine.Do(CompleteCommand{.token = 1});
  EXPECT_FALSE(machine.Observed()->labels.empty());
  machine.set_time(machine.Observed()->response_expire_time);
  EXPECT_TRUE(machine.Observed()->labels.empty());
}

TEST(Ended, CarriesNothingThatOnlyAnOpenOperationNeeds) {
  Machine machine;
  machine.policy().terms.settle = Duration(5'000);
  machine.Do(Labelled());
  EXPECT_EQ(machine.Observed()->terms, machine.policy().terms);
  machine.Do(CompleteCommand{.token = 1});
  const Record record = *machine.Observed();
  EXPECT_EQ(record.terms, Terms{});
  EXPECT_FALSE(IsSet(record.acquire_time));
  EXPECT_FALSE(IsSet(record.lease_expire_time));
}

constexpr Time Sec(int seconds) { return kStart + std::chrono::seconds(seconds); }

TEST(NotBefore, KeepsTheDoubtAsWideAsItWas) {
  const Now skewed{Sec(8), Sec(10), Sec(10), false};
  EXPECT_EQ(NotBefore(skewed, Sec(10)), skewed);
  EXPECT_EQ(NotBefore(skewed, Sec(15)), (Now{Sec(13), Sec(15), Sec(15), false}));
  EXPECT_EQ(NotBefore(At(Sec(10)), Sec(15)), At(Sec(15)));
  const Now doubtful{Sec(1), Sec(1), Sec(9'999), true};
  EXPECT_EQ(NotBefore(doubtful, Sec(5)), (Now{Sec(5), Sec(5), Sec(9'999), true}));
}

TEST(Add, SaturatesAndTakesNegativeSpansAsNothing) {
  EXPECT_EQ(Add(kStart, Duration(5)), kStart + Duration(5));
  EXPECT_EQ(Add(kStart, Duration(-5)), kStart);
  EXPECT_EQ(Add(kMaxTime, Duration(1)), kMaxTime);
  EXPECT_EQ(Add(kMaxTime - Duration(1), Duration(1)), kMaxTime);
  EXPECT_EQ(Add(kStart, Duration::max()), kMaxTime);
}

TEST(Observe, ALiveLeaseIsLeftAsItIs) {
  Record record;
  record.token = 1;
  record.update_time = kStart;
  record.lease_expire_time = Sec(30);
  EXPECT_EQ(Observe(record, At(Sec(30) - Duration(1))), record);
}

// A change that came after retention was over, while the clock was in doubt.
TEST(Observe, NeverSetsTheUpdateTimeBack) {
  Record record;
  record.state = State::kComplete;
  record.token = 1;
  record.verdict = Verdict::kSucceeded;
  record.update_time = Sec(90);
  record.response_expire_time = Sec(60);
  record.forget_time = Sec(120);
  const std::optional<Record> seen = Observe(record, At(Sec(90)));
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->state, State::kExpired);
  EXPECT_EQ(seen->update_time, Sec(90));
}

}  // namespace
}  // namespace idempotency::core
