// From what gRPC says to a status that Refused understands.
#include "client/src/status.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "idempotency/connection.h"
#include "idempotency/wire/error_details.pb.h"

namespace idempotency::internal {
namespace {

using namespace std::chrono_literals;

void AddDetail(const std::string& type, const google::protobuf::Message& message,
               wire::ErrorStatus* status) {
  google::protobuf::Any* const any = status->add_details();
  any->set_type_url("type.googleapis.com/" + type);
  any->set_value(message.SerializeAsString());
}

std::string Details(const std::string& domain = "idempotency.v1") {
  wire::ErrorStatus status;
  wire::ErrorInfo info;
  info.set_reason("INVALID_FIELD");
  info.set_domain(domain);
  AddDetail("google.rpc.ErrorInfo", info, &status);
  wire::BadRequest bad;
  bad.add_field_violations()->set_field("id.key");
  AddDetail("google.rpc.BadRequest", bad, &status);
  wire::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(1);
  AddDetail("google.rpc.RetryInfo", retry, &status);
  return status.SerializeAsString();
}

TEST(StatusTest, ReadsAllDetails) {
  const absl::Status status = ToStatus(3, "no key", Details(), "INVALID_FIELD");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "no key");
  EXPECT_EQ(Refused(status), (Refusal{ErrorReason::kInvalidField, "id.key", 1001ms}))
      << "rounded up: not a nanosecond too early";
}

TEST(StatusTest, TheTrailerAloneIsEnough) {
  EXPECT_EQ(Refused(ToStatus(8, "later", "", "OVERLOADED")),
            (Refusal{.reason = ErrorReason::kOverloaded}));
}

TEST(StatusTest, TheDetailsAloneAreEnough) {
  EXPECT_EQ(Refused(ToStatus(3, "no key", Details(), ""))->reason, ErrorReason::kInvalidField);
}

TEST(StatusTest, AReasonOfAnotherServiceIsNone) {
  EXPECT_EQ(Refused(ToStatus(3, "no key", Details("billing.v1"), "")), std::nullopt);
}

TEST(StatusTest, AReasonThatIsNewerThanThisLibraryIsNone) {
  const absl::Status status = ToStatus(9, "new", "", "MOON_IS_FULL");
  EXPECT_EQ(Refused(status), std::nullopt);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Refused(ToStatus(9, "none", "", "UNSPECIFIED")), std::nullopt);
}

TEST(StatusTest, DetailsMayBeAnything) {
  EXPECT_EQ(Refused(ToStatus(14, "gone", std::string("\xff\x00garbage", 9), "")), std::nullopt);
  wire::ErrorStatus odd;
  odd.add_details()->set_type_url("no slash");
  odd.add_details()->set_value("\xff");
  EXPECT_EQ(Refused(ToStatus(14, "gone", odd.SerializeAsString(), "")), std::nullopt);
}

TEST(StatusTest, CodesKeepTheirNumbers) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_EQ(static_cast<int>(ToStatus(code, "", "", "").code()), code);
  }
  for (const int odd : {-1, 0, 17, 1000}) {
    EXPECT_EQ(ToStatus(odd, "", "", "").code(), absl::StatusCode::kUnknown) << odd;
  }
}

TEST(StatusTest, ErrorsOfCommandsAreTheSame) {
  v1::Error error;
  error.set_code(9);
  error.set_message("still live");
  error.set_reason(v1::ERROR_REASON_LEASE_LIVE);
  error.set_field("id");
  error.mutable_retry_after()->set_seconds(4);
  EXPECT_EQ(Refused(ToStatus(error)), (Refusal{ErrorReason::kLeaseLive, "id", 4s}));
  EXPECT_EQ(ToStatus(error).code(), absl::StatusCode::kFailedPrecondition);

  error.set_reason(static_cast<v1::ErrorReason>(99));
  EXPECT_EQ(Refused(ToStatus(error)), std::nullopt);
  error.set_reason(v1::ERROR_REASON_UNSPECIFIED);
  error.set_code(1);
  EXPECT_EQ(ToStatus(error).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace idempotency::internal
