// Reserve: every row of the design's table 2.2 that the core decides, and the rules under it.
// Row 1 and most of row 2 are the edge's; what it finds wrong with a new key comes as refuse=.
#include <string>
#include <vector>

#include "keystore/core/limits.h"
#include "tests/keystore/core/machine.h"
#include "tests/keystore/core/stories.h"

namespace idempotency::core {
namespace {

const std::vector<Story> kRows{
    {"Row02_WrongKeyOrNamespaceOnlyWhereNothingIsKnown", R"(
at 0 reserve a refuse=INVALID_FIELD
  error INVALID_FIELD field=id.key
at 0 reserve a refuse=NAMESPACE_NOT_FOUND
  error NAMESPACE_NOT_FOUND field=id.namespace
# It is wrong at any age.
at 0 reserve a refuse=INVALID_FIELD age=400d
  error INVALID_FIELD field=id.key
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 reserve b refuse=INVALID_FIELD
  IN_PROGRESS RESERVE_AGAIN retry=1s
at 1s complete a body=x
  COMPLETE SUCCEEDED
at 1s reserve b refuse=NAMESPACE_NOT_FOUND
  COMPLETED USE_RESPONSE SUCCEEDED body='x'
)"},
    {"Row03_MismatchWhilePending", R"(
at 0 reserve a fp=x
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s remember before
  remembered
at 1s reserve b fp=y
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=PENDING
# The same attempt_id does not help.
at 1s reserve a fp=y
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=PENDING
at 1s compare before
  unchanged
)"},
    {"Row03_MismatchWhileUnresolved", R"(
policy unknown_outcome=RERUN
at 0 reserve a fp=x
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 30s reserve b fp=y
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=UNRESOLVED
at 30s reserve b fp=y start_over
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=UNRESOLVED
)"},
    {"Row03_MismatchWithWhatHasEnded", R"(
policy retention=1h
at 0 reserve a fp=x
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 complete a body=secret
  COMPLETE SUCCEEDED
at 1s reserve b fp=y
  FINGERPRINT_MISMATCH USE_OWN_KEY state=COMPLETE
at 1h reserve b fp=y
  FINGERPRINT_MISMATCH USE_OWN_KEY state=EXPIRED
at 1h reserve b fp=y start_over
  FINGERPRINT_MISMATCH USE_OWN_KEY state=EXPIRED
)"},
    {"Row03_OtherAlgorithmsCannotBeCompared", R"(
at 0 reserve a fp=x
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 complete a body=secret
  COMPLETE SUCCEEDED
at 1s reserve b fp=jcs/x
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=COMPLETE
at 24h reserve b fp=jcs/x
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=EXPIRED
)"},
    {"Row03_AFreedKeyIsNotCompared", R"(
at 0 reserve a fp=x
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 release a
  FREED
at 1s reserve b fp=y
  ACQUIRED PROCEED token=2 attempt=1 until=31s
at 2s reserve c fp=x
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=PENDING
)"},
    {"Row04_TheSameAttemptHoldsIt", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 10s renew a lease=40s progress=half
  renewed token=1 attempt=1 until=50s progress=half
at 49s999ms remember before
  remembered
at 49s999ms reserve a lease=10m
  ALREADY_HELD PROCEED_UNLESS_STARTED token=1 attempt=1 until=50s progress=half
at 49s999ms compare before
  unchanged
)"},
    {"Row05_AnotherAttemptHoldsIt", R"(
at 0 reserve a lease=30s
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 29s reserve b
  IN_PROGRESS RESERVE_AGAIN retry=1s
at 29s1ms reserve b
  IN_PROGRESS RESERVE_AGAIN retry=999ms
at 29s999ms reserve b start_over
  IN_PROGRESS RESERVE_AGAIN retry=1ms
)"},
    {"Row06_Completed", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s complete a FAILED body=declined
  COMPLETE FAILED
at 2s remember before
  remembered
at 2s reserve b start_over
  COMPLETED USE_RESPONSE FAILED body='declined'
at 2s reserve a
  COMPLETED USE_RESPONSE FAILED body='declined'
at 2s compare before
  unchanged
)"},
    {"Row06_CompletedWithoutAnAnswer", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s complete a
  COMPLETE SUCCEEDED
at 2s reserve b
  COMPLETED USE_RESPONSE SUCCEEDED body=none
)"},
    {"Row06_TheBodyIsNotHere", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s complete a omitted body=headers_only
  COMPLETE SUCCEEDED
at 2s reserve b
  COMPLETED LOOK_UP_ANSWER SUCCEEDED body=omitted
)"},
    {"Row06_AnOperatorKnewOnlyThatItHappened", R"(
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s resolve completed
  COMPLETE SUCCEEDED body=none
at 11s reserve b
  COMPLETED LOOK_UP_ANSWER SUCCEEDED body=none
)"},
    {"Row06_Abandoned", R"(
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s resolve abandoned
  COMPLETE ABANDONED body=none
at 11s reserve b
  COMPLETED STOP ABANDONED body=none
)"},
    {"Row07_Expired", R"(
policy retention=1h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 complete a body=x
  COMPLETE SUCCEEDED
at 1h remember before
  remembered
at 1h reserve b
  EXPIRED LOOK_UP_ANSWER SUCCEEDED
at 1h compare before
  unchanged
)"},
    {"Row07_ExpiredAndAbandoned", R"(
policy retention=1h
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s resolve abandoned
  COMPLETE ABANDONED body=none
at 2h reserve b
  EXPIRED STOP ABANDONED
)"},
    {"Row08_AnAttemptIsGrantedNow", R"(
policy unknown_outcome=RERUN
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 5s renew a lease=10s progress=half
  renewed token=1 attempt=1 until=15s progress=half
at 15s reserve b lease=10s
  ACQUIRED PROCEED token=2 attempt=2 until=25s progress=half
at 25s reserve c lease=10s
  ACQUIRED PROCEED token=3 attempt=3 until=35s progress=half
)"},
    {"Row09_AnAttemptWillBeGrantedLater", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=2 backoff=10s..10s
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s mark a
  UNRESOLVED RESERVE_AGAIN retry=10s
at 5s reserve b
  UNRESOLVED RESERVE_AGAIN retry=6s cause=TIMEOUT
)"},
    {"Row09_GrantedNowButToAnotherAttempt", R"(
policy unknown_outcome=RERUN
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 5s mark a
  UNRESOLVED RESERVE_AGAIN retry=0
at 6s remember before
  remembered
at 6s reserve a
  UNRESOLVED RESERVE_AGAIN retry=0 cause=TIMEOUT
at 6s compare before
  unchanged
at 6s reserve b
  ACQUIRED PROCEED token=2 attempt=2 until=36s
)"},
    {"Row09_ItsOwnDeadLeaseSoThatItCanReport", R"(
policy unknown_outcome=RERUN
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 11s reserve a
  UNRESOLVED RESERVE_AGAIN token=1 attempt=1 until=10s retry=0 cause=LEASE_LAPSED
at 12s complete a body=x
  COMPLETE SUCCEEDED
)"},
    {"Row10_ReconcileFirst", R"(
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s reserve b
  UNRESOLVED RECONCILE_FIRST cause=LEASE_LAPSED
at 10s reserve a
  UNRESOLVED RECONCILE_FIRST token=1 attempt=1 until=10s cause=LEASE_LAPSED
# Never forgotten, never freed by time.
at 10000d reserve b
  UNRESOLVED RECONCILE_FIRST cause=LEASE_LAPSED
)"},
    {"Row11_FreedAndTheAttemptHasEnded", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s release a
  FREED
at 2s reserve a
  error ATTEMPT_FINISHED field=attempt_id
)"},
    {"Row11_FreedByALapse", R"(
at 0 reserve a lease=10s dispatch_later
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s reserve a
  error ATTEMPT_FINISHED field=attempt_id
)"},
    {"Row11_StartingOverWithAnEndedAttempt", R"(
policy retention=1h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 complete a body=x
  COMPLETE SUCCEEDED
at 1h reserve a start_over
  error ATTEMPT_FINISHED field=attempt_id
# The rule is asked only where a grant would be made.
at 1h reserve a
  EXPIRED LOOK_UP_ANSWER SUCCEEDED
)"},
    {"Row12_FreedKeyIsAcquiredAndHistoryContinues", R"(
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s renew a progress=half
  renewed token=1 attempt=1 until=31s progress=half
at 2s release a detail=no_funds
  FREED
at 3s reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=33s progress=half
at 3s history
  ACQUIRED#1@0/a RELEASED#1@2s/a/'no_funds' ACQUIRED#1@3s/b
)"},
    {"Row12_NotExecutedKeyIsAcquired", R"(
policy settle=0
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s resolve not_executed
  FREED
at 10s reserve a
  error ATTEMPT_FINISHED field=attempt_id
at 10s reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=40s
)"},
    {"Row12_StartingOver", R"(
policy retention=1h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 complete a body=x pid=req_1
  COMPLETE SUCCEEDED
at 59m59s999ms reserve b start_over
  COMPLETED USE_RESPONSE SUCCEEDED body='x'
at 1h reserve b start_over
  ACQUIRED PROCEED token=2 attempt=1 until=1h30s
at 1h show
  PENDING token=2 attempt=1 until=1h30s dispatched
at 1h history
  ACQUIRED#1@0/a COMPLETED#1@0/a/req_1 STARTED_OVER#1@1h/b ACQUIRED#1@1h/b
)"},
    {"Row13_TooOld", R"(
policy retention=1h memory=2h
at 0 reserve a age=3h1ms
  TOO_OLD RECONCILE_FIRST
at 0 show
  absent
# What is wrong is wrong; quota comes after.
at 0 reserve a age=3h1ms refuse=QUOTA_EXCEEDED
  TOO_OLD RECONCILE_FIRST
at 0 reserve a age=3h
  ACQUIRED PROCEED token=1 attempt=1 until=30s
)"},
    {"Row13_StartingOverOnTooOld", R"(
policy retention=1h memory=2h
at 0 reserve a age=400d start_over
  ACQUIRED PROCEED token=1 attempt=1 until=30s
)"},
    {"Row13_AgeIsLookedAtOnlyWhereNothingIsKnown", R"(
policy retention=1h memory=2h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s reserve b age=400d
  IN_PROGRESS RESERVE_AGAIN retry=1s
at 1s release a
  FREED
at 1s reserve b age=400d
  ACQUIRED PROCEED token=2 attempt=1 until=31s
at 1s complete b
  COMPLETE SUCCEEDED
at 3h1s reserve c age=3h1ms
  TOO_OLD RECONCILE_FIRST
)"},
    {"Row13_ZeroRetentionRemembersWhatAFreedKeyIs", R"(
policy retention=0 memory=30d
at 0 reserve a age=10m1ms
  TOO_OLD RECONCILE_FIRST
at 0 reserve a age=10m
  ACQUIRED PROCEED token=1 attempt=1 until=30s
)"},
    {"Row14_Acquired", R"(
at 0 reserve a lease=45s
  ACQUIRED PROCEED token=1 attempt=1 until=45s
at 0 show
  PENDING token=1 attempt=1 until=45s dispatched
at 0 history
  ACQUIRED#1@0/a
)"},
    {"Row14_NoRoomOnlyWhereNothingIsKnown", R"(
policy unknown_outcome=RERUN retention=1h
at 0 reserve a refuse=QUOTA_EXCEEDED
  error QUOTA_EXCEEDED retry=1s
at 0 reserve a refuse=STORE_FULL start_over
  error STORE_FULL retry=1s
at 0 show
  absent
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s reserve b lease=10s refuse=STORE_FULL
  ACQUIRED PROCEED token=2 attempt=2 until=20s
at 11s complete b
  COMPLETE SUCCEEDED
at 1h11s reserve c start_over refuse=STORE_FULL
  ACQUIRED PROCEED token=3 attempt=1 until=1h41s
at 1h11s release c
  FREED
at 1h11s reserve d refuse=STORE_FULL
  ACQUIRED PROCEED token=4 attempt=1 until=1h41s
)"},
};

class ReserveRow : public StoryTest {};
TEST_P(ReserveRow, IsAsInTheTable) { PlaysAsItSays(); }
INSTANTIATE_TEST_SUITE_P(Table22, ReserveRow, testing::ValuesIn(kRows), NameOf);

const std::vector<Story> kRules{
    {"EndedAttemptsOutliveFreeingExpiryAndReacquisition", R"(
policy retention=1h memory=24h
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 0 release a
  FREED
at 1s reserve b
  ACQUIRED PROCEED token=2 attempt=1 until=31s
at 2s complete b body=x
  COMPLETE SUCCEEDED
at 1h2s reserve a start_over
  error ATTEMPT_FINISHED field=attempt_id
at 1h2s reserve c start_over
  ACQUIRED PROCEED token=3 attempt=1 until=1h32s
at 1h2s release c
  FREED
at 1h3s reserve a
  error ATTEMPT_FINISHED field=attempt_id
at 1h3s reserve b
  error ATTEMPT_FINISHED field=attempt_id
at 1h3s reserve c
  error ATTEMPT_FINISHED field=attempt_id
# Forgotten with the key.
at 1h10m2s reserve a
  ACQUIRED PROCEED token=4 attempt=1 until=1h10m32s
)"},
    {"ACompletedKeyForgetsNoAttempt", R"(
policy retention=0
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s complete a body=x
  FREED
at 1s reserve a
  error ATTEMPT_FINISHED field=attempt_id
)"},
    {"DispatchLaterCountsForThatAttemptOnly", R"(
policy unknown_outcome=RERUN
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 10s reserve b lease=10s dispatch_later
  ACQUIRED PROCEED token=2 attempt=2 until=20s
# The operation has been dispatched, though not by this attempt.
at 10s show
  PENDING token=2 attempt=2 until=20s not_started dispatched
at 20s show
  UNRESOLVED token=2 attempt=1 cause=LEASE_LAPSED since=10s next=11s dispatched forgotten=1d10s
)"},
    {"WhoeverMarkedItReconcileFirstIsObeyedUnderRerunToo", R"(
policy unknown_outcome=RERUN
at 0 reserve a
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s mark a cause=OTHER reconcile_first
  UNRESOLVED RECONCILE_FIRST
at 1d2s reserve b
  UNRESOLVED RECONCILE_FIRST cause=OTHER
)"},
    {"UnderRerunAnUnknownIsForgottenAfterItsRetention", R"(
policy unknown_outcome=RERUN retention=3s
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 12999ms get
  UNRESOLVED PROCEED
at 13s get
  error OPERATION_NOT_FOUND
)"},
    {"AnOptionalFingerprintIsNotComparedWhereItIsMissing", R"(
policy fingerprint_optional
at 0 reserve a fp=x
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s reserve b fp=none
  IN_PROGRESS RESERVE_AGAIN retry=1s
at 1s reserve b fp=y
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=PENDING
at 2s complete a body=secret
  COMPLETE SUCCEEDED
# Known to have ended, but the answer is shown only for the request it belongs to.
at 3s reserve b fp=none
  COMPLETED LOOK_UP_ANSWER SUCCEEDED body=hidden
at 3s get fp=none
  COMPLETE USE_RESPONSE SUCCEEDED body=hidden
at 3s reserve b fp=x
  COMPLETED USE_RESPONSE SUCCEEDED body='secret'
)"},
    {"WithoutAFingerprintTheAnswerIsForEverybody", R"(
policy fingerprint_optional
at 0 reserve a fp=none
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s complete a body=x
  COMPLETE SUCCEEDED
at 2s reserve b fp=none
  COMPLETED USE_RESPONSE SUCCEEDED body='x'
at 2s reserve b fp=y
  COMPLETED USE_RESPONSE SUCCEEDED body='x'
at 2s get fp=none
  COMPLETE USE_RESPONSE SUCCEEDED body='x'
# Required since then: nobody can show that it is the same request.
policy
at 3s reserve b fp=y
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=COMPLETE
)"},
    {"AMissingFingerprintIsAMismatchWhereItIsRequired", R"(
at 0 reserve a fp=x
  ACQUIRED PROCEED token=1 attempt=1 until=30s
at 1s complete a body=secret
  COMPLETE SUCCEEDED
at 1s reserve b fp=none
  FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST state=COMPLETE
)"},
    {"GetNeverAcquiresAndSaysWhatReserveWould", R"(
policy unknown_outcome=RETRY_SAME_KEY protection=1h max_attempts=2 backoff=10s..10s retention=1h
at 0 get
  error OPERATION_NOT_FOUND
at 0 inspect
  error OPERATION_NOT_FOUND
at 0 reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=10s
at 5s get
  PENDING RESERVE_AGAIN retry=1s
at 5s get fp=y
  PENDING SETTLE_OTHER_FIRST
at 10s remember before
  remembered
at 10s get
  UNRESOLVED RESERVE_AGAIN retry=10s
at 20s get
  UNRESOLVED PROCEED
at 20s inspect
  UNRESOLVED PROCEED
at 20s compare before
  unchanged
at 21s complete a body=x
  COMPLETE SUCCEEDED
at 21s get
  COMPLETE USE_RESPONSE SUCCEEDED body='x'
at 21s get fp=y
  COMPLETE USE_OWN_KEY SUCCEEDED body=hidden
at 21s inspect
  COMPLETE USE_RESPONSE SUCCEEDED body='x'
at 1h21s get
  EXPIRED LOOK_UP_ANSWER SUCCEEDED
at 1h21s reserve b start_over
  ACQUIRED PROCEED token=2 attempt=1 until=1h51s
at 1h21s release b
  FREED
at 1h21s get
  FREED PROCEED
at 1h21s get fp=y
  FREED PROCEED
)"},
    {"ADeadHolderIsToldToComeBackWhileNobodyElseMayAct", R"(
at 0..2s reserve a lease=10s
  ACQUIRED PROCEED token=1 attempt=1 until=12s
at 11s..13s reserve a
  IN_PROGRESS RESERVE_AGAIN retry=1s
at 11s500ms..13s500ms reserve b
  IN_PROGRESS RESERVE_AGAIN retry=500ms
at 12s..14s reserve a
  UNRESOLVED RECONCILE_FIRST token=1 attempt=1 until=12s cause=LEASE_LAPSED
)"},
};

class ReserveRule : public StoryTest {};
TEST_P(ReserveRule, Holds) { PlaysAsItSays(); }
INSTANTIATE_TEST_SUITE_P(Rules, ReserveRule, testing::ValuesIn(kRules), NameOf);

ReserveCommand NewAttempt(const std::string& name) {
  ReserveCommand command;
  command.attempt_id = DigestOf(name);
  command.lease = Duration(1'000);
  return command;
}

uint64_t TokenOf(const Decision& decision) {
  const auto* answer = std::get_if<ReserveAnswer>(&decision.answer);
  return answer == nullptr || !answer->lease.has_value() ? 0 : answer->lease->token;
}

TEST(FencingToken, IsAtLeastTheFloorOfTheStore) {
  Machine machine;
  machine.set_token_floor(1'000);
  EXPECT_EQ(TokenOf(machine.Do(NewAttempt("a"))), 1'000u);
}

TEST(FencingToken, IsAboveTheRecordsOwnThoughTheFloorIsLower) {
  Machine machine;
  machine.policy().terms.unknown_outcome = UnknownOutcome::kRerun;
  machine.set_token_floor(1'000);
  machine.Do(NewAttempt("a"));
  machine.set_token_floor(7);
  machine.set_time(kStart + Duration(1'000));
  EXPECT_EQ(TokenOf(machine.Do(NewAttempt("b"))), 1'001u);
}

TEST(FencingToken, RisesAcrossDeletionForgettingAndErasure) {
  Machine machine;
  const uint64_t first = TokenOf(machine.Do(NewAttempt("a")));
  machine.set_time(kStart + Duration(1'000));
  machine.Do(DeleteCommand{.force = true});
  const uint64_t second = TokenOf(machine.Do(NewAttempt("b")));
  EXPECT_GT(second, first);
  machine.set_time(kStart + Duration(2'000));
  machine.Do(DeleteCommand{.force = true});
  machine.set_time(kStart + Duration(2'000) + kFreedMemory);
  EXPECT_EQ(machine.Do(ReclaimCommand{}).effect, Effect::kErase);
  EXPECT_TRUE(std::holds_alternative<Absent>(machine.stored()));
  EXPECT_GT(TokenOf(machine.Do(NewAttempt("c"))), second);
}

TEST(FencingToken, StaysBelowTwoToThe53) {
  Machine machine;
  machine.set_token_floor(kMaxFencingToken);
  EXPECT_EQ(TokenOf(machine.Do(NewAttempt("a"))), (uint64_t{1} << 53) - 1);
  ReleaseCommand release{.token = kMaxFencingToken};
  release.content = ContentOf(release);
  machine.Do(release);
  const Decision refused = machine.Do(NewAttempt("b"));
  EXPECT_EQ(Text(refused.answer), "error STORE_FULL");
  EXPECT_EQ(refused.effect, Effect::kKeep);

  Machine used_up;
  used_up.set_token_floor(kMaxFencingToken + 1);
  EXPECT_EQ(Text(used_up.Do(NewAttempt("a")).answer), "error STORE_FULL");
}

TEST(Labels, StayUnlessTheNextAttemptBringsItsOwn) {
  Machine machine;
  machine.policy().terms.unknown_outcome = UnknownOutcome::kRerun;
  ReserveCommand first = NewAttempt("a");
  first.labels = {{"order", "7"}};
  machine.Do(first);
  machine.set_time(kStart + Duration(1'000));
  machine.Do(NewAttempt("b"));
  EXPECT_EQ(machine.Observed()->labels, first.labels);
  machine.set_time(kStart + Duration(2'000));
  ReserveCommand third = NewAttempt("c");
  third.labels = {{"order", "8"}};
  machine.Do(third);
  EXPECT_EQ(machine.Observed()->labels, third.labels);
}

TEST(Mismatch, ShowsNeitherLeaseNorBody) {
  Machine machine;
  ReserveCommand first = NewAttempt("a");
  first.fingerprint = FingerprintOf("x");
  machine.Do(first);
  ReserveCommand other = NewAttempt("b");
  other.fingerprint = FingerprintOf("y");
  const Decision decision = machine.Do(other);
  const auto& answer = std::get<ReserveAnswer>(decision.answer);
  EXPECT_EQ(answer.outcome, ReserveOutcome::kFingerprintMismatch);
  EXPECT_FALSE(answer.lease.has_value());
  EXPECT_FALSE(answer.reveal);
  EXPECT_EQ(decision.effect, Effect::kKeep);
}

}  // namespace
}  // namespace idempotency::core
