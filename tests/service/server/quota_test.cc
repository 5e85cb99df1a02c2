// Quotas as callers meet them.
#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "tests/service/server/commands.h"
#include "tests/service/server/pipeline_client.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string ConfigWith(const std::string& quotas) {
  return "namespaces: [{name: payments, " + quotas + "}, {name: mail}]\n";
}

class QuotaTest : public ::testing::Test {
 protected:
  explicit QuotaTest(const std::string& quotas = "quota: {open_operations: 2}",
                     const std::string& in_memory_because = "")
      : service_({.config = ConfigWith(quotas), .in_memory_because = in_memory_because}) {}

  CallResult<v1::ReserveResponse> Try(const std::string& key, const std::string& scope = "acct-1") {
    v1::ReserveRequest request = Reserve(key);
    request.mutable_id()->set_scope(scope);
    return service_.Call(&Api::Reserve, request);
  }
  uint64_t Token(const std::string& key) { return Try(key).response.lease().fencing_token(); }

  ServiceFixture service_;
};

TEST_F(QuotaTest, ANewKeyTooManyIsToldWhichQuotaAndWhenToTryAgain) {
  const uint64_t token = Token("a");
  EXPECT_TRUE(Try("b").status.ok());
  const auto refused = Try("c");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.reason, "QUOTA_EXCEEDED");
  EXPECT_EQ(refused.status.error_message(),
            "This namespace has as many open operations as its quota allows; complete, release or "
            "resolve some, and send the same call again.");
  EXPECT_EQ(refused.Find<google::rpc::RetryInfo>().retry_delay().seconds(), 1);
  EXPECT_EQ(service_.metrics().Read().quotas_exceeded, 1u);
  // What exists is answered and finished, whatever is used up.
  EXPECT_EQ(Try("a").response.outcome(), v1::RESERVE_OUTCOME_ALREADY_HELD);
  EXPECT_TRUE(service_.Call(&Api::Renew, Renew("a", token)).status.ok());
  EXPECT_TRUE(service_.Call(&Api::Complete, Complete("a", token)).status.ok());
  EXPECT_EQ(Try("a").response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  EXPECT_TRUE(Try("c").status.ok()) << "there is room again";
}

TEST_F(QuotaTest, HoldsForCommandsOfBatchesAndPipelinesOneByOne) {
  v1::BatchRequest batch;
  for (const char* key : {"a", "b", "c"}) *batch.add_commands()->mutable_reserve() = Reserve(key);
  const auto answered = service_.Call(&Api::Batch, batch);
  ASSERT_TRUE(answered.status.ok());
  EXPECT_TRUE(answered.response.results(1).has_reserve());
  const v1::Error& error = answered.response.results(2).error();
  EXPECT_EQ(error.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(error.reason(), v1::ERROR_REASON_QUOTA_EXCEEDED);
  EXPECT_EQ(error.retry_after().seconds(), 1);
  const uint64_t token = answered.response.results(0).reserve().lease().fencing_token();
  PipelineClient pipeline(&service_);
  pipeline.Send({Command(Reserve("d")), Command(Complete("a", token)), Command(Reserve("e"))});
  const auto results = pipeline.AwaitByTag(3);
  EXPECT_EQ(results.at(1).error().reason(), v1::ERROR_REASON_QUOTA_EXCEEDED);
  EXPECT_TRUE(results.at(2).has_complete());
  EXPECT_TRUE(results.at(3).has_reserve()) << "in the order sent";
}

TEST_F(QuotaTest, AReloadTakesUpAndTakesAway) {
  Try("a");
  Try("b");
  EXPECT_EQ(Try("c").reason, "QUOTA_EXCEEDED");
  ASSERT_TRUE(service_.Reconfigure(ConfigWith("quota: {open_operations: 3}")).ok());
  EXPECT_TRUE(Try("c").status.ok());
  EXPECT_EQ(Try("d").reason, "QUOTA_EXCEEDED");
  ASSERT_TRUE(service_.Reconfigure(ConfigWith("description: no quota")).ok());
  EXPECT_TRUE(Try("d").status.ok());
  // Counted also while nothing was limited.
  ASSERT_TRUE(service_.Reconfigure(ConfigWith("quota: {open_operations: 4}")).ok());
  EXPECT_EQ(Try("e").reason, "QUOTA_EXCEEDED");
}

TEST_F(QuotaTest, AnotherNamespaceHasItsOwn) {
  Try("a");
  Try("b");
  v1::ReserveRequest other = Reserve("c");
  other.mutable_id()->set_namespace_("mail");
  EXPECT_TRUE(service_.Call(&Api::Reserve, other).status.ok());
}

class ScopeQuotaTest : public QuotaTest {
 protected:
  ScopeQuotaTest() : QuotaTest("scope_quota: {reserves_per_second: 2, open_operations: 3}") {}
};

TEST_F(ScopeQuotaTest, AScopeDoesNotUseUpWhatIsOthers) {
  Try("a");
  Try("b");
  const auto refused = Try("c");
  EXPECT_EQ(refused.reason, "QUOTA_EXCEEDED");
  EXPECT_EQ(refused.status.error_message(),
            "This scope sends more Reserves a second than its quota allows for new keys; send the "
            "same call again later.");
  const google::protobuf::Duration delay = refused.Find<google::rpc::RetryInfo>().retry_delay();
  EXPECT_EQ(milliseconds(delay.seconds() * 1000 + delay.nanos() / 1'000'000), milliseconds(500));
  EXPECT_TRUE(Try("c", "acct-2").status.ok());
  service_.Advance(milliseconds(500));
  EXPECT_TRUE(Try("c").status.ok());
  service_.Advance(seconds(10));
  EXPECT_EQ(Try("d").status.error_message(),
            "This scope has as many open operations as its quota allows; complete, release or "
            "resolve some, and send the same call again.");
}

class BytesQuotaTest : public QuotaTest {
 protected:
  BytesQuotaTest()
      : QuotaTest("quota: {stored_bytes: 100000}",
                  "shared engines do not know how many bytes a namespace stores") {}
};

TEST_F(BytesQuotaTest, ACompletionLandsThatNoNewKeyWouldFitBeside) {
  const uint64_t token = Token("a");
  EXPECT_TRUE(Try("b").status.ok());
  EXPECT_TRUE(
      service_.Call(&Api::Complete, Complete("a", token, std::string(200'000, 'x'))).status.ok());
  service_.Advance(seconds(1));
  const auto refused = Try("c");
  EXPECT_EQ(refused.status.error_message(),
            "This namespace stores as many bytes as its quota allows; send the same call again "
            "when some have expired.");
  EXPECT_EQ(refused.Find<google::rpc::RetryInfo>().retry_delay().seconds(), 60);
  EXPECT_EQ(Try("a").response.operation().response().body().size(), 200'000u);
}

}  // namespace
}  // namespace idempotency::testing
