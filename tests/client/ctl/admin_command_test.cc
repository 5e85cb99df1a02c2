#include <gmock/gmock.h>

#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

// Three pages, the second of them empty, as a server may answer.
void ServeThreePages(FakeServer* server) {
  server->admin.list.answer = [](grpc::ServerContext*, const v1::ListOperationsRequest& request,
                                 v1::ListOperationsResponse* response) {
    if (request.page_token() == "2") {
      response->set_next_page_token("3");
      return grpc::Status::OK;
    }
    const bool first = request.page_token().empty();
    for (int i = 0; i < 2 && i < request.page_size(); ++i) {
      v1::Operation* operation = response->add_operations();
      operation->mutable_id()->set_key((first ? "first-" : "last-") + std::to_string(i));
      operation->set_state(v1::OPERATION_STATE_PENDING);
    }
    if (first) response->set_next_page_token("2");
    return grpc::Status::OK;
  };
}

TEST(ListCommand, TurnsAllPages) {
  FakeServer server;
  ServeThreePages(&server);
  const RunResult run = server.Run({"list", "payments"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(server.admin.list.calls, 3);
  EXPECT_THAT(run.out, HasSubstr("first-1"));
  EXPECT_THAT(run.out, HasSubstr("last-1"));
  EXPECT_THAT(run.out, HasSubstr("4 operations\n"));
}

TEST(ListCommand, StopsAtTheLimitAndSaysSo) {
  FakeServer server;
  ServeThreePages(&server);
  const RunResult two = server.Run({"list", "payments", "--limit=2"});
  EXPECT_EQ(server.admin.list.calls, 1);
  EXPECT_THAT(two.out, HasSubstr("2 operations; there may be more: --limit=0 lists all\n"));
  const RunResult three = server.Run({"list", "payments", "--limit=3"});
  EXPECT_EQ(server.admin.list.request.page_size(), 1);
  EXPECT_THAT(three.out, HasSubstr("3 operations\n"));
}

TEST(ListCommand, SendsTheFilter) {
  FakeServer server;
  const RunResult run =
      server.Run({"list", "payments", "--state=unresolved,pending", "--state=EXPIRED", "--scope=s",
                  "--prefix=p", "--reference=r", "--min-age=1h", "--limit=0"});
  EXPECT_EQ(run.code, 0) << run.err;
  const v1::ListOperationsRequest& request = server.admin.list.request;
  EXPECT_EQ(request.namespace_(), "payments");
  EXPECT_THAT(request.states(),
              testing::ElementsAre(v1::OPERATION_STATE_UNRESOLVED, v1::OPERATION_STATE_PENDING,
                                   v1::OPERATION_STATE_EXPIRED));
  EXPECT_EQ(request.scope(), "s");
  EXPECT_EQ(request.key_prefix(), "p");
  EXPECT_EQ(request.operation_ref(), "r");
  EXPECT_EQ(request.min_age().seconds(), 3600);
  EXPECT_EQ(request.page_size(), 1000);
  EXPECT_EQ(run.out, "0 operations\n");
}

std::vector<std::string> Resolve(const std::string& kind, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"resolve", kind,      "payments",
                                    "acct-1",  "order/7", "--reason=seen"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(ResolveCommand, EachKindSaysWhatItIs) {
  FakeServer server;
  const v1::ResolveOperationRequest& request = server.admin.resolve.request;
  EXPECT_EQ(server
                .Run(Resolve("completed", {"--verdict=failed", "--body-file=-", "--etag=e",
                                           "--provider-request-id=p", "--actor=bob"}),
                     "declined")
                .code,
            0);
  EXPECT_EQ(request.completed().verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(request.completed().response().body(), "declined");
  EXPECT_EQ(request.actor(), "bob");
  EXPECT_EQ(request.reason(), "seen");
  EXPECT_EQ(request.etag(), "e");
  EXPECT_EQ(request.provider_request_id(), "p");
  EXPECT_EQ(server.Run(Resolve("not-executed")).code, 0);
  EXPECT_TRUE(request.has_not_executed());
  EXPECT_EQ(request.actor(), "ann");
  EXPECT_EQ(server.Run(Resolve("abandoned")).code, 0);
  EXPECT_TRUE(request.has_abandoned());
}

TEST(ResolveCommand, SomebodyMustDecide) {
  FakeServer server;
  server.env.erase("USER");
  const RunResult run = server.Run(Resolve("abandoned"));
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("--actor"));
  EXPECT_EQ(server.admin.resolve.calls, 0);
}

TEST(ResolveCommand, NotSettledSaysWhenToRepeat) {
  FakeServer server;
  server.admin.resolve.answer = [](grpc::ServerContext* context, const auto&, auto*) {
    return Refuse(context, grpc::StatusCode::FAILED_PRECONDITION, "NOT_SETTLED", "Wait.");
  };
  const RunResult run = server.Run(Resolve("not-executed"));
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, HasSubstr("the same call again\n"));
  EXPECT_THAT(run.err, HasSubstr("resolve not-executed payments acct-1 order/7 --reason=seen\n"));
}

TEST(DeleteCommand, SendsForceActorAndReason) {
  FakeServer server;
  const RunResult run = server.Run(
      {"delete", "payments", "acct-1", "order/7", "--force", "--reason=asked", "--etag=e"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(server.admin.erase.request.force());
  EXPECT_EQ(server.admin.erase.request.actor(), "ann");
  EXPECT_EQ(server.admin.erase.request.reason(), "asked");
  EXPECT_EQ(server.admin.erase.request.etag(), "e");
  EXPECT_EQ(server.Run({"delete", "a", "b", "c", "--reason=r", "--output=json"}).out, "{}\n");
}

TEST(NamespacesCommand, ListsAllOrShowsOne) {
  FakeServer server;
  server.admin.list_namespaces.response.add_namespaces()->set_name("payments");
  server.service.get_namespace.response.mutable_namespace_()->set_name("mail");
  EXPECT_THAT(server.Run({"namespaces"}).out, HasSubstr("payments"));
  EXPECT_THAT(server.Run({"namespaces", "mail"}).out, HasSubstr("mail"));
  EXPECT_EQ(server.service.get_namespace.request.name(), "mail");
}

TEST(HealthCommand, TellsServingFromNotServing) {
  FakeServer server;
  server.health.check.response.set_status(grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_EQ(server.Run({"health"}).code, 0);
  server.health.check.response.set_status(grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  const RunResult run = server.Run({"health", "--service=x", "--output=json"});
  EXPECT_EQ(run.code, 6);
  EXPECT_THAT(run.out, HasSubstr("\"NOT_SERVING\""));
  EXPECT_EQ(server.health.check.request.service(), "x");
}

TEST(VersionCommand, NeedsNoServer) {
  FakeServer server;
  EXPECT_THAT(server.Run({"version"}).out, HasSubstr("API idempotency.v1"));
  EXPECT_THAT(server.Run({"version", "--output=json"}).out, HasSubstr("\"idempotency.v1\""));
  EXPECT_THAT(server.Run({"--version"}).out, Not(testing::IsEmpty()));
}

}  // namespace
}  // namespace idempotency::ctl
