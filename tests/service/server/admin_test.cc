// Operators' methods, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/service/server/commands.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

uint64_t Acquire(ServiceFixture* service, const std::string& key) {
  return service->Call(&Api::Reserve, v1::ReserveRequest(Reserve(key)))
      .response.lease()
      .fencing_token();
}

void MakeUnresolved(ServiceFixture* service, const std::string& key) {
  const uint64_t token = Acquire(service, key);
  ASSERT_TRUE(service->Call(&Api::MarkUnresolved, Mark(key, token)).status.ok());
}

v1::ListOperationsRequest ListAll() {
  v1::ListOperationsRequest request;
  request.set_namespace_("payments");
  return request;
}

std::vector<std::string> Keys(const v1::ListOperationsResponse& page) {
  std::vector<std::string> keys;
  for (const v1::Operation& operation : page.operations()) keys.push_back(operation.id().key());
  return keys;
}

TEST(InspectTest, ShowsEverything) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "k");
  service.Call(&Api::Complete, Complete("k", token, "the answer"));
  const auto inspected = service.Call(&AdminApi::InspectOperation, Inspect("k"));
  ASSERT_TRUE(inspected.status.ok()) << inspected.status.error_message();
  EXPECT_EQ(inspected.response.fencing_token(), token);
  EXPECT_EQ(inspected.response.operation().response().body(), "the answer");
  EXPECT_EQ(inspected.response.operation().fingerprint().digest(), Print().digest());
  EXPECT_EQ(inspected.response.operation().history_size(), 2);
  EXPECT_EQ(inspected.response.next_step(), v1::NEXT_STEP_USE_RESPONSE);
  EXPECT_FALSE(inspected.response.detail().empty());
}

TEST(ResolveTest, SettlesTheUnknown) {
  ServiceFixture service;
  MakeUnresolved(&service, "k");
  v1::ResolveOperationRequest request = Resolve("k");
  request.mutable_completed()->mutable_response()->set_body("what the provider says");
  request.set_provider_request_id("ch_1");
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto resolved = service.Call(&AdminApi::ResolveOperation, request);
    ASSERT_TRUE(resolved.status.ok()) << resolved.status.error_message();
    EXPECT_EQ(resolved.response.operation().state(), v1::OPERATION_STATE_COMPLETE);
    EXPECT_FALSE(resolved.response.operation().has_response());
    EXPECT_EQ(resolved.response.operation().provider_request_id(), "ch_1");
  }
  const auto replayed = service.Call(&Api::Reserve, Reserve("k", "2"));
  EXPECT_EQ(replayed.response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  EXPECT_EQ(replayed.response.operation().response().body(), "what the provider says");
}

TEST(ResolveTest, AbandonedMeansStop) {
  ServiceFixture service;
  MakeUnresolved(&service, "k");
  v1::ResolveOperationRequest request = Resolve("k");
  request.mutable_abandoned();
  ASSERT_TRUE(service.Call(&AdminApi::ResolveOperation, request).status.ok());
  const auto replayed = service.Call(&Api::Reserve, Reserve("k", "2"));
  EXPECT_EQ(replayed.response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  EXPECT_EQ(replayed.response.next_step(), v1::NEXT_STEP_STOP);
  EXPECT_EQ(replayed.response.operation().verdict(), v1::VERDICT_ABANDONED);
}

TEST(ResolveTest, NotExecutedFreesTheKeyOnceItIsSettled) {
  ServiceFixture service;
  MakeUnresolved(&service, "k");
  v1::ResolveOperationRequest request = Resolve("k");
  request.mutable_not_executed();
  service.Advance(seconds(60) - milliseconds(1));
  EXPECT_EQ(service.Call(&AdminApi::ResolveOperation, request).reason, "NOT_SETTLED");
  service.Advance(milliseconds(1));
  EXPECT_TRUE(service.Call(&AdminApi::ResolveOperation, request).status.ok());
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("k", "2")).response.outcome(),
            v1::RESERVE_OUTCOME_ACQUIRED);
}

