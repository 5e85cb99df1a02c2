// What leaves: answers as messages, refusals as errors.
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "keystore/core/transition.h"
#include "service/conversion.h"
#include "service/error_table.h"
#include "service/response.h"
#include "service/sentences.h"
#include "service/wire_time.h"
#include "tests/service/edge/requests.h"

namespace idempotency::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr core::Time kNow{milliseconds(1'800'000'000'000)};

int64_t MillisOf(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1000 + time.nanos() / 1'000'000;
}
int64_t MillisOf(core::Time time) { return time.time_since_epoch().count(); }

core::Record Pending() {
  core::Record record;
  record.state = core::State::kPending;
  record.token = 42;
  record.attempt = 2;
  record.changes = 3;
  record.fingerprint = {"sha256/jcs-1", std::string(32, 'd')};
  record.owner = {"pod-1", "run-1", "trace"};
  record.labels = {{"team", "billing"}};
  record.progress = "halfway";
  record.create_time = kNow - seconds(10);
  record.update_time = kNow - seconds(5);
  record.acquire_time = kNow - seconds(5);
  record.lease_expire_time = kNow + seconds(25);
  record.dispatched = true;
  record.history = {core::Event{core::EventKind::kAcquired, kNow - seconds(10), 1, "pod-0"}};
  return record;
}

core::Record Complete() {
  core::Record record = Pending();
  record.state = core::State::kComplete;
  record.verdict = core::Verdict::kSucceeded;
  record.provider_request_id = "req_1";
  v1::CachedResponse response;
  response.set_http_status(200);
  response.set_body("body");
  record.response = StoreResponse(response, 100);
  record.complete_time = kNow - seconds(1);
  record.response_expire_time = kNow + seconds(100);
  record.forget_time = kNow + seconds(1000);
  return record;
}

core::Record Unresolved() {
  core::Record record = Pending();
  record.state = core::State::kUnresolved;
  record.unknown = core::Unknown{.cause = core::UnresolvedCause::kTimeout,
                                 .attempt = 2,
                                 .since = kNow - seconds(2),
                                 .next_attempt_time = kNow + seconds(3)};
  return record;
}

core::RecordPtr Share(core::Record record) {
  return std::make_shared<const core::Record>(std::move(record));
}

const core::Key& Key() {
  static const core::Key key{"payments", "acct-1", "order-1"};
  return key;
}

AnswerContext Context(const core::Policy& policy = {}) {
  static core::Policy kept;
  kept = policy;
  return AnswerContext{Key(), kept};
}

keystore::Reply ReplyOf(core::Answer answer) { return keystore::Reply{std::move(answer), kNow}; }

v1::ReserveResponse Reserved(core::ReserveAnswer answer) {
  v1::ReserveResponse response;
  EXPECT_EQ(FillResponse(ReplyOf(std::move(answer)), Context(), &response), std::nullopt);
  return response;
}

// --- Answers ------------------------------------------------------------------------------------

