// The owner's verbs: every cell of the design's table 2.3, the checks before it and the rules
// under it.
#include <string>
#include <vector>

#include "keystore/core/limits.h"
#include "tests/keystore/core/machine.h"
#include "tests/keystore/core/stories.h"

namespace idempotency::core {
namespace {

// How attempt `a` comes to stand in a column of the table, by second 60.
struct Column {
  const char* name;
  const char* setup;
};

constexpr Column kLive{"Live",
                       "at 0 reserve a lease=2m\n ACQUIRED PROCEED token=1 attempt=1 until=2m\n"};
constexpr Column kLiveRetried{
    "LiveRetried",
    "policy unknown_outcome=RERUN\n"
    "at 0 reserve z lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"
    "at 30s reserve a lease=2m\n ACQUIRED PROCEED token=2 attempt=2 until=2m30s\n"};
constexpr Column kLapsed{
    "Lapsed", "at 0 reserve a lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"};
constexpr Column kLapsedFreed{
    "LapsedFreed",
    "at 0 reserve a lease=30s dispatch_later\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"};
constexpr Column kLapsedRetried{
    "LapsedRetried",
    "policy unknown_outcome=RERUN\n"
    "at 0 reserve z lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"
    "at 30s reserve a lease=20s\n ACQUIRED PROCEED token=2 attempt=2 until=50s\n"};
constexpr Column kMarked{"Marked",
                         "at 0 reserve a lease=2m\n ACQUIRED PROCEED token=1 attempt=1 until=2m\n"
                         "at 10s mark a cause=TIMEOUT\n UNRESOLVED RECONCILE_FIRST\n"};
constexpr Column kComplete{"Complete",
                           "at 0 reserve a lease=2m\n ACQUIRED PROCEED token=1 attempt=1 until=2m\n"
                           "at 10s complete a body=done\n COMPLETE SUCCEEDED\n"};
constexpr Column kExpired{"Expired",
                          "policy retention=20s\n"
                          "at 0 reserve a lease=2m\n ACQUIRED PROCEED token=1 attempt=1 until=2m\n"
                          "at 10s complete a body=done\n COMPLETE SUCCEEDED\n"};
constexpr Column kFreedByCompletion{
    "FreedByCompletion",
    "policy retention=0\n"
    "at 0 reserve a lease=2m\n ACQUIRED PROCEED token=1 attempt=1 until=2m\n"
    "at 10s complete a body=done\n FREED\n"};
constexpr Column kResolvedCompleted{
    "ResolvedCompleted",
    "at 0 reserve a lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"
    "at 40s resolve completed body=found\n COMPLETE SUCCEEDED body='found'\n"};
constexpr Column kResolvedAbandoned{
    "ResolvedAbandoned",
    "at 0 reserve a lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"
    "at 40s resolve abandoned\n COMPLETE ABANDONED body=none\n"};
constexpr Column kDeleted{
    "Deleted",
    "at 0 reserve a lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"
    "at 40s delete force\n deleted\n"};
constexpr Column kNotExecuted{
    "NotExecuted",
    "policy settle=10s\n"
    "at 0 reserve a lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"
    "at 40s resolve not_executed\n FREED\n"};
constexpr Column kReleased{"Released",
                           "at 0 reserve a lease=2m\n ACQUIRED PROCEED token=1 attempt=1 until=2m\n"
                           "at 10s release a\n FREED\n"};
constexpr Column kReleasedRetried{
    "ReleasedRetried",
    "policy unknown_outcome=RERUN\n"
    "at 0 reserve z lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"
    "at 30s reserve a lease=2m\n ACQUIRED PROCEED token=2 attempt=2 until=2m30s\n"
    "at 40s release a\n UNRESOLVED\n"};
constexpr Column kOlder{
    "Older",
    "policy unknown_outcome=RERUN\n"
    "at 0 reserve a lease=30s\n ACQUIRED PROCEED token=1 attempt=1 until=30s\n"
    "at 30s reserve b lease=2m\n ACQUIRED PROCEED token=2 attempt=2 until=2m30s\n"};

struct Cell {
  const Column& column;
  const char* verb;
  const char* command;
  const char* answer;
  const char* then;  // "changed" or "unchanged"
};

constexpr char kStale[] = "error STALE_FENCING_TOKEN field=fencing_token";
constexpr char kEvidence[] = "error STALE_FENCING_TOKEN field=fencing_token late_completion";
constexpr char kLeaseLapsed[] = "error LEASE_LAPSED";
constexpr char kAlreadyComplete[] = "error ALREADY_COMPLETE";
constexpr char kFinished[] = "error ATTEMPT_FINISHED";

const std::vector<Cell> kCells{
    {kLive, "Renew", "renew a lease=90s", "renewed token=1 attempt=1 until=2m30s", "changed"},
    {kLapsed, "Renew", "renew a", kLeaseLapsed, "unchanged"},
    {kLapsedFreed, "Renew", "renew a", kLeaseLapsed, "unchanged"},
    {kMarked, "Renew", "renew a", kLeaseLapsed, "unchanged"},
    {kComplete, "Renew", "renew a", kAlreadyComplete, "unchanged"},
    {kExpired, "Renew", "renew a", kAlreadyComplete, "unchanged"},
    {kFreedByCompletion, "Renew", "renew a", kAlreadyComplete, "unchanged"},
    {kResolvedCompleted, "Renew", "renew a", kStale, "unchanged"},
    {kResolvedAbandoned, "Renew", "renew a", kStale, "unchanged"},
    {kDeleted, "Renew", "renew a", kStale, "unchanged"},
    {kNotExecuted, "Renew", "renew a", kLeaseLapsed, "unchanged"},
    {kReleased, "Renew", "renew a", kLeaseLapsed, "unchanged"},
    {kReleasedRetried, "Renew", "renew a", kLeaseLapsed, "unchanged"},
    {kOlder, "Renew", "renew a", kStale, "unchanged"},

    {kLive, "Complete", "complete a body=done", "COMPLETE SUCCEEDED", "changed"},
    {kLapsed, "Complete", "complete a body=done", "COMPLETE SUCCEEDED", "changed"},
    {kLapsedFreed, "Complete", "complete a body=done", "COMPLETE SUCCEEDED", "changed"},
    {kLapsedRetried, "Complete", "complete a body=done", "COMPLETE SUCCEEDED", "changed"},
    {kMarked, "Complete", "complete a FAILED body=no", "COMPLETE FAILED", "changed"},
    {kComplete, "CompleteSame", "complete a body=done", "already COMPLETE SUCCEEDED", "unchanged"},
    {kComplete, "CompleteOther", "complete a body=other", kAlreadyComplete, "unchanged"},
    {kComplete, "CompleteOtherVerdict", "complete a FAILED body=done", kAlreadyComplete,
     "unchanged"},
    {kExpired, "CompleteSame", "complete a body=done", "already EXPIRED SUCCEEDED", "unchanged"},
    {kExpired, "CompleteOther", "complete a body=other", kAlreadyComplete, "unchanged"},
    {kFreedByCompletion, "CompleteSame", "complete a body=done", "already FREED", "unchanged"},
    {kFreedByCompletion, "CompleteOther", "complete a body=other", kAlreadyComplete, "unchanged"},
    {kResolvedCompleted, "Complete", "complete a body=found", kEvidence, "changed"},
    {kResolvedAbandoned, "Complete", "complete a body=done", kEvidence, "changed"},
    {kDeleted, "Complete", "complete a body=done", kEvidence, "changed"},
    {kNotExecuted, "Complete", "complete a body=done", "COMPLETE SUCCEEDED", "changed"},
    {kReleased, "Complete", "complete a body=done", kFinished, "unchanged"},
    {kReleasedRetried, "Complete", "complete a body=done", kFinished, "unchanged"},
    {kOlder, "Complete", "complete a body=done", kEvidence, "changed"},

    {kLive, "Release", "release a", "FREED", "changed"},
    {kLiveRetried, "Release", "release a", "UNRESOLVED", "changed"},
    {kLapsed, "Release", "release a", "FREED", "changed"},
    {kLapsedFreed, "Release", "release a", "FREED", "changed"},
    {kLapsedRetried, "Release", "release a", "UNRESOLVED", "changed"},
    {kMarked, "Release", "release a", "error OUTCOME_UNKNOWN", "unchanged"},
    {kComplete, "Release", "release a", kAlreadyComplete, "unchanged"},
    {kExpired, "Release", "release a", kAlreadyComplete, "unchanged"},
    {kFreedByCompletion, "Release", "release a", kAlreadyComplete, "unchanged"},
    {kResolvedCompleted, "Release", "release a", kStale, "unchanged"},
    {kResolvedAbandoned, "Release", "release a", kStale, "unchanged"},
    {kDeleted, "Release", "release a", kStale, "unchanged"},
    {kNotExecuted, "Release", "release a", kStale, "unchanged"},
    {kReleased, "Release", "release a", "FREED", "unchanged"},
    {kReleased, "ReleaseOtherDetail", "release a detail=again", "FREED", "unchanged"},
    {kReleasedRetried, "Release", "release a", "UNRESOLVED", "unchanged"},
    {kReleasedRetried, "ReleaseOtherDetail", "release a detail=again", "UNRESOLVED", "unchanged"},
    {kOlder, "Release", "release a", kStale, "unchanged"},

    {kLive, "Mark", "mark a", "UNRESOLVED RECONCILE_FIRST", "changed"},
    {kLapsed, "Mark", "mark a", "UNRESOLVED RECONCILE_FIRST", "changed"},
    {kLapsedFreed, "Mark", "mark a", "UNRESOLVED RECONCILE_FIRST", "changed"},
    {kLapsedRetried, "Mark", "mark a", "UNRESOLVED RESERVE_AGAIN retry=0", "changed"},
    {kMarked, "Mark", "mark a", "UNRESOLVED RECONCILE_FIRST", "unchanged"},
    {kMarked, "MarkOtherCause", "mark a cause=OTHER", "UNRESOLVED RECONCILE_FIRST", "unchanged"},
    {kComplete, "Mark", "mark a", kAlreadyComplete, "unchanged"},
    {kExpired, "Mark", "mark a", kAlreadyComplete, "unchanged"},
    {kFreedByCompletion, "Mark", "mark a", kAlreadyComplete, "unchanged"},
    {kResolvedCompleted, "Mark", "mark a", kStale, "unchanged"},
    {kResolvedAbandoned, "Mark", "mark a", kStale, "unchanged"},
    {kDeleted, "Mark", "mark a", kStale, "unchanged"},
    {kNotExecuted, "Mark", "mark a", kStale, "unchanged"},
    {kReleased, "Mark", "mark a", kFinished, "unchanged"},
    {kReleasedRetried, "Mark", "mark a", kFinished, "unchanged"},
    {kOlder, "Mark", "mark a", kStale, "unchanged"},
};

std::vector<Story> CellStories() {
  std::vector<Story> stories;
  for (const Cell& cell : kCells) {
    stories.push_back(Story{std::string(cell.verb) + "_" + cell.column.name,
                            std::string(cell.column.setup) +
                                "at 60s remember before\n remembered\n" + "at 60s " + cell.command +
                                "\n " + cell.answer + "\n" + "at 60s compare before\n " +
                                cell.then + "\n"});
  }
  return stories;
}

class OwnersVerbCell : public StoryTest {};
TEST_P(OwnersVerbCell, IsAsInTheTable) { PlaysAsItSays(); }
INSTANTIATE_TEST_SUITE_P(Table23, OwnersVerbCell, testing::ValuesIn(CellStories()), NameOf);

const std::vector<Story> kRules{
    {"TokenZeroIsAnInvalidField", R"(
at 0 renew a token=0
  error INVALID_FIELD field=fencing_token
at 0 complete a token=0
  error INVALID_FIELD field=fencing_token
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 release a token=0
  error INVALID_FIELD field=fencing_token
at 0 mark a token=0
  error INVALID_FIELD field=fencing_token
)"},
    {"NoRecordIsNotFound", R"(
at 0 renew a token=1
  error OPERATION_NOT_FOUND
at 0 complete a token=1
  error OPERATION_NOT_FOUND
at 0 release a token=1
  error OPERATION_NOT_FOUND
at 0 mark a token=1
  error OPERATION_NOT_FOUND
)"},
    {"ATokenAboveTheNewestIsUnknown", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 remember before
  remembered
at 0 renew a token=2
  error UNKNOWN_FENCING_TOKEN field=fencing_token
at 0 complete a token=2
  error UNKNOWN_FENCING_TOKEN field=fencing_token
at 0 release a token=2
  error UNKNOWN_FENCING_TOKEN field=fencing_token
at 0 mark a token=2
  error UNKNOWN_FENCING_TOKEN field=fencing_token
at 0 compare before
  unchanged
)"},
    {"AnExactRepeatIsOkThoughSuperseded", R"(
policy unknown_outcome=RERUN retention=10s memory=1h settle=0
at 0 reserve completed
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 complete completed body=done
  COMPLETE SUCCEEDED
at 10s reserve released start_over
  ACQUIRED PROCEED token=2 attempt=1 until=40s
at 10s release released
  FREED
at 11s reserve marked
  ACQUIRED PROCEED token=3 attempt=1 until=41s
at 12s mark marked
  UNRESOLVED RESERVE_AGAIN retry=0
at 13s reserve given_back
  ACQUIRED PROCEED token=4 attempt=2 until=43s
at 13s release given_back
  UNRESOLVED
at 14s reserve newest
  ACQUIRED PROCEED token=5 attempt=2 until=44s
at 15s remember before
  remembered
at 15s complete completed body=done
  already PENDING
at 15s release released
  FREED
at 15s mark marked
  PENDING RESERVE_AGAIN retry=1s
at 15s release given_back
  UNRESOLVED
at 15s compare before
  unchanged
)"},
    {"AnExactRepeatOfAMarkIsOkAfterAResolution", R"(
policy settle=0
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s mark a
  UNRESOLVED RECONCILE_FIRST
at 2s resolve completed body=found
  COMPLETE SUCCEEDED body='found'
at 3s mark a
  COMPLETE LOOK_UP_ANSWER
at 3s mark a cause=OTHER
  error STALE_FENCING_TOKEN field=fencing_token
)"},
    {"RenewIsTheLaterOfOldAndNew", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s renew a lease=19s999ms
  renewed token=1 attempt=1 until=30s
at 10s renew a lease=20s
  renewed token=1 attempt=1 until=30s
at 10s renew a lease=20s1ms
  renewed token=1 attempt=1 until=30s1ms
)"},
    {"RenewNeverReachesPastTheLongestHold", R"(
policy max_hold=1m
at 0 reserve a lease=2m
  ACQUIRED PROCEED token=1 attempt=1 until=1m
at 30s renew a lease=2m
  renewed token=1 attempt=1 until=1m
# A lower limit set meanwhile takes nothing back.
policy max_hold=40s
at 30s renew a lease=2m
  renewed token=1 attempt=1 until=1m
policy max_hold=2m
at 30s renew a lease=2m
  renewed token=1 attempt=1 until=2m
)"},
    {"ARepeatedRenewChangesNothing", R"(
at 0 reserve a dispatch_later
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s renew a dispatched progress=half worker=pod_1
  renewed token=1 attempt=1 until=31s progress=half
at 1s remember before
  remembered
at 1s renew a dispatched progress=half worker=pod_1
  renewed token=1 attempt=1 until=31s progress=half
at 1s compare before
  unchanged
at 1s renew a progress=whole
  renewed token=1 attempt=1 until=31s progress=whole
at 1s compare before
  changed
)"},
    {"ProgressUnsetKeepsWhatIsThere", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s renew a progress=half
  renewed token=1 attempt=1 until=31s progress=half
at 2s renew a
  renewed token=1 attempt=1 until=32s progress=half
)"},
    {"DispatchedNeverGoesBack", R"(
at 0 reserve a dispatch_later
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s renew a dispatched
  renewed token=1 attempt=1 until=31s
at 2s renew a
  renewed token=1 attempt=1 until=32s
at 32s show
  UNRESOLVED token=1 attempt=1 cause=LEASE_LAPSED since=32s next=33s dispatched
)"},
    {"ADispatchIsNotedUnderTheOwnerItNames", R"(
at 0 reserve a dispatch_later
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s renew a dispatched worker=run_7
  renewed token=1 attempt=1 until=31s
at 1s history
  ACQUIRED#1@0/a DISPATCHED#1@1s/run_7
)"},
    {"TheCauseOfALateMarkReplacesTheLapseOnce", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1m mark a cause=SERVER_ERROR pid=req_1
  UNRESOLVED RECONCILE_FIRST
at 1m show
  UNRESOLVED token=1 attempt=1 cause=SERVER_ERROR since=30s next=1m dispatched pid=req_1
at 2m mark a cause=TIMEOUT pid=req_2
  UNRESOLVED RECONCILE_FIRST
at 2m show
  UNRESOLVED token=1 attempt=1 cause=SERVER_ERROR since=30s next=1m dispatched pid=req_1
)"},
    {"AMarkBeforeTheLeaseEndsCountsFromTheMark", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s mark a retry_after=1m
  UNRESOLVED RECONCILE_FIRST
at 40s show
  UNRESOLVED token=1 attempt=1 cause=TIMEOUT since=10s next=1m10s dispatched
)"},
    {"EvidenceIsNotedOnceAToken", R"(
policy unknown_outcome=RERUN
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=2 until=20s
at 20s reserve c
  ACQUIRED PROCEED token=3 attempt=3 until=50s
at 21s complete a pid=req_1
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 21s remember before
  remembered
# The same again, and other content from the same owner.
at 22s complete a pid=req_1
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 22s complete a pid=req_3
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 22s compare before
  unchanged
at 23s complete b pid=req_2
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 23s history
  ACQUIRED#1@0/a LEASE_LAPSED#1@10s/a ACQUIRED#2@10s/b LEASE_LAPSED#2@20s/b ACQUIRED#3@20s/c LATE_COMPLETION#1@21s/req_1 LATE_COMPLETION#2@23s/req_2
)"},
    {"ALateReportDoesNotEndANewerLeaseEarly", R"(
policy unknown_outcome=RERUN
at 0..2s reserve a lease=8s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s..12s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=2 until=22s
at 21s..23s complete a
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 21s..23s reserve c
  IN_PROGRESS RESERVE_AGAIN retry=1s
at 22s..24s reserve c
  ACQUIRED PROCEED token=3 attempt=3 until=54s
)"},
    {"TheOwnersTruthReplacesNotExecuted", R"(
policy settle=0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s resolve not_executed
  FREED
at 11s complete a body=done
  COMPLETE SUCCEEDED
at 11s show
  COMPLETE SUCCEEDED body='done' token=1 attempt=1 dispatched expires=1d11s forgotten=31d11s
)"},
    {"RetentionIsLengthenedAndClampedNeverShortened", R"(
policy retention=1h max_retention=2h memory=1h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 complete a body=x retention=1m
  COMPLETE SUCCEEDED
at 0 show
  COMPLETE SUCCEEDED body='x' token=1 attempt=1 dispatched expires=1h forgotten=2h
at 2h reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=2h30s
at 2h complete b body=x retention=1h30m
  COMPLETE SUCCEEDED
at 2h show
  COMPLETE SUCCEEDED body='x' token=2 attempt=1 dispatched expires=3h30m forgotten=4h30m
at 5h reserve c
  ACQUIRED PROCEED token=3 attempt=1 until=5h30s
at 5h complete c body=x retention=3h
  COMPLETE SUCCEEDED
at 5h show
  COMPLETE SUCCEEDED body='x' token=3 attempt=1 dispatched expires=7h forgotten=8h
)"},
    {"ALaterPolicyDoesNotShortenWhatWasStored", R"(
policy retention=1h memory=1h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 complete a body=x
  COMPLETE SUCCEEDED
policy retention=0 memory=0
at 59m59s999ms reserve b
  COMPLETED USE_RESPONSE SUCCEEDED body='x'
at 1h reserve b
  EXPIRED LOOK_UP_ANSWER SUCCEEDED
at 1h59m59s999ms reserve b
  EXPIRED LOOK_UP_ANSWER SUCCEEDED
at 2h reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=2h30s
)"},
    {"ARetryThatDidNothingIsNotForgottenWithItsReply", R"(
policy unknown_outcome=RERUN retention=1h
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 59m reserve b lease=10m
  ACQUIRED PROCEED token=2 attempt=2 until=1h9m
# What a left behind is an hour old and would be forgotten; b has only just reported.
at 1h1m release b
  UNRESOLVED
at 1h1m1s release b
  UNRESOLVED
at 1h10m59s999ms show
  UNRESOLVED token=2 attempt=1 cause=LEASE_LAPSED since=10s next=11s dispatched forgotten=1h11m
at 1h11m show
  absent
)"},
    {"ARetryThatNeverBeganIsNotForgottenAtOnce", R"(
policy unknown_outcome=RERUN retention=1h
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 59m reserve b lease=10m dispatch_later
  ACQUIRED PROCEED token=2 attempt=2 until=1h9m
at 1h9m1s complete b body=x
  COMPLETE SUCCEEDED
)"},
    {"TheProvidersIdIsTheLastOneReported", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s mark a pid=req_1
  UNRESOLVED RECONCILE_FIRST
at 2s complete a body=x
  COMPLETE SUCCEEDED
at 2s show
  COMPLETE SUCCEEDED body='x' token=1 attempt=1 dispatched pid=req_1 expires=1d2s forgotten=31d2s
)"},
};

class OwnersVerbRule : public StoryTest {};
TEST_P(OwnersVerbRule, Holds) { PlaysAsItSays(); }
INSTANTIATE_TEST_SUITE_P(Rules, OwnersVerbRule, testing::ValuesIn(kRules), NameOf);

// Nine attempts, each ended by a lapse and followed by another.
std::string NineAttempts() {
  std::string story = "policy unknown_outcome=RERUN\n";
  for (int i = 1; i <= 10; ++i) {
    const std::string n = std::to_string(i);
    story += "at " + n + "0s reserve a" + n + " lease=10s\n ACQUIRED PROCEED token=" + n +
             " attempt=" + n + " until=" + Text((i + 1) * Duration(10'000)) + "\n";
  }
  return story;
}

TEST(EndedAttempts, TheNinthEvictsTheFirst) {
  // Nine have ended, the tenth is held: the first is no longer told from what never was.
  EXPECT_EQ(Play(NineAttempts() + R"(
at 101s complete a2
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 101s remember before
  remembered
at 101s complete a1
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 101s compare before
  unchanged
at 102s release a10
  UNRESOLVED
# a2 to a9 had ended; with a10, a2 has gone, too.
at 103s reserve a3
  UNRESOLVED RESERVE_AGAIN retry=0 cause=LEASE_LAPSED
at 103s reserve a2 lease=10s
  ACQUIRED PROCEED token=11 attempt=10 until=1m53s
)"),
            "");
}

TEST(EndedAttempts, KeepEightAndTheirOrder) {
  Machine machine;
  machine.policy().terms.unknown_outcome = UnknownOutcome::kRerun;
  for (int i = 0; i < 12; ++i) {
    machine.set_time(kStart + i * Duration(10'000));
    ReserveCommand reserve;
    reserve.attempt_id = DigestOf(std::to_string(i));
    reserve.lease = Duration(10'000);
    machine.Do(reserve);
  }
  machine.set_time(kStart + 12 * Duration(10'000));
  const std::optional<Record> record = machine.Observed();
  ASSERT_TRUE(record.has_value());
  ASSERT_EQ(record->ended.size(), kMaxEndedAttempts);
  EXPECT_EQ(record->ended.front().token, 5u);
  EXPECT_EQ(record->ended.back().token, 12u);
  EXPECT_EQ(record->history.size(), kMaxHistoryEvents);
  EXPECT_EQ(record->history.front().kind, EventKind::kAcquired);
  EXPECT_EQ(record->history.front().time, kStart);
  EXPECT_EQ(record->history.back().kind, EventKind::kLeaseLapsed);
}

}  // namespace
}  // namespace idempotency::core
