#include "client/src/convert.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using namespace std::chrono_literals;

const OperationId kId{"payments", "acct", "order-1"};
constexpr char kBad[] = "bad \xff byte";

// --- Texts ---------------------------------------------------------------------------------------

std::string FieldAtFault(const absl::Status& status) {
  const std::optional<Refusal> refusal = Refused(status);
  if (!refusal.has_value()) return status.ok() ? "none" : "no refusal";
  EXPECT_EQ(refusal->reason, ErrorReason::kInvalidField);
  return refusal->field;
}

TEST(CheckTextsTest, NamesTheFieldThatIsNotUtf8) {
  ReserveRequest reserve{.id = kId};
  EXPECT_EQ(FieldAtFault(CheckTexts(reserve)), "none");
  reserve.labels = {{"team", kBad}};
  EXPECT_EQ(FieldAtFault(CheckTexts(reserve)), "labels");
  reserve.owner.traceparent = kBad;
  EXPECT_EQ(FieldAtFault(CheckTexts(reserve)), "owner.traceparent");
  reserve.attempt_id = kBad;
  EXPECT_EQ(FieldAtFault(CheckTexts(reserve)), "attempt_id");
  reserve.fingerprint = Fingerprint{kBad, kBad};
  EXPECT_EQ(FieldAtFault(CheckTexts(reserve)), "fingerprint.algorithm");
  reserve.id.key = kBad;
  EXPECT_EQ(FieldAtFault(CheckTexts(reserve)), "id.key");
  reserve.id.scope = kBad;
  EXPECT_EQ(FieldAtFault(CheckTexts(reserve)), "id.scope");
  reserve.id.name_space = kBad;
  EXPECT_EQ(FieldAtFault(CheckTexts(reserve)), "id.namespace");
}

TEST(CheckTextsTest, OfEveryRequest) {
  const OperationId bad{"payments", "acct", kBad};
  EXPECT_EQ(FieldAtFault(CheckTexts(RenewRequest{.id = bad})), "id.key");
  EXPECT_EQ(FieldAtFault(CheckTexts(RenewRequest{.id = kId, .owner = Owner{.worker = kBad}})),
            "owner.worker");
  EXPECT_EQ(FieldAtFault(CheckTexts(CompleteRequest{.id = bad})), "id.key");
  EXPECT_EQ(FieldAtFault(CheckTexts(ReleaseRequest{.id = bad})), "id.key");
  EXPECT_EQ(FieldAtFault(CheckTexts(MarkUnresolvedRequest{.id = bad})), "id.key");
  EXPECT_EQ(FieldAtFault(CheckTexts(GetOperationRequest{.id = bad})), "id.key");
  EXPECT_EQ(FieldAtFault(CheckTexts(ResolveRequest{.id = kId, .actor = kBad})), "actor");
  EXPECT_EQ(FieldAtFault(CheckTexts(ListOperationsRequest{.name_space = "n", .key_prefix = kBad})),
            "key_prefix");
}

TEST(MendedTextTest, IsUtf8AndCutAtACharacter) {
  EXPECT_EQ(MendedText("plain", 100), "plain");
  EXPECT_EQ(MendedText("a\xff"
                       "b",
                       100),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(MendedText("\xE2\x82", 100), "\xEF\xBF\xBD\xEF\xBF\xBD") << "half a character";
  EXPECT_EQ(MendedText("ab\xC3\xA9", 4), "ab\xC3\xA9");
  EXPECT_EQ(MendedText("ab\xC3\xA9", 3), "ab") << "not half of it";
  EXPECT_EQ(MendedText("", 0), "");
}

// What reports something that happened must not be refused for what it looks like.
TEST(ToProtoTest, ReportsAreMended) {
  CompleteRequest complete{.id = kId, .fencing_token = 7, .provider_request_id = kBad};
  complete.response = CachedResponse{.status = CachedResponse::GrpcCode{5},
                                     .status_message = std::string(2000, 'x'),
                                     .content_type = kBad,
                                     .metadata = {{kBad, kBad}}};
  const v1::CompleteRequest proto = ToProto(complete);
  v1::CompleteRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(proto.SerializeAsString()));
  EXPECT_EQ(parsed.response().status_message().size(), kMaxLongTextBytes);
  EXPECT_EQ(parsed.response().metadata(0).value(), kBad) << "values are bytes";
  EXPECT_EQ(parsed.response().grpc_code(), 5);

  const v1::ReleaseRequest release = ToProto(ReleaseRequest{.id = kId, .detail = kBad});
  EXPECT_TRUE(v1::ReleaseRequest().ParseFromString(release.SerializeAsString()));
  const v1::MarkUnresolvedRequest mark =
      ToProto(MarkUnresolvedRequest{.id = kId, .detail = kBad, .provider_request_id = kBad});
  EXPECT_TRUE(v1::MarkUnresolvedRequest().ParseFromString(mark.SerializeAsString()));
}

