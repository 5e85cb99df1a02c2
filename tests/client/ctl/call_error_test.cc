#include "client/ctl/call_error.h"

#include <gtest/gtest.h>

#include "idempotency/wire/error_details.pb.h"

namespace idempotency::ctl {
namespace {

template <typename Message>
void AddDetail(const std::string& type, const Message& message, wire::ErrorStatus* status) {
  google::protobuf::Any* any = status->add_details();
  any->set_type_url("type.googleapis.com/google.rpc." + type);
  any->set_value(message.SerializeAsString());
}

struct DeliveryRow {
  const char* name;
  int code;
  const char* reason;
  Delivery delivery;
};

TEST(CallError, TellsRefusedFromUnknown) {
  const DeliveryRow rows[] = {
      {"a reason is a refusal", 9, "STALE_FENCING_TOKEN", Delivery::kRefused},
      {"a reason newer than this tool", 9, "SOMETHING_NEW", Delivery::kRefused},
      {"overloaded: refused before anything", 8, "OVERLOADED", Delivery::kRefused},
      {"the store may have taken it", 14, "STORE_UNAVAILABLE", Delivery::kUnknown},
      {"deadline", 4, "", Delivery::kUnknown},
      {"cancelled", 1, "", Delivery::kUnknown},
      {"connection lost", 14, "", Delivery::kUnknown},
      {"answer too large for this tool", 8, "", Delivery::kUnknown},
      {"something broke on the way", 13, "", Delivery::kUnknown},
      {"unknown", 2, "", Delivery::kUnknown},
      {"no such method", 12, "", Delivery::kRefused},
      {"a proxy said no", 7, "", Delivery::kRefused},
      {"no credentials", 16, "", Delivery::kRefused},
  };
  for (const DeliveryRow& row : rows) {
    EXPECT_EQ(ErrorFromTrailers(row.code, "m", "", row.reason).delivery, row.delivery) << row.name;
  }
}

TEST(CallError, ReadsTheDetails) {
  wire::ErrorStatus status;
  wire::ErrorInfo info;
  info.set_reason("NOT_SETTLED");
  wire::BadRequest bad;
  bad.add_field_violations()->set_field("id.key");
  wire::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(42);
  AddDetail("ErrorInfo", info, &status);
  AddDetail("BadRequest", bad, &status);
  AddDetail("RetryInfo", retry, &status);
  AddDetail("Help", info, &status);
  const CallError error = ErrorFromTrailers(9, "Wait.", status.SerializeAsString(), "");
  EXPECT_EQ(error.reason, "NOT_SETTLED");
  EXPECT_EQ(error.field, "id.key");
  EXPECT_EQ(error.retry_after, absl::Seconds(42));
  EXPECT_EQ(error.delivery, Delivery::kRefused);
  const v1::Error proto = ToProto(error);
  EXPECT_EQ(proto.reason(), v1::ERROR_REASON_NOT_SETTLED);
  EXPECT_EQ(proto.retry_after().seconds(), 42);
  EXPECT_EQ(proto.message(), "Wait.");
}

TEST(CallError, DetailsThatAreNoneChangeNothing) {
  const CallError error = ErrorFromTrailers(9, "m", "\xff\xff garbage", "LEASE_LIVE");
  EXPECT_EQ(error.reason, "LEASE_LIVE");
  EXPECT_EQ(error.retry_after, std::nullopt);
}

TEST(CallError, CodesHaveNames) {
  EXPECT_EQ(StatusCodeName(9), "FAILED_PRECONDITION");
  EXPECT_EQ(StatusCodeName(16), "UNAUTHENTICATED");
  EXPECT_EQ(StatusCodeName(17), "17");
  EXPECT_EQ(StatusCodeName(-1), "-1");
}

}  // namespace
}  // namespace idempotency::ctl
