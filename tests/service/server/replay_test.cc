// What a duplicate gets back is what the owner reported, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "tests/service/server/commands.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono::seconds;

constexpr size_t kMebibyte = size_t{1024} * 1024;

struct ReplayRow {
  const char* name;
  std::function<void(v1::CachedResponse*)> report;
};

void AddMetadata(v1::CachedResponse* response, const char* name, const std::string& value) {
  v1::MetadataEntry* entry = response->add_metadata();
  entry->set_name(name);
  entry->set_value(value);
}

std::string AllBytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
  return bytes;
}

const ReplayRow kReplayRows[] = {
    {"nothing", [](auto*) {}},
    {"status_alone", [](auto* r) { r->set_http_status(204); }},
    {"grpc_ok", [](auto* r) { r->set_grpc_code(0); }},
    {"empty_body",
     [](auto* r) {
       r->set_http_status(200);
       r->set_body("");
     }},
    {"texts",
     [](auto* r) {
       r->set_grpc_code(5);
       r->set_status_message("no such card \xe2\x82\xac");
       r->set_content_type("application/grpc");
     }},
    {"metadata",
     [](auto* r) {
       AddMetadata(r, "Request-Id", "b");
       AddMetadata(r, "request-id", std::string("\0\x01\xff", 3));
       AddMetadata(r, "Request-Id", "");
     }},
    {"one_mebibyte", [](auto* r) { r->set_body(AllBytes(kMebibyte)); }},
};

class ReplayTest : public ::testing::TestWithParam<ReplayRow> {};

TEST_P(ReplayTest, IsByteForByte) {
  ServiceFixture service;
  const auto acquired = service.Call(&Api::Reserve, Reserve("order-1"));
  v1::CompleteRequest request = Complete("order-1", acquired.response.lease().fencing_token());
  request.clear_response();
  GetParam().report(request.mutable_response());
  ASSERT_TRUE(service.Call(&Api::Complete, request).status.ok());
  v1::CachedResponse expected = request.response();
  expected.set_body_size(expected.body().size());

  const auto replayed = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  ASSERT_TRUE(replayed.response.operation().has_response());
  EXPECT_EQ(replayed.response.operation().response().SerializeAsString(),
            expected.SerializeAsString());
  const auto got = service.Call(&Api::GetOperation, Get("order-1"));
  EXPECT_EQ(got.response.operation().response().SerializeAsString(), expected.SerializeAsString());
  const auto inspected = service.Call(&AdminApi::InspectOperation, Inspect("order-1"));
  EXPECT_EQ(inspected.response.operation().response().SerializeAsString(),
            expected.SerializeAsString());
}

INSTANTIATE_TEST_SUITE_P(Rows, ReplayTest, ::testing::ValuesIn(kReplayRows),
                         [](const auto& row) { return row.param.name; });

TEST(ReplayOfReleaseTest, SucceedsWithAnotherDetail) {
  ServiceFixture service;
  const auto acquired = service.Call(&Api::Reserve, Reserve("order-1"));
  v1::ReleaseRequest request = Release("order-1", acquired.response.lease().fencing_token());
  request.set_detail("the connection was refused");
  ASSERT_TRUE(service.Call(&Api::Release, request).status.ok());
  for (const char* detail : {"the connection was refused", "", "connection refused"}) {
    request.set_detail(detail);
    const auto again = service.Call(&Api::Release, request);
    EXPECT_TRUE(again.status.ok()) << detail << ": " << again.status.error_message();
    EXPECT_EQ(again.response.state(), v1::OPERATION_STATE_FREED) << detail;
  }
}

TEST(ReplayLimitTest, ABodyOverTheLimitIsLeftOutAndNeverRefused) {
  ServiceFixture service;
  const auto acquired = service.Call(&Api::Reserve, Reserve("order-1"));
  const uint64_t token = acquired.response.lease().fencing_token();
  const auto completed =
      service.Call(&Api::Complete, Complete("order-1", token, AllBytes(kMebibyte + 1)));
  ASSERT_TRUE(completed.status.ok()) << completed.status.error_message();
  const auto replayed = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  EXPECT_EQ(replayed.response.next_step(), v1::NEXT_STEP_LOOK_UP_ANSWER);
  const v1::CachedResponse& kept = replayed.response.operation().response();
  EXPECT_FALSE(kept.has_body());
  EXPECT_TRUE(kept.body_omitted());
  EXPECT_EQ(kept.body_size(), kMebibyte + 1);
  EXPECT_EQ(kept.http_status(), 200);
  // What was said is still known: the same again is a repeat, another is not.
  const auto repeated =
      service.Call(&Api::Complete, Complete("order-1", token, AllBytes(kMebibyte + 1)));
  EXPECT_TRUE(repeated.response.already_complete());
  const auto other =
      service.Call(&Api::Complete, Complete("order-1", token, AllBytes(kMebibyte + 2)));
  EXPECT_EQ(other.reason, "ALREADY_COMPLETE");
}