// --- Bodies --------------------------------------------------------------------------------------

v1::CachedResponse Sent(CachedResponse response) {
  return ToProto(CompleteRequest{.id = kId, .response = std::move(response)}).response();
}

TEST(ToProtoTest, NoBodyIsNotAnEmptyBody) {
  EXPECT_FALSE(Sent({}).has_body());
  EXPECT_TRUE(Sent({.body = ""}).has_body());
}

TEST(ToProtoTest, ABodyThatNobodyKeepsIsNotSent) {
  const v1::CachedResponse kept = Sent({.body = std::string(kMaxBodyBytes, 'x')});
  EXPECT_EQ(kept.body().size(), kMaxBodyBytes);
  EXPECT_FALSE(kept.body_omitted());
  const v1::CachedResponse omitted = Sent({.body = std::string(kMaxBodyBytes + 1, 'x')});
  EXPECT_FALSE(omitted.has_body());
  EXPECT_TRUE(omitted.body_omitted());
  EXPECT_EQ(omitted.body_size(), kMaxBodyBytes + 1);
}

TEST(ToProtoTest, MetadataFarOverTheLimitIsNotSent) {
  CachedResponse response;
  for (int i = 0; i < 100; ++i) response.metadata.emplace_back("name", std::string(1020, 'x'));
  EXPECT_EQ(Sent(response).metadata_size(), 64);
}

// --- Times ---------------------------------------------------------------------------------------

google::protobuf::Duration Proto(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration out;
  out.set_seconds(seconds);
  out.set_nanos(nanos);
  return out;
}

TEST(TimesTest, WhatIsWaitedForIsRoundedUp) {
  EXPECT_EQ(FromProtoUp(Proto(1, 0)), 1000ms);
  EXPECT_EQ(FromProtoUp(Proto(1, 1)), 1001ms);
  EXPECT_EQ(FromProtoUp(Proto(0, 999'999'999)), 1000ms);
  EXPECT_EQ(FromProtoUp(Proto(-1, -999'999'999)), -1999ms);
}

