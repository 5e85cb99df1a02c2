// resolve from-csv: nothing is sent before all of it is understood, and everything that was not
// settled is told.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kThree[] =
    "namespace,scope,key,resolution,verdict\n"
    "payments,acct-1,order-1,completed,succeeded\n"
    "payments,acct-1,order-2,not-executed,\n"
    "payments,acct-1,order-3,abandoned,\n";

RunResult Send(FakeServer& server, const std::string& csv, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"resolve", "from-csv", "-", "--reason=export of today"};
  words.insert(words.end(), more.begin(), more.end());
  return server.Run(words, csv);
}

TEST(ResolveCsvCommand, SettlesEveryLine) {
  FakeServer server;
  std::vector<std::string> keys;
  server.admin.resolve.answer = [&](grpc::ServerContext*, const auto& request, auto*) {
    EXPECT_EQ(request.actor(), "ann");
    EXPECT_EQ(request.reason(), "export of today");
    keys.push_back(request.id().key());
    return grpc::Status::OK;
  };
  const RunResult run = Send(server, kThree);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(keys, ElementsAre("order-1", "order-2", "order-3"));
  EXPECT_EQ(run.out, "3 settled, 0 not, of 3 lines\n");
}

TEST(ResolveCsvCommand, GoesOnBehindARefusalAndTellsIt) {
  FakeServer server;
  server.admin.resolve.answer = [](grpc::ServerContext* context, const auto& request, auto*) {
    if (request.id().key() != "order-2") return grpc::Status::OK;
    return Refuse(context, grpc::StatusCode::FAILED_PRECONDITION, "NOT_SETTLED", "Wait.");
  };
  const RunResult run = Send(server, kThree);
  EXPECT_EQ(run.code, 3);
  EXPECT_EQ(server.admin.resolve.calls, 3);
  EXPECT_THAT(run.out, HasSubstr("3     payments acct-1 order-2  NOT_SETTLED"));
  EXPECT_THAT(run.out, HasSubstr("2 settled, 1 not, of 3 lines\n"));
}

TEST(ResolveCsvCommand, ADryRunOnlyLooks) {
  FakeServer server;
  server.admin.inspect.answer = [](grpc::ServerContext*, const auto& request, auto* response) {
    response->mutable_operation()->set_state(request.id().key() == "order-3"
                                                 ? v1::OPERATION_STATE_COMPLETE
                                                 : v1::OPERATION_STATE_UNRESOLVED);
    return grpc::Status::OK;
  };
  const RunResult run = Send(server, kThree, {"--dry-run"});
  EXPECT_EQ(run.code, 3);
  EXPECT_EQ(server.admin.resolve.calls, 0);
  EXPECT_EQ(server.admin.inspect.calls, 3);
  EXPECT_THAT(run.out, HasSubstr("order-3  COMPLETE"));
  EXPECT_THAT(run.out, HasSubstr("2 would be settled, 1 would not, of 3 lines\n"));
}

TEST(ResolveCsvCommand, OneWrongLineStopsAll) {
  FakeServer server;
  const RunResult run = Send(server, std::string(kThree) + "payments,acct-1,order-4,perhaps,\n");
  EXPECT_EQ(run.code, 2);
  EXPECT_EQ(server.admin.resolve.calls, 0);
  EXPECT_THAT(run.err, HasSubstr("line 5: resolution is"));
  EXPECT_THAT(run.err, HasSubstr("Nothing was sent."));
}

TEST(ResolveCsvCommand, WithoutAnAnswerItSaysHowFarItCame) {
  FakeServer server;
  server.admin.resolve.answer = [](grpc::ServerContext*, const auto& request, auto*) {
    if (request.id().key() == "order-1") return grpc::Status::OK;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  };
  const RunResult run = Send(server, kThree);
  EXPECT_EQ(run.code, 4);
  EXPECT_EQ(server.admin.resolve.calls, 2);
  EXPECT_THAT(run.err, HasSubstr("line 3 of 4 (not-executed payments acct-1 order-2)"));
  EXPECT_THAT(run.err, HasSubstr("1 were settled and 0 not. The whole file may be sent again."));
}

TEST(ResolveCsvCommand, IsOneDocumentForScripts) {
  FakeServer server;
  server.admin.resolve.answer = [](grpc::ServerContext* context, const auto& request, auto*) {
    if (request.id().key() != "order-2") return grpc::Status::OK;
    return Refuse(context, grpc::StatusCode::FAILED_PRECONDITION, "LEASE_LIVE", "It runs.");
  };
  const RunResult run = Send(server, kThree, {"--output=json"});
  EXPECT_THAT(run.out, HasSubstr("\"settled\": 2"));
  EXPECT_THAT(run.out, HasSubstr("\"reason\": \"LEASE_LIVE\""));
  EXPECT_THAT(run.out, HasSubstr("\"key\": \"order-2\""));
}

}  // namespace
}  // namespace idempotency::ctl