TEST(ReserveResponseTest, OfAnAcquisition) {
  const core::RecordPtr record = Share(Pending());
  const v1::ReserveResponse response = Reserved(core::ReserveAnswer{
      .outcome = core::ReserveOutcome::kAcquired,
      .next_step = core::NextStep::kProceed,
      .lease = core::Lease{42, kNow + seconds(25), 2, "halfway"},
      .operation = record,
  });
  EXPECT_EQ(response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(response.next_step(), v1::NEXT_STEP_PROCEED);
  EXPECT_EQ(response.lease().fencing_token(), 42u);
  EXPECT_EQ(response.lease().remaining().seconds(), 25);
  EXPECT_EQ(MillisOf(response.lease().expire_time()), MillisOf(kNow + seconds(25)));
  EXPECT_EQ(response.lease().attempt(), 2u);
  EXPECT_EQ(response.lease().progress(), "halfway");
  EXPECT_EQ(MillisOf(response.server_time()), MillisOf(kNow));
  EXPECT_FALSE(response.detail().empty());
  const v1::Operation& operation = response.operation();
  EXPECT_EQ(operation.id().SerializeAsString(), ValidId().SerializeAsString());
  EXPECT_EQ(operation.state(), v1::OPERATION_STATE_PENDING);
  EXPECT_EQ(operation.owner().operation_ref(), "run-1");
  EXPECT_EQ(operation.labels().at("team"), "billing");
  EXPECT_EQ(operation.etag(), core::Etag(*record));
  EXPECT_TRUE(operation.has_lease_expire_time());
  EXPECT_TRUE(operation.dispatched());
  EXPECT_EQ(operation.fingerprint().algorithm(), "sha256/jcs-1");
  EXPECT_EQ(operation.fingerprint().digest(), "");
  EXPECT_EQ(operation.history_size(), 0);
}

TEST(ReserveResponseTest, NeverHasLessThanNothingLeft) {
  const v1::ReserveResponse response = Reserved(core::ReserveAnswer{
      .outcome = core::ReserveOutcome::kUnresolved,
      .next_step = core::NextStep::kReconcileFirst,
      .lease = core::Lease{42, kNow - seconds(1), 2, std::nullopt},
      .operation = Share(Unresolved()),
  });
  EXPECT_EQ(response.lease().remaining().seconds(), 0);
  EXPECT_EQ(response.lease().remaining().nanos(), 0);
  EXPECT_FALSE(response.lease().has_progress());
}

TEST(ReserveResponseTest, RevealsTheAnswerOnlyWhereTold) {
  for (const bool reveal : {true, false}) {
    const v1::ReserveResponse response = Reserved(core::ReserveAnswer{
        .outcome = core::ReserveOutcome::kCompleted,
        .next_step = core::NextStep::kUseResponse,
        .operation = Share(Complete()),
        .reveal = reveal,
    });
    EXPECT_EQ(response.operation().has_response(), reveal);
    EXPECT_EQ(response.operation().fingerprint().digest().empty(), !reveal);
    EXPECT_EQ(response.operation().verdict(), v1::VERDICT_SUCCEEDED);
    EXPECT_FALSE(response.operation().has_lease_expire_time());
    EXPECT_TRUE(response.operation().has_complete_time());
    EXPECT_TRUE(response.operation().has_response_expire_time());
    EXPECT_TRUE(response.operation().has_forget_time());
    if (reveal) {
      EXPECT_EQ(response.operation().response().body(), "body");
    }
  }
}

TEST(ReserveResponseTest, ShowsNextToNothingOnAMismatch) {
  const v1::ReserveResponse response = Reserved(core::ReserveAnswer{
      .outcome = core::ReserveOutcome::kFingerprintMismatch,
      .next_step = core::NextStep::kUseOwnKey,
      .operation = Share(Complete()),
  });
  v1::Operation expected;
  *expected.mutable_id() = ValidId();
  expected.set_state(v1::OPERATION_STATE_COMPLETE);
  expected.mutable_fingerprint()->set_algorithm("sha256/jcs-1");
  SetTimestamp(kNow - seconds(5), expected.mutable_update_time());
  EXPECT_EQ(response.operation().SerializeAsString(), expected.SerializeAsString())
      << response.operation().DebugString();
}

TEST(ReserveResponseTest, HasNoOperationWhereNothingIsKnown) {
  const v1::ReserveResponse response = Reserved(core::ReserveAnswer{
      .outcome = core::ReserveOutcome::kTooOld, .next_step = core::NextStep::kReconcileFirst});
  EXPECT_FALSE(response.has_operation());
  EXPECT_FALSE(response.has_lease());
  EXPECT_FALSE(response.has_retry_after());
}

TEST(ReserveResponseTest, SaysWhenAnotherAttemptIsGranted) {
  core::Policy policy;
  policy.terms.unknown_outcome = core::UnknownOutcome::kRetrySameKey;
  policy.terms.max_attempts = 5;
  policy.terms.protection_window = std::chrono::hours(1);
  core::Record record = Unresolved();
  record.terms = policy.terms;
  const keystore::Reply reply = ReplyOf(core::ReserveAnswer{
      .outcome = core::ReserveOutcome::kUnresolved,
      .next_step = core::NextStep::kReserveAgain,
      .operation = Share(record),
      .retry_after = seconds(3),
  });
  v1::ReserveResponse response;
  ASSERT_EQ(FillResponse(reply, Context(policy), &response), std::nullopt);
  EXPECT_EQ(response.retry_after().seconds(), 3);
  EXPECT_EQ(MillisOf(response.operation().next_attempt_time()), MillisOf(kNow + seconds(3)));
  EXPECT_EQ(MillisOf(response.operation().protection_expire_time()),
            MillisOf(record.create_time + std::chrono::hours(1)));
  EXPECT_EQ(response.operation().unresolved_cause(), v1::UNRESOLVED_CAUSE_TIMEOUT);
  // Today's policy grants none.
  v1::ReserveResponse none;
  ASSERT_EQ(FillResponse(reply, Context(), &none), std::nullopt);
  EXPECT_FALSE(none.operation().has_next_attempt_time());
}

TEST(ReserveResponseTest, RefusesAnAnswerThatCannotBeRead) {
  core::Record record = Complete();
  record.response.bytes = core::Blob("\xff\xff\xff");
  core::ReserveAnswer answer{.outcome = core::ReserveOutcome::kCompleted,
                             .next_step = core::NextStep::kUseResponse,
                             .operation = Share(record),
                             .reveal = true};
  v1::ReserveResponse response;
  const auto failure = FillResponse(ReplyOf(answer), Context(), &response);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->reason, core::Reason::kRecordUnreadable);
  answer.reveal = false;
  EXPECT_EQ(FillResponse(ReplyOf(answer), Context(), &response), std::nullopt);
}

