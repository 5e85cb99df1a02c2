// CheckEngine, as a caller sees it.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/engine/v1/engine_service.grpc.pb.h"
#include "tests/support/service_fixture.h"
#include "tests/support/temp_directory.h"

namespace idempotency::testing {
namespace {

using engine::v1::CheckEngineResponse;
using engine::v1::EngineService;

CheckEngineResponse CheckOf(const ServiceFixture& service) {
  grpc::ClientContext context;
  CheckEngineResponse response;
  const grpc::Status status =
      EngineService::NewStub(service.NewChannel())->CheckEngine(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

engine::v1::Finding FindingOf(const CheckEngineResponse& response, const std::string& id) {
  for (const engine::v1::Finding& finding : response.findings()) {
    if (finding.id() == id) return finding;
  }
  ADD_FAILURE() << id << " is not in " << response.ShortDebugString();
  return {};
}

TEST(CheckEngineTest, TellsEachFindingWithWhyAndWhatToDo) {
  ServiceFixture service({.in_memory_because = "no other engine has these findings"});
  const CheckEngineResponse response = CheckOf(service);
  EXPECT_EQ(response.engine(), "memory");
  const engine::v1::Finding lost = FindingOf(response, "memory.durability");
  EXPECT_EQ(lost.severity(), engine::v1::SEVERITY_GUARANTEE_FAILS);
  EXPECT_NE(lost.seen(), "");
  EXPECT_NE(lost.why(), "");
  EXPECT_NE(lost.next_step(), "");
  const engine::v1::Finding trusted = FindingOf(response, "clock.trusted");
  EXPECT_EQ(trusted.severity(), engine::v1::SEVERITY_OK);
  EXPECT_EQ(trusted.next_step(), "");
  // By the service's clock, which is the test's.
  EXPECT_EQ(response.check_time().seconds(),
            service.clock()->Read().latest.time_since_epoch().count() / 1000);
}

TEST(CheckEngineTest, AClockInDoubtIsTold) {
  ServiceFixture service;
  core::Now now = service.clock()->Read();
  now.in_doubt = true;
  service.clock()->Set(now);
  EXPECT_EQ(FindingOf(CheckOf(service), "clock.trusted").severity(), engine::v1::SEVERITY_WARNING);
}

TEST(CheckEngineTest, OfARocksDb) {
  const TempDirectory directory;
  ServiceFixture service({.data_dir = directory.file("data")});
  const CheckEngineResponse response = CheckOf(service);
  EXPECT_EQ(response.engine(), "rocksdb");
  EXPECT_EQ(FindingOf(response, "rocksdb.watermark").severity(), engine::v1::SEVERITY_OK);
}

}  // namespace
}  // namespace idempotency::testing
