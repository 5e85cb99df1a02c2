// Texts that are not UTF-8, sent by clients whose protobuf does not mind.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/service/server/commands.h"
#include "tests/service/server/pipeline_client.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

constexpr char kBad[] = "M\xfcnchen";
constexpr char kMended[] = "M\xEF\xBF\xBDnchen";

uint64_t Acquire(ServiceFixture* service, const std::string& key) {
  return service->Call(&Api::Reserve, v1::ReserveRequest(Reserve(key)))
      .response.lease()
      .fencing_token();
}

template <typename Response>
std::string FieldOf(const CallResult<Response>& refused) {
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.reason, "INVALID_FIELD");
  EXPECT_NE(refused.status.error_message().find("UTF-8"), std::string::npos);
  const auto details = refused.template Find<google::rpc::BadRequest>();
  return details.field_violations_size() == 0 ? "" : details.field_violations(0).field();
}

TEST(NotUtf8Test, RefusesNoComplete) {
  ServiceFixture service;
  v1::CompleteRequest request = Complete("k", Acquire(&service, "k"));
  request.set_provider_request_id(kBad);
  request.mutable_response()->set_content_type(kBad);
  ASSERT_TRUE(service.Call(&Api::Complete, request).status.ok());
  EXPECT_TRUE(service.Call(&Api::Complete, request).response.already_complete());
  const auto got = service.Call(&Api::GetOperation, Get("k"));
  EXPECT_EQ(got.response.operation().provider_request_id(), kMended);
  EXPECT_EQ(got.response.operation().response().content_type(), kMended);
  EXPECT_EQ(got.response.operation().response().body(), "done");
}

TEST(NotUtf8Test, RefusesNoReleaseAndNoMark) {
  ServiceFixture service;
  v1::ReleaseRequest release = Release("r", Acquire(&service, "r"));
  release.set_detail(kBad);
  EXPECT_TRUE(service.Call(&Api::Release, release).status.ok());
  v1::MarkUnresolvedRequest mark = Mark("m", Acquire(&service, "m"));
  mark.set_detail(kBad);
  mark.set_provider_request_id(kBad);
  EXPECT_TRUE(service.Call(&Api::MarkUnresolved, mark).status.ok());
  const auto inspected = service.Call(&AdminApi::InspectOperation, Inspect("m"));
  EXPECT_EQ(inspected.response.operation().provider_request_id(), kMended);
}

TEST(NotUtf8Test, IsNamedInAnId) {
  ServiceFixture service;
  EXPECT_EQ(FieldOf(service.Call(&Api::Reserve, Reserve(kBad))), "id.key");
  EXPECT_EQ(FieldOf(service.Call(&Api::Complete, Complete(kBad, 1))), "id.key");
  v1::ReleaseRequest release = Release("k", 1);
  release.mutable_id()->set_scope(kBad);
  EXPECT_EQ(FieldOf(service.Call(&Api::Release, release)), "id.scope");
  release.mutable_id()->set_namespace_(kBad);
  EXPECT_EQ(FieldOf(service.Call(&Api::Release, release)), "id.namespace");
}

TEST(NotUtf8Test, IsNamedInRequestsThatFinishNothing) {
  ServiceFixture service;
  v1::ReserveRequest reserve = Reserve("k");
  reserve.mutable_owner()->set_worker(kBad);
  EXPECT_EQ(FieldOf(service.Call(&Api::Reserve, reserve)), "owner.worker");
  reserve = Reserve("k");
  (*reserve.mutable_labels())["name"] = kBad;
  EXPECT_EQ(FieldOf(service.Call(&Api::Reserve, reserve)), "labels");
  v1::ResolveOperationRequest resolve = Resolve("k");
  resolve.set_reason(kBad);
  EXPECT_EQ(FieldOf(service.Call(&AdminApi::ResolveOperation, resolve)), "reason");
  v1::ListOperationsRequest list;
  list.set_namespace_("payments");
  list.set_key_prefix(kBad);
  EXPECT_EQ(FieldOf(service.Call(&AdminApi::ListOperations, list)), "key_prefix");
  v1::GetNamespaceRequest get;
  get.set_name(kBad);
  EXPECT_EQ(FieldOf(service.Call(&Api::GetNamespace, get)), "name");
}

// Commands that must and must not be refused, beside one that has no fault.
std::vector<v1::Command> Commands(ServiceFixture* service) {
  v1::CompleteRequest complete = Complete("c", Acquire(service, "c"));
  complete.set_provider_request_id(kBad);
  v1::ReserveRequest reserve = Reserve("r");
  reserve.mutable_owner()->set_operation_ref(kBad);
  v1::ReleaseRequest release = Release(kBad, 1);
  release.set_detail(kBad);
  std::vector<v1::Command> commands = {Command(complete), Command(reserve), Command(release),
                                       Command(Reserve("fine"))};
  for (size_t i = 0; i < commands.size(); ++i) commands[i].set_tag(i + 1);
  return commands;
}

void ExpectEachByItself(const std::map<uint64_t, v1::Result>& results) {
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results.at(1).complete().operation().provider_request_id(), kMended)
      << results.at(1).DebugString();
  EXPECT_EQ(results.at(2).error().reason(), v1::ERROR_REASON_INVALID_FIELD);
  EXPECT_EQ(results.at(2).error().field(), "owner.operation_ref");
  EXPECT_EQ(results.at(3).error().field(), "id.key");
  EXPECT_EQ(results.at(4).reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
}

TEST(NotUtf8Test, HarmsNoOtherCommandOfABatch) {
  ServiceFixture service;
  v1::BatchRequest request;
  for (v1::Command& command : Commands(&service)) *request.add_commands() = std::move(command);
  const auto batch = service.Call(&Api::Batch, request);
  ASSERT_TRUE(batch.status.ok()) << batch.status.error_message();
  std::map<uint64_t, v1::Result> results;
  for (const v1::Result& result : batch.response.results()) results[result.tag()] = result;
  ExpectEachByItself(results);
}

TEST(NotUtf8Test, HarmsNoOtherCommandOfAPipeline) {
  ServiceFixture service;
  PipelineClient client(&service);
  client.Send(Commands(&service));
  ExpectEachByItself(client.AwaitByTag(4));
  EXPECT_TRUE(client.Close().status.ok());
}

}  // namespace
}  // namespace idempotency::testing