TEST(OperationTest, HasTheTimesOfItsState) {
  struct Row {
    core::State state;
    bool lease_expire, complete, response_expire, forget;
  };
  core::Record record = Complete();
  record.unknown = Unresolved().unknown;
  for (const Row& row : {Row{core::State::kPending, true, false, false, false},
                         Row{core::State::kComplete, false, true, true, true},
                         Row{core::State::kUnresolved, false, false, false, false},
                         Row{core::State::kExpired, false, true, false, true},
                         Row{core::State::kFreed, false, false, false, true}}) {
    record.state = row.state;
    v1::Operation operation;
    EXPECT_EQ(FillOperation(Key(), record, Shown{true, true, true}, &operation), std::nullopt);
    SCOPED_TRACE(operation.ShortDebugString());
    EXPECT_EQ(operation.has_lease_expire_time(), row.lease_expire);
    EXPECT_EQ(operation.has_complete_time(), row.complete);
    EXPECT_EQ(operation.has_response_expire_time(), row.response_expire);
    EXPECT_EQ(operation.has_forget_time(), row.forget);
    EXPECT_EQ(operation.has_response(), row.state == core::State::kComplete);
    EXPECT_TRUE(operation.has_create_time());
    EXPECT_TRUE(operation.has_update_time());
  }
}

TEST(AnswersTest, ShowHistoryAndDigestToThoseWhoMaySee) {
  const core::RecordPtr record = Share(Complete());
  struct Row {
    const char* name;
    v1::Operation operation;
    bool digest, response, history;
  };
  v1::CompleteResponse complete;
  EXPECT_EQ(FillResponse(ReplyOf(core::CompleteAnswer{record, true}), Context(), &complete),
            std::nullopt);
  EXPECT_TRUE(complete.already_complete());
  v1::GetOperationResponse get;
  v1::GetOperationResponse get_revealed;
  core::GetAnswer answer{.operation = record, .next_step = core::NextStep::kUseResponse};
  EXPECT_EQ(FillResponse(ReplyOf(answer), Context(), &get), std::nullopt);
  answer.reveal = true;
  EXPECT_EQ(FillResponse(ReplyOf(answer), Context(), &get_revealed), std::nullopt);
  v1::InspectOperationResponse inspect;
  EXPECT_EQ(FillResponse(ReplyOf(core::InspectAnswer{record, core::NextStep::kUseResponse, {}}),
                         Context(), &inspect),
            std::nullopt);
  EXPECT_EQ(inspect.fencing_token(), 42u);
  EXPECT_FALSE(inspect.detail().empty());
  v1::ResolveOperationResponse resolve;
  EXPECT_EQ(FillResponse(ReplyOf(core::ResolveAnswer{record}), Context(), &resolve), std::nullopt);
  const core::Policy policy;
  const Row rows[] = {
      {"complete", complete.operation(), false, false, false},
      {"get", get.operation(), false, false, true},
      {"get_revealed", get_revealed.operation(), true, true, true},
      {"inspect", inspect.operation(), true, true, true},
      {"resolve", resolve.operation(), true, false, false},
      {"list", ToListed({core::Key{"payments", "acct-1", "order-1"}, record}, policy, kNow), false,
       false, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(row.operation.id().key(), "order-1");
    EXPECT_EQ(!row.operation.fingerprint().digest().empty(), row.digest);
    EXPECT_EQ(row.operation.has_response(), row.response);
    EXPECT_EQ(row.operation.history_size() > 0, row.history);
    EXPECT_EQ(row.operation.provider_request_id(), "req_1");
  }
}

TEST(AnswersTest, ListWhatCannotBeReadByItsId) {
  const v1::Operation operation =
      ToListed({core::Key{"payments", "acct", "k"}, nullptr}, core::Policy{}, kNow);
  EXPECT_EQ(operation.id().key(), "k");
  EXPECT_EQ(operation.state(), v1::OPERATION_STATE_UNSPECIFIED);
}

TEST(AnswersTest, OfTheOtherVerbs) {
  v1::RenewResponse renew;
  EXPECT_EQ(FillResponse(ReplyOf(core::RenewAnswer{core::Lease{42, kNow + milliseconds(1500), 1}}),
                         Context(), &renew),
            std::nullopt);
  EXPECT_EQ(renew.lease().remaining().nanos(), 500'000'000);
  EXPECT_TRUE(renew.has_server_time());
  v1::ReleaseResponse release;
  EXPECT_EQ(
      FillResponse(ReplyOf(core::ReleaseAnswer{core::State::kUnresolved}), Context(), &release),
      std::nullopt);
  EXPECT_EQ(release.state(), v1::OPERATION_STATE_UNRESOLVED);
  v1::MarkUnresolvedResponse mark;
  EXPECT_EQ(FillResponse(ReplyOf(core::MarkUnresolvedAnswer{
                             Share(Unresolved()), core::NextStep::kReserveAgain, seconds(2)}),
                         Context(), &mark),
            std::nullopt);
  EXPECT_EQ(mark.retry_after().seconds(), 2);
  EXPECT_EQ(mark.next_step(), v1::NEXT_STEP_RESERVE_AGAIN);
  v1::DeleteOperationResponse del;
  EXPECT_EQ(FillResponse(ReplyOf(core::DeleteAnswer{}), Context(), &del), std::nullopt);
}

TEST(AnswersTest, PassRefusalsOn) {
  v1::RenewResponse response;
  const auto failure =
      FillResponse(ReplyOf(core::Refusal{core::Reason::kLeaseLive, "fencing_token", seconds(4)}),
                   Context(), &response);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->reason, core::Reason::kLeaseLive);
  EXPECT_EQ(failure->field, "fencing_token");
  EXPECT_EQ(failure->retry_after, seconds(4));
}