TEST(ResolveTest, ActsOnWhatWasSeen) {
  ServiceFixture service;
  MakeUnresolved(&service, "k");
  const std::string etag =
      service.Call(&AdminApi::InspectOperation, Inspect("k")).response.operation().etag();
  v1::ResolveOperationRequest request = Resolve("k");
  request.set_etag(etag);
  EXPECT_TRUE(service.Call(&AdminApi::ResolveOperation, request).status.ok());
  v1::DeleteOperationRequest del = Delete("k");
  del.set_etag(etag);
  EXPECT_EQ(service.Call(&AdminApi::DeleteOperation, del).reason, "ETAG_MISMATCH");
}

TEST(DeleteTest, ErasesContentAndRefusesALiveLease) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "k");
  EXPECT_EQ(service.Call(&AdminApi::DeleteOperation, Delete("k", true)).reason, "LEASE_LIVE");
  service.Call(&Api::Complete, Complete("k", token));
  EXPECT_TRUE(service.Call(&AdminApi::DeleteOperation, Delete("k")).status.ok());
  EXPECT_TRUE(service.Call(&AdminApi::DeleteOperation, Delete("k")).status.ok());
  const auto next = service.Call(&Api::Reserve, Reserve("k", "2"));
  EXPECT_EQ(next.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_GT(next.response.lease().fencing_token(), token);
  EXPECT_TRUE(service.Call(&AdminApi::DeleteOperation, Delete("absent")).status.ok());
}

TEST(DeleteTest, OfAnOpenOperationNeedsForce) {
  ServiceFixture service;
  MakeUnresolved(&service, "k");
  EXPECT_EQ(service.Call(&AdminApi::DeleteOperation, Delete("k")).reason, "WRONG_STATE");
  EXPECT_TRUE(service.Call(&AdminApi::DeleteOperation, Delete("k", true)).status.ok());
}

TEST(ListTest, FiltersAndHidesContent) {
  ServiceFixture service;
  v1::ReserveRequest reserve = Reserve("b-pending");
  reserve.mutable_owner()->set_operation_ref("run-7");
  service.Call(&Api::Reserve, reserve);
  service.Call(&Api::Complete, Complete("a-complete", Acquire(&service, "a-complete")));
  MakeUnresolved(&service, "a-unresolved");
  service.Call(&Api::Release, Release("a-freed", Acquire(&service, "a-freed")));

  v1::ListOperationsRequest request = ListAll();
  const auto all = service.Call(&AdminApi::ListOperations, request);
  ASSERT_TRUE(all.status.ok()) << all.status.error_message();
  EXPECT_THAT(Keys(all.response),
              ::testing::UnorderedElementsAre("a-complete", "a-unresolved", "b-pending"));
  for (const v1::Operation& operation : all.response.operations()) {
    EXPECT_FALSE(operation.has_response());
    EXPECT_EQ(operation.history_size(), 0);
    EXPECT_EQ(operation.fingerprint().digest(), "");
    EXPECT_FALSE(operation.etag().empty());
  }
  request.add_states(v1::OPERATION_STATE_FREED);
  EXPECT_THAT(Keys(service.Call(&AdminApi::ListOperations, request).response),
              ElementsAre("a-freed"));
  request = ListAll();
  request.set_operation_ref("run-7");
  EXPECT_THAT(Keys(service.Call(&AdminApi::ListOperations, request).response),
              ElementsAre("b-pending"));
  request = ListAll();
  request.set_scope("acct-1");
  request.set_key_prefix("a-");
  EXPECT_THAT(Keys(service.Call(&AdminApi::ListOperations, request).response),
              ::testing::UnorderedElementsAre("a-complete", "a-unresolved"));
  request.set_scope("acct-2");
  EXPECT_THAT(Keys(service.Call(&AdminApi::ListOperations, request).response), ElementsAre());
}

TEST(ListTest, PagesThroughTheOldestUnknownFirst) {
  ServiceFixture service;
  for (const char* key : {"c", "a", "b"}) {
    MakeUnresolved(&service, key);
    service.Advance(milliseconds(10));
  }
  v1::ListOperationsRequest request = ListAll();
  request.add_states(v1::OPERATION_STATE_UNRESOLVED);
  request.set_page_size(2);
  const auto first = service.Call(&AdminApi::ListOperations, request);
  EXPECT_THAT(Keys(first.response), ElementsAre("c", "a"));
  request.set_page_token(first.response.next_page_token());
  const auto second = service.Call(&AdminApi::ListOperations, request);
  EXPECT_THAT(Keys(second.response), ElementsAre("b"));
  EXPECT_EQ(second.response.next_page_token(), "");
}