TEST(TimesTest, WhatIsReliedOnIsRoundedDown) {
  v1::RenewResponse response;
  *response.mutable_lease()->mutable_remaining() = Proto(1, 999'999);
  EXPECT_EQ(FromProto(response).lease.remaining, 1000ms);
}

TEST(TimesTest, TheEndsOfTimeDoNotOverflow) {
  EXPECT_GT(FromProtoUp(Proto(std::numeric_limits<int64_t>::max(), 999'999'999)), 10'000'000h);
  EXPECT_LT(FromProtoUp(Proto(std::numeric_limits<int64_t>::min(), 0)), -10'000'000h);
}

TEST(TimesTest, SpansKeepTheirMilliseconds) {
  const v1::ReserveRequest proto = ToProto(ReserveRequest{.id = kId, .lease_duration = 1999ms});
  EXPECT_EQ(proto.lease_duration().seconds(), 1);
  EXPECT_EQ(proto.lease_duration().nanos(), 999'000'000);
}

// --- Whole messages ------------------------------------------------------------------------------

TEST(ToProtoTest, WhatIsNotSaidIsNotSent) {
  const v1::ReserveRequest reserve = ToProto(ReserveRequest{.id = kId, .attempt_id = "a"});
  EXPECT_FALSE(reserve.has_fingerprint());
  EXPECT_FALSE(reserve.has_lease_duration());
  EXPECT_FALSE(reserve.has_wait_duration());
  EXPECT_FALSE(reserve.has_owner());
  EXPECT_FALSE(reserve.has_operation_age());
  const v1::RenewRequest renew = ToProto(RenewRequest{.id = kId, .progress = ""});
  EXPECT_TRUE(renew.has_progress()) << "empty replaces";
  EXPECT_FALSE(renew.has_owner());
}

TEST(ToProtoTest, EveryResolution) {
  ResolveRequest resolve{.id = kId, .verdict = Verdict::kFailed, .actor = "ops", .etag = "e"};
  EXPECT_EQ(ToProto(resolve).completed().verdict(), v1::VERDICT_FAILED);
  EXPECT_FALSE(ToProto(resolve).completed().has_response());
  resolve.resolution = ResolveRequest::Resolution::kNotExecuted;
  EXPECT_TRUE(ToProto(resolve).has_not_executed());
  resolve.resolution = ResolveRequest::Resolution::kAbandoned;
  EXPECT_TRUE(ToProto(resolve).has_abandoned());
  EXPECT_EQ(ToProto(resolve).etag(), "e");
}

TEST(ToProtoTest, AListSaysWhatIsWanted) {
  const v1::ListOperationsRequest all = ToProto(ListOperationsRequest{.name_space = "payments"});
  EXPECT_EQ(all.namespace_(), "payments");
  EXPECT_EQ(all.page_size(), 0);
  EXPECT_FALSE(all.has_min_age());
  const v1::ListOperationsRequest some = ToProto(
      ListOperationsRequest{.name_space = "payments",
                            .scope = "acct",
                            .key_prefix = "order-",
                            .operation_ref = "job 7",
                            .states = {OperationState::kUnresolved, OperationState::kPending},
                            .min_age = 1500ms,
                            .page_size = UINT32_MAX,
                            .page_token = "p2"});
  EXPECT_EQ(some.scope(), "acct");
  EXPECT_EQ(some.key_prefix(), "order-");
  EXPECT_EQ(some.operation_ref(), "job 7");
  EXPECT_THAT(some.states(),
              ::testing::ElementsAre(v1::OPERATION_STATE_UNRESOLVED, v1::OPERATION_STATE_PENDING));
  EXPECT_EQ(some.min_age().seconds(), 1);
  EXPECT_EQ(some.min_age().nanos(), 500'000'000);
  EXPECT_EQ(some.page_size(), 1000) << "more is no negative number";
  EXPECT_EQ(some.page_token(), "p2");
}

v1::ReserveResponse FullAnswer() {
  v1::ReserveResponse proto;
  proto.set_outcome(v1::RESERVE_OUTCOME_COMPLETED);
  proto.set_next_step(v1::NEXT_STEP_USE_RESPONSE);
  proto.set_detail("replayed");
  *proto.mutable_retry_after() = Proto(2, 0);
  v1::Lease& lease = *proto.mutable_lease();
  lease.set_fencing_token(7);
  lease.set_attempt(2);
  lease.set_progress("half");
  v1::Operation& operation = *proto.mutable_operation();
  operation.mutable_id()->set_namespace_("payments");
  operation.set_state(v1::OPERATION_STATE_COMPLETE);
  operation.mutable_fingerprint()->set_algorithm("sha256/jcs-1");
  operation.mutable_owner()->set_operation_ref("order 1");
  (*operation.mutable_labels())["b"] = "2";
  (*operation.mutable_labels())["a"] = "1";
  operation.mutable_create_time()->set_seconds(1'800'000'000);
  operation.mutable_create_time()->set_nanos(5'999'999);
  operation.mutable_next_attempt_time()->set_seconds(-1);
  operation.set_verdict(v1::VERDICT_FAILED);
  operation.set_etag("etag-1");
  operation.mutable_response()->set_http_status(402);
  operation.mutable_response()->set_body("declined");
  operation.mutable_response()->set_metadata_omitted(true);
  v1::MetadataEntry& entry = *operation.mutable_response()->add_metadata();
  entry.set_name("request-id");
  entry.set_value("r1");
  return proto;
}

TEST(FromProtoTest, AWholeAnswer) {
  const ReserveResponse out = FromProto(FullAnswer());
  EXPECT_EQ(out.outcome, ReserveOutcome::kCompleted);
  EXPECT_EQ(out.next_step, NextStep::kUseResponse);
  EXPECT_EQ(out.retry_after, 2s);
  EXPECT_EQ(out.detail, "replayed");
  ASSERT_TRUE(out.lease.has_value());
  EXPECT_EQ(out.lease->fencing_token, 7u);
  EXPECT_EQ(out.lease->attempt, 2u);
  EXPECT_EQ(out.lease->progress, "half");
  ASSERT_TRUE(out.operation.has_value());
  EXPECT_EQ(out.operation->state, OperationState::kComplete);
  EXPECT_EQ(out.operation->fingerprint.algorithm, "sha256/jcs-1");
  EXPECT_EQ(out.operation->owner.operation_ref, "order 1");
  EXPECT_THAT(out.operation->labels, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_EQ(out.operation->create_time, SystemTime(1'800'000'000'005ms));
  EXPECT_EQ(out.operation->next_attempt_time, SystemTime(-1s));
  EXPECT_EQ(out.operation->complete_time, std::nullopt);
  EXPECT_EQ(out.operation->verdict, Verdict::kFailed);
  EXPECT_EQ(out.operation->etag, "etag-1");
  const CachedResponse response{.status = CachedResponse::HttpStatus{402},
                                .metadata = {{"request-id", "r1"}},
                                .body = "declined",
                                .metadata_omitted = true};
  EXPECT_EQ(out.operation->response, response);
}

TEST(FromProtoTest, NumbersOfTheFutureStayNumbers) {
  v1::ReserveResponse proto;
  proto.set_outcome(static_cast<v1::ReserveOutcome>(77));
  proto.set_next_step(static_cast<v1::NextStep>(100'000));
  const ReserveResponse out = FromProto(proto);
  EXPECT_EQ(static_cast<int>(out.outcome), 77);
  EXPECT_EQ(Name(out.outcome), "UNKNOWN");
  EXPECT_EQ(out.next_step, NextStep::kUnspecified) << "does not fit";
  EXPECT_FALSE(out.lease.has_value());
  EXPECT_FALSE(out.operation.has_value());
}

// The values promise that they are the API's numbers.
TEST(FromProtoTest, EnumsAreTheSameNumbers) {
  EXPECT_EQ(v1::OperationState_MAX, static_cast<int>(OperationState::kFreed));
  EXPECT_EQ(v1::Verdict_MAX, static_cast<int>(Verdict::kAbandoned));
  EXPECT_EQ(v1::UnresolvedCause_MAX, static_cast<int>(UnresolvedCause::kLeaseLapsed));
  EXPECT_EQ(v1::ReserveOutcome_MAX, static_cast<int>(ReserveOutcome::kTooOld));
  EXPECT_EQ(v1::NextStep_MAX, static_cast<int>(NextStep::kStop));
  EXPECT_EQ(v1::ErrorReason_MAX, static_cast<int>(ErrorReason::kRecordUnreadable));
  for (int i = 1; i <= v1::NextStep_MAX; ++i) {
    EXPECT_EQ("NEXT_STEP_" + std::string(Name(static_cast<NextStep>(i))),
              v1::NextStep_Name(static_cast<v1::NextStep>(i)));
  }
  for (int i = 1; i <= v1::ErrorReason_MAX; ++i) {
    EXPECT_EQ("ERROR_REASON_" + std::string(Name(static_cast<ErrorReason>(i))),
              v1::ErrorReason_Name(static_cast<v1::ErrorReason>(i)));
  }
}

}  // namespace
}  // namespace idempotency::internal
