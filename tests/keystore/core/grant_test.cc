// When an UNRESOLVED operation may be attempted again (row 8), what a retried attempt's lease
// may be, and what becomes of one that did nothing.
#include "keystore/core/grant.h"

#include <vector>

#include "keystore/core/record_edit.h"
#include "tests/keystore/core/core_text.h"
#include "tests/keystore/core/stories.h"

namespace idempotency::core {
namespace {

const std::vector<Story> kRules{
    {"ReconcileFirstNever", R"(
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s get
  UNRESOLVED RECONCILE_FIRST
at 399d get
  UNRESOLVED RECONCILE_FIRST
)"},
    {"RerunAlwaysAndAtOnce", R"(
policy unknown_outcome=RERUN backoff=1h..1h
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 9s999ms reserve b
  IN_PROGRESS RESERVE_AGAIN retry=1ms
at 10s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=2 until=20s
at 11s mark b retry_after=1h
  UNRESOLVED RESERVE_AGAIN retry=0
at 11s reserve c
  ACQUIRED PROCEED token=3 attempt=3 until=41s
)"},
    {"RetryWaitsForItsBackoffToTheMillisecond", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=9 backoff=1s..3s
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s999ms reserve b
  UNRESOLVED RESERVE_AGAIN retry=1ms cause=LEASE_LAPSED
at 11s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=2 until=21s
# Doubled.
at 22s999ms reserve c
  UNRESOLVED RESERVE_AGAIN retry=1ms cause=LEASE_LAPSED
at 23s reserve c lease=10s
  ACQUIRED PROCEED token=3 attempt=3 until=33s
# At most three seconds.
at 35s999ms reserve d
  UNRESOLVED RESERVE_AGAIN retry=1ms cause=LEASE_LAPSED
at 36s reserve d
  ACQUIRED PROCEED token=4 attempt=4 until=1m6s
)"},
    {"BackoffCountsFromTheEarlierOfMarkAndLeaseEnd", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=9 backoff=20s..20s
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s mark a
  UNRESOLVED RESERVE_AGAIN retry=20s
at 29s999ms reserve b
  UNRESOLVED RESERVE_AGAIN retry=1ms cause=TIMEOUT
at 30s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=2 until=40s
at 59s mark b
  UNRESOLVED RESERVE_AGAIN retry=1s
at 1m reserve c
  ACQUIRED PROCEED token=3 attempt=3 until=1m30s
)"},
    {"TheProvidersLongerWaitWins", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=9 backoff=20s..20s
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s mark a retry_after=1m
  UNRESOLVED RESERVE_AGAIN retry=1m
at 1m9s999ms reserve b
  UNRESOLVED RESERVE_AGAIN retry=1ms cause=TIMEOUT
at 1m10s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=2 until=1m20s
at 1m20s mark b retry_after=19s
  UNRESOLVED RESERVE_AGAIN retry=20s
)"},
    {"AttemptsAreUsedUp", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=2 backoff=0..0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=2 until=20s
at 20s reserve c
  UNRESOLVED RECONCILE_FIRST cause=LEASE_LAPSED
)"},
    {"OneAttemptIsNoRetry", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=1 backoff=0..0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s reserve b
  UNRESOLVED RECONCILE_FIRST cause=LEASE_LAPSED
)"},
    {"MarkedReconcileFirst", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=9 backoff=0..0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 1s mark a reconcile_first
  UNRESOLVED RECONCILE_FIRST
at 1m reserve b
  UNRESOLVED RECONCILE_FIRST cause=TIMEOUT
)"},
    {"TheProtectionEndsWithLessThanASecondLeft", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=0..0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 59s get
  UNRESOLVED PROCEED
at 59s1ms get
  UNRESOLVED RECONCILE_FIRST
at 59s reserve b lease=10m
  ACQUIRED PROCEED token=2 attempt=2 until=1m
at 1m reserve c
  UNRESOLVED RECONCILE_FIRST cause=LEASE_LAPSED
)"},
    {"TheProtectionIsCountedFromTheFirstAttempt", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=0..0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 50s reserve b lease=5s
  ACQUIRED PROCEED token=2 attempt=2 until=55s
at 59s1ms reserve c
  UNRESOLVED RECONCILE_FIRST cause=LEASE_LAPSED
)"},
    {"AGrantThatWouldComeTooLateIsNotPromised", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=30s..30s
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 29s mark a
  UNRESOLVED RESERVE_AGAIN retry=30s
at 59s reserve b lease=30s
  ACQUIRED PROCEED token=2 attempt=2 until=1m
at 1m complete b body=x
  COMPLETE SUCCEEDED
at 1m delete
  deleted
at 2m reserve c
  ACQUIRED PROCEED token=3 attempt=1 until=2m30s
at 2m29s1ms mark c
  UNRESOLVED RECONCILE_FIRST
)"},
    {"TheLaterOfTheGuardedAndTheWallClockDecides", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=0..0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 20s wall=59s get
  UNRESOLVED PROCEED
at 20s wall=59s1ms get
  UNRESOLVED RECONCILE_FIRST
at 59s1ms wall=20s get
  UNRESOLVED RECONCILE_FIRST
)"},
    {"WithSkewedClocksBothEndsAreTakenCarefully", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=10s..10s
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
# The backoff must be over for certain.
at 19s999ms..21s999ms get
  UNRESOLVED RESERVE_AGAIN retry=1ms
at 20s..22s get
  UNRESOLVED PROCEED
# The protection may be over.
at 57s..59s get
  UNRESOLVED PROCEED
at 57s1ms..59s1ms get
  UNRESOLVED RECONCILE_FIRST
)"},
    {"TheLatestMomentCountsThoughTheWallClockIsBehind", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=0..0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 57s..59s wall=20s get
  UNRESOLVED PROCEED
at 57s1ms..59s1ms wall=20s get
  UNRESOLVED RECONCILE_FIRST
)"},
    {"TodaysBackoffMustEndBeforeTheStoredProtection", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=1s..1s
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 9s mark a
  UNRESOLVED RESERVE_AGAIN retry=1s
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=9 backoff=50s..50s
at 10s get
  UNRESOLVED RESERVE_AGAIN retry=49s
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=9 backoff=50s1ms..50s1ms
at 10s get
  UNRESOLVED RECONCILE_FIRST
)"},
    {"InDoubtNothingIsGrantedFromUnresolved", R"(
policy unknown_outcome=RERUN
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s doubt reserve b
  UNRESOLVED RESERVE_AGAIN retry=10s cause=LEASE_LAPSED
at 10s doubt get
  UNRESOLVED RESERVE_AGAIN retry=10s
at 11s reserve b
  ACQUIRED PROCEED token=2 attempt=2 until=41s
)"},
    {"ARetriedLeaseIsCutAndRenewedPastTheEndOnlyOnceDispatched", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=0..0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 20s reserve b lease=10m dispatch_later
  ACQUIRED PROCEED token=2 attempt=2 until=1m
at 30s renew b lease=10m progress=ready
  renewed token=2 attempt=2 until=1m progress=ready
at 59s999ms renew b lease=10m dispatched
  renewed token=2 attempt=2 until=10m59s999ms progress=ready
)"},
    {"ARetriedLeaseThatHasStartedIsCutAtTheGrantAndRenewedFreely", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=0..0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 20s reserve b lease=10m
  ACQUIRED PROCEED token=2 attempt=2 until=1m
at 30s renew b lease=10m
  renewed token=2 attempt=2 until=10m30s
)"},
    {"AFirstAttemptsLeaseIsNotCut", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=0..0
at 0 reserve a lease=10m dispatch_later
  ACQUIRED PROCEED token=1 attempt=1 until=10m
at 1s renew a lease=20m
  renewed token=1 attempt=1 until=20m1s
)"},
    {"TodaysStricterPolicyCounts", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=9 backoff=1s..1s
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=9 backoff=5s..5s
at 14s999ms get
  UNRESOLVED RESERVE_AGAIN retry=1ms
at 15s reserve b lease=10m dispatch_later
  ACQUIRED PROCEED token=2 attempt=2 until=1m
at 16s renew b lease=10m
  renewed token=2 attempt=2 until=1m
at 17s release b
  UNRESOLVED
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=1 backoff=1s..1s
at 18s get
  UNRESOLVED RECONCILE_FIRST
policy unknown_outcome=RECONCILE_FIRST
at 18s get
  UNRESOLVED RECONCILE_FIRST
)"},
    {"TheStoredStricterPolicyCounts", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1m max_attempts=2 backoff=5s..5s
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
policy unknown_outcome=RERUN
at 14s999ms get
  UNRESOLVED RESERVE_AGAIN retry=1ms
at 15s reserve b lease=10m
  ACQUIRED PROCEED token=2 attempt=2 until=1m
at 16s mark b
  UNRESOLVED RECONCILE_FIRST
)"},
    {"ReleasingARetriedAttemptBringsTheEarlierUnknownBack", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=2 backoff=5s..5s
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s mark a cause=SERVER_ERROR pid=req_1 retry_after=7s
  UNRESOLVED RESERVE_AGAIN retry=7s
at 10s remember marked
  remembered
at 17s reserve b
  ACQUIRED PROCEED token=2 attempt=2 until=47s
at 18s release b
  UNRESOLVED
at 18s show
  UNRESOLVED token=2 attempt=1 cause=SERVER_ERROR since=10s next=17s dispatched pid=req_1
# It used up no attempt.
at 18s reserve c
  ACQUIRED PROCEED token=3 attempt=2 until=48s
)"},
    {"ARetriedAttemptThatLapsesBeforeDispatchBringsItBackToo", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=2 backoff=5s..5s
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s mark a cause=SERVER_ERROR
  UNRESOLVED RESERVE_AGAIN retry=5s
at 15s reserve b lease=10s dispatch_later
  ACQUIRED PROCEED token=2 attempt=2 until=25s
at 25s show
  UNRESOLVED token=2 attempt=1 cause=SERVER_ERROR since=10s next=15s dispatched
at 25s reserve c lease=10s dispatch_later
  ACQUIRED PROCEED token=3 attempt=2 until=35s
at 26s renew c dispatched lease=10s
  renewed token=3 attempt=2 until=36s
at 36s show
  UNRESOLVED token=3 attempt=2 cause=LEASE_LAPSED since=36s next=41s dispatched
)"},
    {"SeveralRetriesThatDidNothingStillBringBackTheFirst", R"(
policy unknown_outcome=RERUN
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s reserve b lease=10s dispatch_later
  ACQUIRED PROCEED token=2 attempt=2 until=20s
at 20s reserve c
  ACQUIRED PROCEED token=3 attempt=2 until=50s
at 21s release c
  UNRESOLVED
at 21s show
  UNRESOLVED token=3 attempt=1 cause=LEASE_LAPSED since=10s next=11s dispatched forgotten=1d10s
)"},
    {"AnOperatorMaySettleWhatARetryGaveBack", R"(
policy unknown_outcome=RERUN settle=1m
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 20s reserve b
  ACQUIRED PROCEED token=2 attempt=2 until=50s
at 30s release b
  UNRESOLVED
at 1m9s999ms resolve not_executed
  error NOT_SETTLED retry=1ms
at 1m10s resolve not_executed
  FREED
)"},
};

class GrantRule : public StoryTest {};
TEST_P(GrantRule, Holds) { PlaysAsItSays(); }
INSTANTIATE_TEST_SUITE_P(Rules, GrantRule, testing::ValuesIn(kRules), NameOf);

TEST(Backoff, DoublesUpToItsMaximumAndNeverOverflows) {
  Terms terms;
  terms.initial_backoff = Duration(1'000);
  terms.max_backoff = Duration(300'000);
  EXPECT_EQ(Backoff(terms, 1), Duration(1'000));
  EXPECT_EQ(Backoff(terms, 2), Duration(2'000));
  EXPECT_EQ(Backoff(terms, 9), Duration(256'000));
  EXPECT_EQ(Backoff(terms, 10), Duration(300'000));
  EXPECT_EQ(Backoff(terms, 4'000'000'000), Duration(300'000));
  terms.max_backoff = kMaxPolicyDuration;
  EXPECT_EQ(Backoff(terms, 4'000'000'000), kMaxPolicyDuration);
}

TEST(Backoff, OfNothingIsNothing) {
  Terms terms;
  terms.initial_backoff = Duration::zero();
  EXPECT_EQ(Backoff(terms, 4'000'000'000), Duration::zero());
}

TEST(Backoff, AMaximumBelowTheFirstIsTheMaximum) {
  Terms terms;
  terms.initial_backoff = Duration(5'000);
  terms.max_backoff = Duration(2'000);
  EXPECT_EQ(Backoff(terms, 1), Duration(2'000));
}

TEST(ProtectionExpireTime, IsSetOnlyWhereTheTermsCountOnIt) {
  Record record;
  record.create_time = kStart;
  record.terms.protection_window = Duration(60'000);
  EXPECT_FALSE(IsSet(ProtectionExpireTime(record)));
  record.terms.unknown_outcome = UnknownOutcome::kRetrySameKey;
  EXPECT_EQ(ProtectionExpireTime(record), kStart + Duration(60'000));
}

}  // namespace
}  // namespace idempotency::core
