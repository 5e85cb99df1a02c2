// Answers of gRPC calls as they are stored, and what a Run without one looks like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "client/src/grpc/status_details.h"
#include "tests/client/wrappers/bank_fixture.h"

namespace idempotency::testing {
namespace {

using bank::v1::Charge;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

Charge SomeCharge() {
  Charge charge;
  charge.set_id("ch_1");
  charge.set_receipt(std::string("\0\xff", 2));
  return charge;
}

TEST(StoredAnswerTest, ASuccessKeepsItsMessage) {
  const CachedResponse stored = ToCachedResponse(grpc::Status::OK, SomeCharge(), {{"x-a", "1"}});
  EXPECT_EQ(stored.content_type, "application/x-protobuf; messageType=bank.v1.Charge");
  EXPECT_EQ(stored.body, SomeCharge().SerializeAsString());
  Charge read;
  Metadata metadata;
  EXPECT_TRUE(FromCachedResponse(stored, &read, &metadata).ok());
  EXPECT_EQ(read.SerializeAsString(), SomeCharge().SerializeAsString());
  EXPECT_THAT(metadata, ElementsAre(Pair("x-a", "1")));
}

TEST(StoredAnswerTest, AnEmptyMessageIsAMessage) {
  const CachedResponse stored = ToCachedResponse(grpc::Status::OK, Charge());
  EXPECT_EQ(stored.body, "");
  Charge read = SomeCharge();
  EXPECT_TRUE(FromCachedResponse(stored, &read).ok());
  EXPECT_EQ(read.ByteSizeLong(), 0u);
}

TEST(StoredAnswerTest, AFailureKeepsItsDetailsAndNoMessage) {
  const grpc::Status failure(grpc::StatusCode::NOT_FOUND, "no such card", "\x08\x05");
  const CachedResponse stored = ToCachedResponse(failure, SomeCharge());
  EXPECT_EQ(stored.body, std::nullopt);
  Charge read;
  const grpc::Status status = FromCachedResponse(stored, &read);
  EXPECT_EQ(status.error_code(), failure.error_code());
  EXPECT_EQ(status.error_message(), failure.error_message());
  EXPECT_EQ(status.error_details(), failure.error_details());
}

TEST(StoredAnswerTest, MetadataThatCannotBeSentIsNotStoredAndNotReplayed) {
  const Metadata metadata{{"grpc-encoding", "gzip"},
                          {":path", "/x"},
                          {"Upper", "x"},
                          {"x-line", "a\nb"},
                          {"", "x"},
                          {"idempotency-replayed", "true"},
                          {"x-any-bin", "\n\xff"},
                          {"x-fine", "printable"}};
  const CachedResponse stored = ToCachedResponse(grpc::Status::OK, Charge(), metadata);
  EXPECT_THAT(stored.metadata,
              ElementsAre(Pair("x-any-bin", "\n\xff"), Pair("x-fine", "printable")));
  // Somebody else may have stored it.
  CachedResponse foreign = stored;
  foreign.metadata = metadata;
  Charge read;
  Metadata replayed;
  FromCachedResponse(foreign, &read, &replayed);
  EXPECT_EQ(replayed, stored.metadata);
}

TEST(StoredAnswerTest, WhatOthersStored) {
  struct Row {
    const char* name;
    CachedResponse response;
    grpc::StatusCode code;
  };
  const std::string message = SomeCharge().SerializeAsString();
  const Row rows[] = {
      {"no status", {.body = message}, grpc::StatusCode::OK},
      {"201", {.status = CachedResponse::HttpStatus{201}, .body = message}, grpc::StatusCode::OK},
      {"402", {.status = CachedResponse::HttpStatus{402}}, grpc::StatusCode::FAILED_PRECONDITION},
      {"500", {.status = CachedResponse::HttpStatus{500}}, grpc::StatusCode::UNKNOWN},
      {"no such code", {.status = CachedResponse::GrpcCode{99}}, grpc::StatusCode::UNKNOWN},
      {"no body", {.status = CachedResponse::GrpcCode{0}}, grpc::StatusCode::INTERNAL},
      {"not this message",
       {.status = CachedResponse::GrpcCode{0}, .body = "{}"},
       grpc::StatusCode::INTERNAL},
  };
  for (const Row& row : rows) {
    Charge read;
    EXPECT_EQ(FromCachedResponse(row.response, &read).error_code(), row.code) << row.name;
    EXPECT_EQ(read.id(), row.code == grpc::StatusCode::OK ? "ch_1" : "") << row.name;
  }
}

// --- A Run without an answer ---------------------------------------------------------------------

RunResult StoppedAs(StopReason stop, NextStep next_step = NextStep::kUnspecified,
                    std::optional<Duration> retry_after = std::nullopt) {
  RunResult run;
  run.stop = stop;
  run.next_step = next_step;
  run.retry_after = retry_after;
  return run;
}

RunResult RefusedFor(ErrorReason reason, std::string field = {}) {
  RunResult run = StoppedAs(StopReason::kRefused);
  run.refusal = Refusal{.reason = reason, .field = std::move(field)};
  return run;
}

RunResult FailedWithoutStatus() {
  RunResult run;
  run.response = CachedResponse{};
  run.verdict = Verdict::kFailed;
  return run;
}

TEST(StatusOfRunTest, FollowsTheTable) {
  using grpc::StatusCode;
  struct Row {
    const char* reason;
    RunResult run;
    StatusCode code;
    std::optional<Duration> retry_after;
  };
  const Row rows[] = {
      {"IN_PROGRESS", StoppedAs(StopReason::kInProgress, NextStep::kReserveAgain, 250ms),
       StatusCode::ABORTED, 250ms},
      {"IN_PROGRESS", StoppedAs(StopReason::kInProgress), StatusCode::ABORTED, 1s},
      {"UNRESOLVED", StoppedAs(StopReason::kUnresolved, NextStep::kReserveAgain, 5s),
       StatusCode::ABORTED, 5s},
      {"UNRESOLVED", StoppedAs(StopReason::kUnresolved, NextStep::kReconcileFirst),
       StatusCode::UNKNOWN, std::nullopt},
      {"MISMATCH", StoppedAs(StopReason::kMismatch), StatusCode::FAILED_PRECONDITION, std::nullopt},
      {"FAILED", FailedWithoutStatus(), StatusCode::FAILED_PRECONDITION, std::nullopt},
      {"ANSWER_GONE", StoppedAs(StopReason::kAnswerGone), StatusCode::UNKNOWN, std::nullopt},
      {"ABANDONED", StoppedAs(StopReason::kAbandoned), StatusCode::UNKNOWN, std::nullopt},
      {"TOO_OLD", StoppedAs(StopReason::kTooOld), StatusCode::UNKNOWN, std::nullopt},
      {"NOTHING_HAPPENED", StoppedAs(StopReason::kNothingHappened), StatusCode::UNAVAILABLE, 1s},
      {"CANCELLED", StoppedAs(StopReason::kCancelled), StatusCode::UNAVAILABLE, 1s},
      {"UNAVAILABLE", StoppedAs(StopReason::kUnavailable), StatusCode::UNAVAILABLE, 1s},
      {"QUOTA_EXCEEDED", RefusedFor(ErrorReason::kQuotaExceeded), StatusCode::RESOURCE_EXHAUSTED,
       1s},
      {"UNAVAILABLE", RefusedFor(ErrorReason::kStoreFull), StatusCode::UNAVAILABLE, 1s},
      {"ACCESS_DENIED", RefusedFor(ErrorReason::kAccessDenied), StatusCode::PERMISSION_DENIED,
       std::nullopt},
      {"KEY_MALFORMED", RefusedFor(ErrorReason::kInvalidField, "id.key"),
       StatusCode::INVALID_ARGUMENT, std::nullopt},
      {"INTERNAL", RefusedFor(ErrorReason::kInvalidField, "id.scope"), StatusCode::INTERNAL,
       std::nullopt},
      {"UNRESOLVED", RefusedFor(ErrorReason::kRecordUnreadable), StatusCode::UNKNOWN, std::nullopt},
      {"INTERNAL", RefusedFor(ErrorReason::kNamespaceNotFound), StatusCode::INTERNAL, std::nullopt},
      {"INTERNAL", StoppedAs(StopReason::kInvalid), StatusCode::INTERNAL, std::nullopt},
  };
  for (const Row& row : rows) {
    const grpc::Status status = StatusOfRun(row.run);
    SCOPED_TRACE(std::string(row.reason) + ": " + status.error_message());
    EXPECT_EQ(status.error_code(), row.code);
    EXPECT_EQ(internal::ReasonOf(status), row.reason);
    EXPECT_EQ(internal::RetryAfterOf(status), row.retry_after);
  }
}

// A caller that takes one of these for "it did not happen" may do it twice.
TEST(StatusOfRunTest, NothingThatMayHideAnEffectIsTakenForAFailure) {
  for (const StopReason stop :
       {StopReason::kInProgress, StopReason::kUnresolved, StopReason::kAnswerGone,
        StopReason::kAbandoned, StopReason::kTooOld}) {
    for (const NextStep step : {NextStep::kReserveAgain, NextStep::kReconcileFirst}) {
      const grpc::Status status = StatusOfRun(StoppedAs(stop, step, 1s));
      EffectResult effect = EffectResult::Answered(ToCachedResponse(status, Charge()));
      effect.retry_after = internal::RetryAfterOf(status);
      EXPECT_EQ(ClassifyGrpc(effect).disposition, Disposition::kUnknown) << Name(stop);
    }
  }
}

TEST(StatusOfRunTest, TheCallsOwnStatusWins) {
  RunResult run = StoppedAs(StopReason::kUnresolved, NextStep::kReconcileFirst);
  run.response =
      ToCachedResponse(grpc::Status(grpc::StatusCode::INTERNAL, "boom", "details"), Charge());
  const grpc::Status status = StatusOfRun(run);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "boom");
  EXPECT_EQ(status.error_details(), "details");
  run.response.reset();
  run.effect_error = absl::DeadlineExceededError("too long");
  EXPECT_EQ(StatusOfRun(run).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace idempotency::testing