TEST(ListTest, RefusesATokenOfAnotherFilter) {
  ServiceFixture service;
  for (const char* key : {"a", "b"}) Acquire(&service, key);
  v1::ListOperationsRequest request = ListAll();
  request.set_page_size(1);
  const auto first = service.Call(&AdminApi::ListOperations, request);
  ASSERT_FALSE(first.response.next_page_token().empty());
  request.set_page_token(first.response.next_page_token());
  request.set_namespace_("other");
  const auto refused = service.Call(&AdminApi::ListOperations, request);
  EXPECT_EQ(refused.reason, "INVALID_FIELD");
  EXPECT_EQ(refused.Find<google::rpc::BadRequest>().field_violations(0).field(), "page_token");
}

TEST(ListTest, APageStaysWithinItsBytes) {
  ServiceFixture service;
  // Each of these is about 2 KiB in a list.
  constexpr int kOperations = 700;
  const std::string pad(200, 'p');
  v1::BatchRequest batch;
  for (int i = 0; i < kOperations; ++i) {
    v1::ReserveRequest* reserve = batch.add_commands()->mutable_reserve();
    *reserve = Reserve(std::to_string(i) + "-" + pad);
    (*reserve->mutable_labels())["l"] = std::string(1000, 'l');
    reserve->mutable_owner()->set_worker(pad);
    reserve->mutable_owner()->set_operation_ref(pad);
    reserve->mutable_owner()->set_traceparent(pad);
  }
  ASSERT_TRUE(service.Call(&Api::Batch, batch).status.ok());
  v1::ListOperationsRequest request = ListAll();
  request.set_page_size(1000);
  int seen = 0;
  do {
    const auto page = service.Call(&AdminApi::ListOperations, request);
    ASSERT_TRUE(page.status.ok()) << page.status.error_message();
    EXPECT_LE(page.response.ByteSizeLong(), size_t{1024} * 1024);
    seen += page.response.operations_size();
    request.set_page_token(page.response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(seen, kOperations);
}

TEST(NamespacesTest, AreToldWithTheirPolicies) {
  ServiceFixture service({.config = R"(
namespaces:
  - name: a
    retention: 1h
  - name: b
  - name: c
)"});
  v1::GetNamespaceRequest request;
  request.set_name("a");
  const auto got = service.Call(&Api::GetNamespace, request);
  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_EQ(got.response.namespace_().name(), "a");
  EXPECT_EQ(got.response.namespace_().retention().seconds(), 3600);
  request.set_name("A!");
  EXPECT_EQ(service.Call(&Api::GetNamespace, request).reason, "INVALID_FIELD");

  v1::ListNamespacesRequest list;
  list.set_page_size(2);
  const auto first = service.Call(&AdminApi::ListNamespaces, list);
  ASSERT_EQ(first.response.namespaces_size(), 2);
  EXPECT_EQ(first.response.namespaces(0).name(), "a");
  list.set_page_token(first.response.next_page_token());
  const auto second = service.Call(&AdminApi::ListNamespaces, list);
  ASSERT_EQ(second.response.namespaces_size(), 1);
  EXPECT_EQ(second.response.namespaces(0).name(), "c");
  EXPECT_EQ(second.response.next_page_token(), "");
  list.set_page_token("???");
  EXPECT_EQ(service.Call(&AdminApi::ListNamespaces, list).reason, "INVALID_FIELD");
  list.clear_page_token();
  list.set_page_size(-1);
  EXPECT_EQ(service.Call(&AdminApi::ListNamespaces, list).reason, "INVALID_FIELD");
}

TEST(NamespacesTest, AllWorkWithoutAFile) {
  ServiceFixture service;
  v1::GetNamespaceRequest request;
  request.set_name("whatever");
  const auto got = service.Call(&Api::GetNamespace, request);
  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_EQ(got.response.namespace_().name(), "whatever");
  EXPECT_EQ(got.response.namespace_().default_lease_duration().seconds(), 30);
}

}  // namespace
}  // namespace idempotency::testing