TEST(AnswersTest, TakeAnAnswerOfAnotherKindAsABug) {
  v1::RenewResponse response;
  const auto failure = FillResponse(ReplyOf(core::DeleteAnswer{}), Context(), &response);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(ToStatus(*failure).error_code(), grpc::StatusCode::INTERNAL);
}

TEST(SentencesTest, SaySomethingForEveryOutcome) {
  for (int outcome = 1; outcome <= 8; ++outcome) {
    for (int step = 1; step <= 9; ++step) {
      core::ReserveAnswer answer{.outcome = static_cast<core::ReserveOutcome>(outcome),
                                 .next_step = static_cast<core::NextStep>(step),
                                 .operation = Share(Complete())};
      const std::string_view sentence = DescribeReserve(answer);
      ASSERT_FALSE(sentence.empty()) << outcome << " " << step;
      EXPECT_EQ(sentence.back(), '.') << sentence;
    }
  }
  for (int state = 1; state <= 5; ++state) {
    core::Record record = Pending();
    record.state = static_cast<core::State>(state);
    EXPECT_FALSE(DescribeNext(record, core::NextStep::kReconcileFirst).empty()) << state;
  }
}

// --- Errors -------------------------------------------------------------------------------------

struct ErrorRow {
  core::Reason reason;
  const char* name;
  grpc::StatusCode code;
  bool retry;
};

