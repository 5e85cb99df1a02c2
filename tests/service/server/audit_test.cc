// Administrative acts and denials, as the audit of a running service tells of them.
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "idempotency/engine/v1/engine_service.grpc.pb.h"
#include "service/audit_log.h"
#include "tests/service/server/commands.h"
#include "tests/service/server/pipeline_client.h"
#include "tests/support/service_fixture.h"
#include "tests/support/temp_directory.h"

namespace idempotency::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Lets nobody do anything in the namespace "closed".
class ClosedNamespace final : public service::AccessPolicy {
 public:
  bool Allows(const service::Principal&, service::Permission, std::string_view name_space,
              std::optional<std::string_view>) const override {
    return name_space != "closed";
  }
};

class AuditTest : public ::testing::Test {
 protected:
  // The service, with its audit on this sink.
  ServiceFixture& Start(const std::string& sink) {
    auto audit = service::AuditLog::Open(
        {sink, [] { return core::Time(std::chrono::seconds(1'800'000'000)); }, &metrics_});
    EXPECT_TRUE(audit.ok()) << audit.status();
    audit_ = *std::move(audit);
    service_ = std::make_unique<ServiceFixture>(ServiceFixture::Options{
        .access = &access_,
        .adjust = [this](service::ServerParts* parts) { parts->audit = audit_.get(); }});
    return *service_;
  }
  ServiceFixture& Start() { return Start(path()); }

  struct Line {
    std::string audit, action, key, result, id, peer, actor;
  };
  std::vector<Line> Lines() {
    audit_->Flush();
    std::vector<Line> lines;
    std::ifstream in(path());
    for (std::string text; std::getline(in, text);) {
      google::protobuf::Struct line;
      EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, &line).ok()) << text;
      const auto field = [&](const char* name) {
        const auto value = line.fields().find(name);
        return value == line.fields().end() ? std::string() : value->second.string_value();
      };
      lines.push_back({field("audit"), field("action"), field("key"), field("result"), field("id"),
                       field("peer"), field("actor")});
    }
    return lines;
  }
  // The lines of all acts in short, and of all denials.
  std::vector<std::string> Told() {
    std::vector<std::string> told;
    for (const Line& line : Lines()) {
      told.push_back(line.audit + " " + line.action + " " + line.key + " " + line.result);
    }
    return told;
  }

  static grpc::Status CheckEngine(const ServiceFixture& service) {
    grpc::ClientContext context;
    engine::v1::CheckEngineResponse response;
    return engine::v1::EngineService::NewStub(service.NewChannel())
        ->CheckEngine(&context, {}, &response);
  }

  std::string path() const { return directory_.file("audit"); }

  const TempDirectory directory_;
  ClosedNamespace access_;
  service::CountingMetrics metrics_;
  std::unique_ptr<service::AuditLog> audit_;
  std::unique_ptr<ServiceFixture> service_;
};

TEST_F(AuditTest, AnActHasALineWhenItBeginsAndOneThatSaysHowItEnded) {
  ServiceFixture& service = Start();
  const uint64_t token = service.Call(&Api::Reserve, Reserve("k")).response.lease().fencing_token();
  EXPECT_TRUE(service.Call(&Api::MarkUnresolved, Mark("k", token)).status.ok());
  EXPECT_THAT(Lines(), IsEmpty()) << "what callers do is no administrative act";
  service.Advance(std::chrono::hours(1));
  EXPECT_TRUE(service.Call(&AdminApi::ResolveOperation, Resolve("k")).status.ok());
  EXPECT_TRUE(service.Call(&AdminApi::InspectOperation, Inspect("k")).status.ok());
  v1::ListOperationsRequest list;
  list.set_namespace_("payments");
  EXPECT_TRUE(service.Call(&AdminApi::ListOperations, list).status.ok());
  EXPECT_TRUE(service.Call(&AdminApi::ListNamespaces, v1::ListNamespacesRequest()).status.ok());
  EXPECT_TRUE(service.Call(&AdminApi::DeleteOperation, Delete("k")).status.ok());
  EXPECT_THAT(Told(), ::testing::ElementsAre(
                          "act resolve_operation k begins", "act_ended resolve_operation  OK",
                          "act inspect_operation k begins", "act_ended inspect_operation  OK",
                          "act list_operations  begins", "act_ended list_operations  OK",
                          "act list_namespaces  begins", "act_ended list_namespaces  OK",
                          "act delete_operation k begins", "act_ended delete_operation  OK"));
  const std::vector<Line> lines = Lines();
  EXPECT_EQ(lines[0].id, lines[1].id);
  EXPECT_EQ(lines[0].actor, "alice");
  EXPECT_THAT(lines[0].peer, HasSubstr("127.0.0.1"));
}

TEST_F(AuditTest, AnActThatHasNoEffectSaysWhy) {
  ServiceFixture& service = Start();
  service.Call(&Api::Reserve, Reserve("k"));
  EXPECT_FALSE(service.Call(&AdminApi::DeleteOperation, Delete("k")).status.ok());
  EXPECT_FALSE(service.Call(&AdminApi::ResolveOperation, Resolve("none")).status.ok());
  v1::ListOperationsRequest list;
  list.set_namespace_("payments");
  list.set_page_token("nonsense");
  EXPECT_FALSE(service.Call(&AdminApi::ListOperations, list).status.ok());
  // Nothing is begun by a request that is not valid.
  EXPECT_FALSE(
      service.Call(&AdminApi::InspectOperation, v1::InspectOperationRequest()).status.ok());
  EXPECT_THAT(Told(), ::testing::ElementsAre("act delete_operation k begins",
                                             "act_ended delete_operation  LEASE_LIVE",
                                             "act resolve_operation none begins",
                                             "act_ended resolve_operation  OPERATION_NOT_FOUND",
                                             "act list_operations  begins",
                                             "act_ended list_operations  INVALID_FIELD"));
}

TEST_F(AuditTest, NothingIsDoneThatCannotBeWrittenDown) {
  ServiceFixture& service = Start("/dev/full");
  const uint64_t token = service.Call(&Api::Reserve, Reserve("k")).response.lease().fencing_token();
  EXPECT_TRUE(service.Call(&Api::MarkUnresolved, Mark("k", token)).status.ok());
  service.Advance(std::chrono::hours(1));
  const auto refused = service.Call(&AdminApi::ResolveOperation, Resolve("k"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason, "STORE_UNAVAILABLE");
  EXPECT_EQ(refused.status.error_message(),
            "The audit cannot be written, and so the call was not carried out; have the service's "
            "operators mend --audit_log, and send the same call again.");
  EXPECT_EQ(refused.Find<google::rpc::RetryInfo>().retry_delay().seconds(), 1);
  for (const bool force : {false, true}) {
    EXPECT_EQ(service.Call(&AdminApi::DeleteOperation, Delete("k", force)).status.error_code(),
              grpc::StatusCode::UNAVAILABLE);
  }
  v1::ListOperationsRequest list;
  list.set_namespace_("payments");
  const auto listed = service.Call(&AdminApi::ListOperations, list);
  EXPECT_EQ(listed.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(listed.response.operations_size(), 0);
  EXPECT_EQ(service.Call(&AdminApi::InspectOperation, Inspect("k")).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(
      service.Call(&AdminApi::ListNamespaces, v1::ListNamespacesRequest()).status.error_code(),
      grpc::StatusCode::UNAVAILABLE);
  // It is as it was, and callers go on.
  EXPECT_EQ(service.Call(&Api::GetOperation, Get("k")).response.operation().state(),
            v1::OPERATION_STATE_UNRESOLVED);
  EXPECT_TRUE(service.Call(&Api::Complete, Complete("k", token)).status.ok());
  EXPECT_EQ(metrics_.Read().audit_failures[static_cast<size_t>(service::AuditLine::kAct)], 6u);
}

TEST_F(AuditTest, ADenialHasALineWhateverWayTheCommandCame) {
  ServiceFixture& service = Start();
  v1::ReserveRequest closed = Reserve("k");
  closed.mutable_id()->set_namespace_("closed");
  EXPECT_EQ(service.Call(&Api::Reserve, closed).reason, "ACCESS_DENIED");
  v1::BatchRequest batch;
  *batch.add_commands()->mutable_reserve() = closed;
  *batch.add_commands()->mutable_reserve() = Reserve("open");
  *batch.add_commands()->mutable_get_operation()->mutable_id() = closed.id();
  EXPECT_TRUE(service.Call(&Api::Batch, batch).status.ok());
  PipelineClient pipeline(&service);
  pipeline.Send({Command(closed)});
  pipeline.Await(1);
  v1::DeleteOperationRequest remove = Delete("k");
  *remove.mutable_id() = closed.id();
  EXPECT_EQ(service.Call(&AdminApi::DeleteOperation, remove).reason, "ACCESS_DENIED");
  v1::ListOperationsRequest list;
  list.set_namespace_("closed");
  EXPECT_EQ(service.Call(&AdminApi::ListOperations, list).reason, "ACCESS_DENIED");
  v1::GetNamespaceRequest get;
  get.set_name("closed");
  EXPECT_EQ(service.Call(&Api::GetNamespace, get).reason, "ACCESS_DENIED");
  EXPECT_THAT(Told(),
              ::testing::ElementsAre(
                  "denial reserve k ACCESS_DENIED", "denial reserve k ACCESS_DENIED",
                  "denial get_operation k ACCESS_DENIED", "denial reserve k ACCESS_DENIED",
                  "denial delete_operation k ACCESS_DENIED",
                  "denial list_operations  ACCESS_DENIED", "denial get_namespace  ACCESS_DENIED"));
}

TEST_F(AuditTest, ACheckOfTheEngineIsAnAct) {
  ServiceFixture& service = Start();
  EXPECT_TRUE(CheckEngine(service).ok());
  EXPECT_THAT(Told(),
              ::testing::ElementsAre("act check_engine  begins", "act_ended check_engine  OK"));
  EXPECT_THAT(Lines()[0].peer, HasSubstr("127.0.0.1"));
}

TEST_F(AuditTest, NoCheckOfTheEngineThatCannotBeWrittenDown) {
  ServiceFixture& service = Start("/dev/full");
  const grpc::Status refused = CheckEngine(service);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(), HasSubstr("The audit cannot be written"));
}

// The client gives up between the line and the act.
TEST_F(AuditTest, AnActWhoseCallerHasGoneIsStillToldToTheEnd) {
  ServiceFixture& service = Start();
  service.Call(&Api::Reserve, Reserve("k"));
  grpc::ClientContext context;
  v1::InspectOperationResponse response;
  context.TryCancel();
  service.admin()->InspectOperation(&context, Inspect("k"), &response);
  EXPECT_TRUE(service.Call(&AdminApi::InspectOperation, Inspect("k")).status.ok());
  service.Stop();
  size_t begun = 0;
  size_t ended = 0;
  for (const Line& line : Lines()) {
    begun += line.audit == "act" ? 1 : 0;
    ended += line.audit == "act_ended" ? 1 : 0;
  }
  EXPECT_EQ(begun, ended);
  EXPECT_GE(begun, 1u);
}

}  // namespace
}  // namespace idempotency::testing
