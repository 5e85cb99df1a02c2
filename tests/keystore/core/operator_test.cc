// What operators do: resolving, deleting, reclaiming, and records that cannot be read.
#include <string>
#include <vector>

#include "tests/keystore/core/machine.h"
#include "tests/keystore/core/stories.h"

namespace idempotency::core {
namespace {

const std::vector<Story> kRules{
    {"NothingToResolve", R"(
at 0 resolve abandoned
  error OPERATION_NOT_FOUND
)"},
    {"ALiveLeaseIsNotResolved", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s resolve completed body=x
  error LEASE_LIVE retry=20s
at 10s resolve not_executed
  error LEASE_LIVE retry=20s
at 10s resolve abandoned
  error LEASE_LIVE retry=20s
)"},
    {"OnlyUnresolvedOperationsAreResolved", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s release a
  FREED
at 1s resolve abandoned
  error WRONG_STATE
at 2s reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=32s
at 3s complete b body=x
  COMPLETE SUCCEEDED
at 4s resolve completed body=y
  error WRONG_STATE
at 4s resolve abandoned
  error WRONG_STATE
at 24h3s resolve completed body=y
  error WRONG_STATE
)"},
    {"NotExecutedWaitsForTheSettleTime", R"(
policy settle=1m
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 30s resolve not_executed
  error NOT_SETTLED retry=1m
at 1m30s-1ms resolve not_executed
  error NOT_SETTLED retry=1ms
at 1m30s resolve not_executed
  FREED
)"},
    {"SettleTimeCountsFromTheEarlierOfMarkAndLeaseEnd", R"(
policy settle=1m
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s mark a
  UNRESOLVED RECONCILE_FIRST
at 1m10s-1ms resolve not_executed
  error NOT_SETTLED retry=1ms
at 1m10s resolve not_executed
  FREED
at 2m reserve b lease=30s
  ACQUIRED PROCEED token=2 attempt=1 until=2m30s
at 3m mark b
  UNRESOLVED RECONCILE_FIRST
at 3m30s-1ms resolve not_executed
  error NOT_SETTLED retry=1ms
at 3m30s resolve not_executed
  FREED
)"},
    {"TheLongerOfTheStoredAndTodaysSettleTime", R"(
policy settle=1m
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
policy settle=10s
at 1m30s-1ms resolve not_executed
  error NOT_SETTLED retry=1ms
policy settle=2m
at 1m30s resolve not_executed
  error NOT_SETTLED retry=1m
at 2m30s resolve not_executed
  FREED
)"},
    {"OtherResolutionsNeedNoSettleTime", R"(
policy settle=1h
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 30s resolve completed FAILED body=declined pid=req_1
  COMPLETE FAILED body='declined'
at 31s reserve b
  COMPLETED USE_RESPONSE FAILED body='declined'
at 31s show
  COMPLETE FAILED body='declined' token=1 attempt=1 dispatched pid=req_1 resolution=COMPLETED expires=1d30s forgotten=31d30s
)"},
    {"TheFirstResolutionStands", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 2m resolve completed body=x
  COMPLETE SUCCEEDED body='x'
at 2m remember before
  remembered
at 3m resolve completed body=y
  error WRONG_STATE
at 3m resolve not_executed
  error WRONG_STATE
at 3m resolve abandoned
  error WRONG_STATE
at 3m compare before
  unchanged
)"},
    {"NotExecutedStandsToo", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 2m resolve not_executed
  FREED
at 3m resolve completed body=x
  error WRONG_STATE
at 3m resolve abandoned
  error WRONG_STATE
)"},
    {"ARepeatIsOk", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 2m remember seen
  remembered
at 2m resolve not_executed etag=seen
  FREED
at 2m remember before
  remembered
at 3m resolve not_executed
  FREED
# It moved the etag itself.
at 3m resolve not_executed etag=seen
  FREED
at 3m compare before
  unchanged
)"},
    {"ARepeatOfCompletedIsOkAlsoOnceExpired", R"(
policy retention=1h
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1m resolve completed body=x
  COMPLETE SUCCEEDED body='x'
at 2m resolve completed body=x
  COMPLETE SUCCEEDED body='x'
at 2h resolve completed body=x
  EXPIRED SUCCEEDED
)"},
    {"CompletedReplacesAbandonedOnce", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1m resolve abandoned
  COMPLETE ABANDONED body=none
at 2m resolve not_executed
  error WRONG_STATE
at 2m resolve completed body=x
  COMPLETE SUCCEEDED body='x'
at 3m resolve completed body=y
  error WRONG_STATE
at 3m resolve abandoned
  error WRONG_STATE
at 3m resolve completed body=x
  COMPLETE SUCCEEDED body='x'
)"},
    {"CompletedReplacesAbandonedAlsoOnceExpired", R"(
policy retention=1h
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1m resolve abandoned
  COMPLETE ABANDONED body=none
at 2h resolve completed body=x
  COMPLETE SUCCEEDED body='x'
at 2h show
  COMPLETE SUCCEEDED body='x' token=1 attempt=1 dispatched resolution=COMPLETED expires=3h forgotten=30d3h
)"},
    {"WhatReplacesAbandonedIsNotForgottenSooner", R"(
policy retention=1h memory=10h
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1m resolve abandoned
  COMPLETE ABANDONED body=none
policy retention=1m memory=0
at 2m resolve completed body=x
  COMPLETE SUCCEEDED body='x'
at 2m show
  COMPLETE SUCCEEDED body='x' token=1 attempt=1 dispatched resolution=COMPLETED expires=1h1m forgotten=11h1m
)"},
    {"WhatReplacesAbandonedDoesNotFreeTheKey", R"(
policy retention=1h memory=10h
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1m resolve abandoned
  COMPLETE ABANDONED body=none
policy retention=0 memory=0
at 2h resolve completed body=x
  EXPIRED SUCCEEDED
at 2h show
  EXPIRED SUCCEEDED token=1 attempt=1 dispatched resolution=COMPLETED forgotten=11h1m
)"},
    {"AnEtagThatHasChangedIsRefused", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s remember held
  remembered
at 30s remember lapsed
  remembered
at 1m resolve abandoned etag=held
  error ETAG_MISMATCH
at 1m delete force etag=held
  error ETAG_MISMATCH
# Reading it again later is no change.
at 1m resolve abandoned etag=lapsed
  COMPLETE ABANDONED body=none
)"},
    {"EvidenceMovesTheEtag", R"(
policy unknown_outcome=RERUN
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=2 until=20s
at 20s remember seen
  remembered
at 21s complete a body=late
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 22s resolve abandoned etag=seen
  error ETAG_MISMATCH
)"},
    {"ANewAcquisitionForgetsTheResolution", R"(
policy settle=0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s resolve not_executed
  FREED
at 11s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=1 until=21s
# The old repeat is no longer one: it must not settle b's operation.
at 12s resolve not_executed
  error LEASE_LIVE retry=9s
at 21s remember lapsed
  remembered
at 21s resolve not_executed
  FREED
)"},
    {"ResolvingWithoutRetentionFrees", R"(
policy retention=0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s resolve completed body=x
  FREED
at 11s resolve completed body=x
  FREED
at 11s complete a body=x
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 11s reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=41s
)"},
    {"DeletingWhatIsNotThereIsOk", R"(
at 0 delete
  deleted
at 0 delete force
  deleted
)"},
    {"DeletingWhatHasEndedNeedsNoForce", R"(
policy retention=1h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s renew a progress=secret
  renewed token=1 attempt=1 until=31s progress=secret
at 2s complete a body=secret pid=req_1
  COMPLETE SUCCEEDED
at 3s delete
  deleted
at 3s show
  FREED token=1 attempt=1 resolution=DELETED forgotten=10m3s
at 3s history
  empty
at 4s delete
  deleted
at 4s show
  FREED token=1 attempt=1 resolution=DELETED forgotten=10m3s
at 10m3s show
  absent
)"},
    {"DeletingWhatIsOpenNeedsForce", R"(
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s delete
  error WRONG_STATE field=force
at 10s delete force
  deleted
# The owner is told that somebody settled it, and leaves its evidence.
at 11s renew a
  error STALE_FENCING_TOKEN field=fencing_token
at 11s complete a body=x pid=req_1
  error STALE_FENCING_TOKEN field=fencing_token late_completion
at 11s history
  LATE_COMPLETION#1@11s/req_1
)"},
    {"ALiveLeaseIsNotDeletedEvenWithForce", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s delete force
  error LEASE_LIVE retry=20s
)"},
    {"ADeletedKeyStillKnowsItsAttempts", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s release a
  FREED
at 2s reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=32s
at 3s complete b body=x
  COMPLETE SUCCEEDED
at 4s delete
  deleted
at 5s reserve a
  error ATTEMPT_FINISHED field=attempt_id
at 5s complete b body=x
  already FREED
at 5s release a
  FREED
at 5s reserve c fp=another
  ACQUIRED PROCEED token=3 attempt=1 until=35s
)"},
    {"AnUnreadableRecordIsNeverNew", R"(
at 0 corrupt
  corrupted
at 0 reserve a
  error RECORD_UNREADABLE
at 0 reserve a start_over refuse=STORE_FULL
  error RECORD_UNREADABLE
at 0 renew a token=1
  error RECORD_UNREADABLE
at 0 complete a token=1
  error RECORD_UNREADABLE
at 0 release a token=1
  error RECORD_UNREADABLE
at 0 mark a token=1
  error RECORD_UNREADABLE
at 0 get
  error RECORD_UNREADABLE
at 0 inspect
  error RECORD_UNREADABLE
at 0 resolve abandoned
  error RECORD_UNREADABLE
at 0 reclaim
  error RECORD_UNREADABLE
at 0 delete
  error RECORD_UNREADABLE
at 0 show
  unreadable
)"},
    {"AForcedDeleteIsItsExit", R"(
at 0 corrupt
  corrupted
at 0 delete force
  deleted
at 0 show
  absent
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
)"},
};

class OperatorRule : public StoryTest {};
TEST_P(OperatorRule, Holds) { PlaysAsItSays(); }
INSTANTIATE_TEST_SUITE_P(Rules, OperatorRule, testing::ValuesIn(kRules), NameOf);

ReserveCommand NewAttempt(const std::string& name) {
  ReserveCommand command;
  command.attempt_id = DigestOf(name);
  command.lease = Duration(1'000);
  return command;
}

TEST(Reclaim, ErasesOnlyWhatTimeHasMadeAbsent) {
  Machine machine;
  EXPECT_EQ(machine.Do(ReclaimCommand{}).effect, Effect::kKeep);
  machine.Do(NewAttempt("a"));
  EXPECT_EQ(machine.Do(ReclaimCommand{}).effect, Effect::kKeep);
  CompleteCommand complete{.token = 1};
  machine.Do(complete);
  const Time forgotten = machine.Observed()->forget_time;
  machine.set_time(forgotten - Duration(1));
  EXPECT_EQ(machine.Do(ReclaimCommand{}).effect, Effect::kKeep);
  Now doubtful = At(forgotten);
  doubtful.in_doubt = true;
  machine.set_now(doubtful);
  EXPECT_EQ(machine.Do(ReclaimCommand{}).effect, Effect::kKeep);
  machine.set_time(forgotten);
  EXPECT_EQ(machine.Do(ReclaimCommand{}).effect, Effect::kErase);
}

TEST(Delete, GivesBackTheSpaceOfWhatTimeHasMadeAbsent) {
  Machine machine;
  machine.Do(NewAttempt("a"));
  machine.Do(CompleteCommand{.token = 1});
  machine.set_time(machine.Observed()->forget_time);
  EXPECT_EQ(machine.Do(DeleteCommand{}).effect, Effect::kErase);
  EXPECT_EQ(machine.Do(DeleteCommand{}).effect, Effect::kKeep);
}

TEST(Delete, LeavesNoContent) {
  Machine machine;
  ReserveCommand reserve = NewAttempt("a");
  reserve.fingerprint = FingerprintOf("x");
  reserve.labels = {{"order", "7"}};
  reserve.owner = Owner{"worker", "order/7", "trace"};
  machine.Do(reserve);
  CompleteCommand complete{.token = 1, .provider_request_id = "req_1"};
  complete.response.bytes = Blob("secret");
  machine.Do(complete);
  machine.Do(DeleteCommand{.actor = "op", .reason = "asked"});
  const Record& left = std::get<Record>(machine.stored());
  EXPECT_EQ(left.response, Response{});
  EXPECT_EQ(left.fingerprint, Fingerprint{});
  EXPECT_EQ(left.owner, Owner{});
  EXPECT_TRUE(left.labels.empty());
  EXPECT_TRUE(left.history.empty());
  EXPECT_TRUE(left.provider_request_id.empty());
  ASSERT_EQ(left.ended.size(), 1u);
  EXPECT_EQ(left.ended[0].token, 1u);
}

TEST(Etag, NamesTokenAndChanges) {
  Record record;
  record.token = 7;
  record.changes = 3;
  EXPECT_EQ(Etag(record), "7.3");
}

}  // namespace
}  // namespace idempotency::core