// As the comments of idempotency.v1.ErrorReason say.
const ErrorRow kErrorRows[] = {
    {core::Reason::kInvalidField, "INVALID_FIELD", grpc::StatusCode::INVALID_ARGUMENT, false},
    {core::Reason::kNamespaceNotFound, "NAMESPACE_NOT_FOUND", grpc::StatusCode::NOT_FOUND, false},
    {core::Reason::kOperationNotFound, "OPERATION_NOT_FOUND", grpc::StatusCode::NOT_FOUND, false},
    {core::Reason::kAccessDenied, "ACCESS_DENIED", grpc::StatusCode::PERMISSION_DENIED, false},
    {core::Reason::kStaleFencingToken, "STALE_FENCING_TOKEN", grpc::StatusCode::FAILED_PRECONDITION,
     false},
    {core::Reason::kUnknownFencingToken, "UNKNOWN_FENCING_TOKEN",
     grpc::StatusCode::INVALID_ARGUMENT, false},
    {core::Reason::kLeaseLapsed, "LEASE_LAPSED", grpc::StatusCode::FAILED_PRECONDITION, false},
    {core::Reason::kAlreadyComplete, "ALREADY_COMPLETE", grpc::StatusCode::FAILED_PRECONDITION,
     false},
    {core::Reason::kAttemptFinished, "ATTEMPT_FINISHED", grpc::StatusCode::FAILED_PRECONDITION,
     false},
    {core::Reason::kOutcomeUnknown, "OUTCOME_UNKNOWN", grpc::StatusCode::FAILED_PRECONDITION,
     false},
    {core::Reason::kLeaseLive, "LEASE_LIVE", grpc::StatusCode::FAILED_PRECONDITION, true},
    {core::Reason::kNotSettled, "NOT_SETTLED", grpc::StatusCode::FAILED_PRECONDITION, true},
    {core::Reason::kWrongState, "WRONG_STATE", grpc::StatusCode::FAILED_PRECONDITION, false},
    {core::Reason::kEtagMismatch, "ETAG_MISMATCH", grpc::StatusCode::ABORTED, false},
    {core::Reason::kQuotaExceeded, "QUOTA_EXCEEDED", grpc::StatusCode::RESOURCE_EXHAUSTED, true},
    {core::Reason::kOverloaded, "OVERLOADED", grpc::StatusCode::RESOURCE_EXHAUSTED, true},
    {core::Reason::kStoreFull, "STORE_FULL", grpc::StatusCode::RESOURCE_EXHAUSTED, false},
    {core::Reason::kStoreUnavailable, "STORE_UNAVAILABLE", grpc::StatusCode::UNAVAILABLE, true},
    {core::Reason::kRecordUnreadable, "RECORD_UNREADABLE", grpc::StatusCode::DATA_LOSS, false},
};

TEST(ErrorTableTest, HasARowForEveryReasonOfTheApi) {
  EXPECT_EQ(std::size(kErrorRows), static_cast<size_t>(v1::ErrorReason_ARRAYSIZE) - 1);
  for (const ErrorRow& row : kErrorRows) {
    const auto reason = static_cast<v1::ErrorReason>(row.reason);
    EXPECT_EQ(v1::ErrorReason_Name(reason), std::string("ERROR_REASON_") + row.name);
  }
}

TEST(ErrorTableTest, SaysTheSameInEveryForm) {
  for (const ErrorRow& row : kErrorRows) {
    SCOPED_TRACE(row.name);
    const Failure failure{row.reason, {}, {}, std::nullopt};
    const grpc::Status status = ToStatus(failure);
    EXPECT_EQ(status.error_code(), row.code);
    EXPECT_EQ(ReasonName(row.reason), row.name);
    EXPECT_EQ(status.error_message().back(), '.');
    EXPECT_EQ(RetryAfter(failure).has_value(), row.retry);

    google::rpc::Status details;
    ASSERT_TRUE(details.ParseFromString(status.error_details()));
    EXPECT_EQ(details.code(), row.code);
    EXPECT_EQ(details.message(), status.error_message());
    google::rpc::ErrorInfo info;
    ASSERT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
    ASSERT_TRUE(details.details(0).UnpackTo(&info));
    EXPECT_EQ(info.reason(), row.name);
    EXPECT_EQ(info.domain(), "idempotency.v1");
    const bool has_retry_info =
        std::any_of(details.details().begin(), details.details().end(),
                    [](const auto& any) { return any.template Is<google::rpc::RetryInfo>(); });
    EXPECT_EQ(has_retry_info, row.retry);

    const v1::Error error = ToError(failure);
    EXPECT_EQ(error.code(), row.code);
    EXPECT_EQ(error.reason(), static_cast<v1::ErrorReason>(row.reason));
    EXPECT_EQ(error.message(), status.error_message());
    EXPECT_EQ(error.has_retry_after(), row.retry);
  }
}

TEST(ErrorTableTest, NamesTheField) {
  const Failure failure = ToFailure(FieldError{"id.key", "id.key is required."});
  const grpc::Status status = ToStatus(failure);
  EXPECT_EQ(status.error_message(), "id.key is required.");
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  google::rpc::BadRequest bad_request;
  ASSERT_EQ(details.details_size(), 2);
  ASSERT_TRUE(details.details(1).UnpackTo(&bad_request));
  EXPECT_EQ(bad_request.field_violations(0).field(), "id.key");
  EXPECT_EQ(bad_request.field_violations(0).description(), "id.key is required.");
  EXPECT_EQ(ToError(failure).field(), "id.key");
}

TEST(ErrorTableTest, PrefersTheRefusalsOwnTime) {
  const Failure failure =
      ToFailure(core::Refusal{core::Reason::kNotSettled, {}, milliseconds(1500)});
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(ToStatus(failure).error_details()));
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(details.details(1).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
  EXPECT_EQ(ToError(failure).retry_after().nanos(), 500'000'000);
}

}  // namespace
}  // namespace idempotency::service