constexpr char kMostBytes[] = "namespaces: [{name: payments, max_response_bytes: 3145728}]";

TEST(ReplayLimitTest, TheLargestBodyThatMayBeKeptIsReplayed) {
  ServiceFixture service({.config = kMostBytes});
  const auto acquired = service.Call(&Api::Reserve, Reserve("order-1"));
  // What the store takes is for all of the record.
  constexpr size_t kRestOfTheRecord = size_t{4} * 1024;
  const std::string body =
      AllBytes(std::min(3 * kMebibyte, service.traits().max_value_bytes - kRestOfTheRecord));
  ASSERT_TRUE(service
                  .Call(&Api::Complete,
                        Complete("order-1", acquired.response.lease().fencing_token(), body))
                  .status.ok());
  // A client with gRPC's default limit receives it.
  const auto replayed = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  ASSERT_TRUE(replayed.status.ok()) << replayed.status.error_message();
  EXPECT_TRUE(replayed.response.operation().response().body() == body);
}

// Such as etcd, which takes less than a namespace may allow.
TEST(ReplayLimitTest, OfAnAnswerTooLargeForTheStoreTheBodyAloneIsMissing) {
  ServiceFixture service({.config = kMostBytes});
  const auto acquired = service.Call(&Api::Reserve, Reserve("order-1"));
  const v1::CompleteRequest complete =
      Complete("order-1", acquired.response.lease().fencing_token(), AllBytes(3 * kMebibyte));
  ASSERT_TRUE(service.Call(&Api::Complete, complete).status.ok());
  const bool fits = service.traits().max_value_bytes > 3 * kMebibyte;
  const auto replayed = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  EXPECT_EQ(replayed.response.next_step(),
            fits ? v1::NEXT_STEP_USE_RESPONSE : v1::NEXT_STEP_LOOK_UP_ANSWER);
  const v1::CachedResponse& kept = replayed.response.operation().response();
  EXPECT_EQ(kept.has_body(), fits);
  EXPECT_EQ(kept.body_omitted(), !fits);
  EXPECT_EQ(kept.body_size(), 3 * kMebibyte);
  EXPECT_EQ(kept.http_status(), 200);
  EXPECT_TRUE(service.Call(&Api::Complete, complete).response.already_complete());
}

TEST(ReplayLimitTest, AFifteenMebibyteBodyIsTakenAndLeftOut) {
  ServiceFixture service;
  const auto acquired = service.Call(&Api::Reserve, Reserve("order-1"));
  const uint64_t token = acquired.response.lease().fencing_token();
  const auto completed =
      service.Call(&Api::Complete, Complete("order-1", token, std::string(15 * kMebibyte, 'x')));
  EXPECT_TRUE(completed.status.ok()) << completed.status.error_message();
}

TEST(ReplayLimitTest, TheAnswerIsForThoseWhoKnowTheRequest) {
  ServiceFixture service;
  const auto acquired = service.Call(&Api::Reserve, Reserve("order-1"));
  service.Call(&Api::Complete, Complete("order-1", acquired.response.lease().fencing_token()));
  v1::GetOperationRequest get = Get("order-1");
  get.clear_fingerprint();
  auto got = service.Call(&Api::GetOperation, get);
  EXPECT_EQ(got.response.operation().state(), v1::OPERATION_STATE_COMPLETE);
  EXPECT_FALSE(got.response.operation().has_response());
  EXPECT_EQ(got.response.operation().fingerprint().digest(), "");
  EXPECT_GT(got.response.operation().history_size(), 0);
  *get.mutable_fingerprint() = Print('e');
  got = service.Call(&Api::GetOperation, get);
  EXPECT_FALSE(got.response.operation().has_response());
}

TEST(ReplayLimitTest, AnExpiredAnswerIsGone) {
  ServiceFixture service;
  const auto acquired = service.Call(&Api::Reserve, Reserve("order-1"));
  service.Call(&Api::Complete, Complete("order-1", acquired.response.lease().fencing_token()));
  service.Advance(std::chrono::hours(24) - std::chrono::milliseconds(1));
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("order-1", "2")).response.outcome(),
            v1::RESERVE_OUTCOME_COMPLETED);
  service.Advance(std::chrono::milliseconds(1));
  const auto expired = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  EXPECT_EQ(expired.response.outcome(), v1::RESERVE_OUTCOME_EXPIRED);
  EXPECT_FALSE(expired.response.operation().has_response());
}

}  // namespace
}  // namespace idempotency::testing
