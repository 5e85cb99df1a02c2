// What the person on call is told: unresolved, explain, watch; and contract show.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kNow = 1'767'323'045;  // what the tool takes for now

v1::Operation Unresolved(const std::string& name, const std::string& key, int64_t age) {
  v1::Operation operation;
  operation.mutable_id()->set_namespace_(name);
  operation.mutable_id()->set_scope("acct-1");
  operation.mutable_id()->set_key(key);
  operation.set_state(v1::OPERATION_STATE_UNRESOLVED);
  operation.set_unresolved_cause(v1::UNRESOLVED_CAUSE_LEASE_LAPSED);
  operation.set_attempt(1);
  operation.set_dispatched(true);
  operation.set_etag("e-" + key);
  operation.mutable_update_time()->set_seconds(kNow - age);
  return operation;
}

TEST(UnresolvedCommand, ListsThemAllTheOldestFirst) {
  FakeServer server;
  server.admin.list_namespaces.response.add_namespaces()->set_name("payments");
  server.admin.list_namespaces.response.add_namespaces()->set_name("webhooks");
  server.admin.list.answer = [](grpc::ServerContext*, const v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response) {
    EXPECT_THAT(request.states(), ElementsAre(v1::OPERATION_STATE_UNRESOLVED));
    const bool payments = request.namespace_() == "payments";
    *response->add_operations() =
        payments ? Unresolved("payments", "young", 60) : Unresolved("webhooks", "old", 7200);
    return grpc::Status::OK;
  };
  const RunResult run = server.Run({"unresolved"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_LT(run.out.find("old"), run.out.find("young"));
  EXPECT_THAT(run.out, HasSubstr("2h"));
  EXPECT_THAT(run.out, HasSubstr("LEASE_LAPSED"));
  EXPECT_THAT(run.out, HasSubstr("a person: look up and resolve"));
  EXPECT_THAT(run.out, HasSubstr("2 unresolved\n"));
  EXPECT_THAT(run.out, HasSubstr("explain webhooks acct-1 old\n"));
}

TEST(UnresolvedCommand, SaysWhatThePolicyAllowsNext) {
  FakeServer server;
  server.admin.list.answer = [](grpc::ServerContext*, const auto&, auto* response) {
    v1::Operation now = Unresolved("payments", "k-1", 60);
    now.mutable_next_attempt_time()->set_seconds(kNow - 1);
    now.mutable_protection_expire_time()->set_seconds(kNow + 3600);
    *response->add_operations() = now;
    v1::Operation soon = Unresolved("payments", "k-2", 60);
    soon.mutable_next_attempt_time()->set_seconds(kNow + 30);
    *response->add_operations() = soon;
    return grpc::Status::OK;
  };
  const RunResult run = server.Run({"unresolved", "payments", "--scope=acct-1", "--min-age=1m"});
  EXPECT_EQ(server.admin.list_namespaces.calls, 0);
  EXPECT_EQ(server.admin.list.request.scope(), "acct-1");
  EXPECT_EQ(server.admin.list.request.min_age().seconds(), 60);
  EXPECT_THAT(run.out, HasSubstr("reserve, now (for 1h)"));
  EXPECT_THAT(run.out, HasSubstr("reserve, in 30s"));
}

TEST(UnresolvedCommand, NothingIsGoodNews) {
  FakeServer server;
  server.admin.list_namespaces.response.add_namespaces()->set_name("payments");
  EXPECT_EQ(server.Run({"unresolved"}).out, "0 unresolved\n");
}

TEST(UnresolvedCommand, ShowsHowFarItIsOnATerminalOnly) {
  FakeServer server;
  for (const char* name : {"payments", "refunds", "webhooks", "mails"}) {
    server.admin.list_namespaces.response.add_namespaces()->set_name(name);
  }
  // Two pages each.
  server.admin.list.answer = [](grpc::ServerContext*, const v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response) {
    *response->add_operations() = Unresolved(request.namespace_(), "k", 60);
    if (request.page_token().empty()) response->set_next_page_token("more");
    return grpc::Status::OK;
  };
  const RunResult piped = server.Run({"unresolved", "--limit=0"});
  EXPECT_EQ(piped.err, "");
  server.terminal = true;
  const RunResult watched = server.Run({"unresolved", "--limit=0"});
  EXPECT_THAT(watched.err,
              HasSubstr("\r\x1b[Klisting    [######..................]  25 %  1 of 4 namespaces, 2 "
                        "operations\r\x1b[K"));
  EXPECT_THAT(watched.err, HasSubstr("3 of 4 namespaces, 7 operations"));
  EXPECT_EQ(watched.out, piped.out);
}

TEST(ListCommand, ShowsHowFarItIsBetweenPages) {
  FakeServer server;
  server.terminal = true;
  server.admin.list.answer = [](grpc::ServerContext*, const v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response) {
    *response->add_operations() = Unresolved("payments", "k", 60);
    if (request.page_token() != "last") {
      response->set_next_page_token(request.page_token().empty() ? "second" : "last");
    }
    return grpc::Status::OK;
  };
  const RunResult all = server.Run({"list", "payments", "--limit=0", "--output=json"});
  EXPECT_EQ(all.err.find("listing    1 operations"), 4u);
  EXPECT_THAT(all.err, HasSubstr("\r\x1b[Klisting    2 operations\r\x1b[K"));
  EXPECT_THAT(all.out, Not(HasSubstr("listing")));
  EXPECT_THAT(server.Run({"list", "payments", "--limit=4"}).err,
              HasSubstr("[############............]  50 %  2 operations of at most 4"));
  // One page is no long work.
  EXPECT_THAT(server.Run({"list", "payments", "--limit=1"}).err, Not(HasSubstr("listing")));
}

TEST(ExplainCommand, IsInColourOnATerminalOnly) {
  FakeServer server;
  server.admin.inspect.response.mutable_operation()->MergeFrom(Unresolved("payments", "k-1", 60));
  const auto colored = [&server](std::vector<std::string> more) {
    more.insert(more.begin(), {"explain", "payments", "acct-1", "k-1"});
    return server.Run(more).out.find("\x1b[") != std::string::npos;
  };
  EXPECT_FALSE(colored({}));
  EXPECT_TRUE(colored({"--color=always"}));
  server.screen = true;
  EXPECT_TRUE(colored({}));
  EXPECT_FALSE(colored({"--output=json"}));
  EXPECT_FALSE(colored({"--color=never"}));
  server.env["NO_COLOR"] = "1";
  EXPECT_FALSE(colored({}));
  EXPECT_TRUE(colored({"--color=always"}));
  server.env.erase("NO_COLOR");
  server.env["TERM"] = "dumb";
  EXPECT_FALSE(colored({}));
}

TEST(ExplainCommand, TellsTheStory) {
  FakeServer server;
  v1::InspectOperationResponse& response = server.admin.inspect.response;
  *response.mutable_operation() = Unresolved("payments", "order-7", 192);
  const auto happened = [&](v1::EventKind kind, int64_t at, const std::string& actor) {
    v1::Event* const event = response.mutable_operation()->add_history();
    event->set_kind(kind);
    event->mutable_time()->set_seconds(kNow - 192 - 30 + at);
    event->set_attempt(1);
    event->set_actor(actor);
  };
  happened(v1::EVENT_KIND_ACQUIRED, 0, "pay-1");
  happened(v1::EVENT_KIND_LEASE_LAPSED, 30, "");
  response.set_next_step(v1::NEXT_STEP_RECONCILE_FIRST);
  response.set_detail("Look it up at the provider.");
  response.mutable_server_time()->set_seconds(kNow);
  const RunResult run = server.Run({"explain", "payments", "acct-1", "order-7"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("payments acct-1 order-7\nUNRESOLVED for 3m12s: its lease lapsed "
                                 "before its owner reported how the call ended. The call may have "
                                 "happened.\n"));
  EXPECT_THAT(run.out, HasSubstr("+30s   LEASE_LAPSED"));
  EXPECT_THAT(run.out, HasSubstr("RECONCILE_FIRST: Look it up at the provider.\n"));
  EXPECT_THAT(run.out, HasSubstr("without a person\n  a person: look up and resolve\n"));
  EXPECT_THAT(run.out, HasSubstr("resolve not-executed payments acct-1 order-7"));
  EXPECT_THAT(run.out, HasSubstr("--etag=e-order-7"));
}

TEST(ExplainCommand, ShowsNoBody) {
  FakeServer server;
  v1::Operation* const operation = server.admin.inspect.response.mutable_operation();
  operation->set_state(v1::OPERATION_STATE_COMPLETE);
  operation->mutable_response()->set_body("secret");
  for (const char* output : {"--output=json", "--output=table"}) {
    const RunResult run = server.Run({"explain", "payments", "acct-1", "k", output});
    EXPECT_THAT(run.out, Not(HasSubstr("secret")));
    EXPECT_THAT(run.out, Not(HasSubstr("c2VjcmV0")));
  }
}

TEST(WatchCommand, TellsEveryChangeUntilTheEnd) {
  FakeServer server;
  v1::Operation* const operation = server.service.get.response.mutable_operation();
  *operation = Unresolved("payments", "k", 60);
  server.on_pause = [&] {
    if (server.pauses.size() < 3) return;  // nothing changes at first
    operation->set_state(v1::OPERATION_STATE_COMPLETE);
    operation->set_verdict(v1::VERDICT_SUCCEEDED);
    operation->set_etag("e-2");
  };
  const RunResult run = server.Run({"watch", "payments", "acct-1", "k", "--interval=250ms"});
  EXPECT_EQ(run.code, 12) << run.err;
  EXPECT_EQ(server.service.get.calls, 4);
  EXPECT_EQ(server.pauses.front(), absl::Milliseconds(250));
  EXPECT_EQ(run.out,
            "2026-01-02T03:04:05Z  UNRESOLVED  attempt 1  why LEASE_LAPSED  next: a person: look "
            "up and resolve\n"
            "2026-01-02T03:04:05Z  COMPLETE  attempt 1  verdict SUCCEEDED\n");
}

TEST(WatchCommand, EndsWithTheInterrupt) {
  FakeServer server;
  *server.service.get.response.mutable_operation() = Unresolved("payments", "k", 60);
  server.on_pause = [&] { server.interrupt.Trigger(2); };
  EXPECT_EQ(server.Run({"watch", "payments", "acct-1", "k"}).code, 130);
}

TEST(ContractCommand, ShowsTheProvidersRulesBesideOurs) {
  FakeServer server;
  v1::Namespace* const policy = server.service.get_namespace.response.mutable_namespace_();
  policy->set_name("payments");
  policy->set_max_key_bytes(255);
  policy->set_unknown_outcome(v1::UNKNOWN_OUTCOME_POLICY_RETRY_SAME_KEY);
  policy->set_max_attempts(3);
  policy->mutable_protection_window()->set_seconds(86'400);
  policy->mutable_provider()->set_name("Stripe");
  policy->mutable_provider()->set_api_version("v1");
  policy->mutable_provider()->set_key_location("header Idempotency-Key");
  policy->mutable_provider()->add_endpoints("POST /v1/charges");
  policy->mutable_provider()->set_account_scope("account and mode");
  policy->mutable_provider()->set_on_mismatch("400, error of idempotency");
  policy->mutable_provider()->set_on_concurrent("409, try again");
  policy->mutable_provider()->set_on_expiry("after 24 h a new request");
  policy->mutable_provider()->set_source("https://docs.stripe.com/api/idempotent_requests");
  policy->mutable_provider()->set_verified_date("2026-01-01");
  const RunResult run = server.Run({"contract", "show", "payments"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(server.service.get_namespace.request.name(), "payments");
  for (const char* part :
       {"payments, Stripe\n", "header Idempotency-Key", "at most 255 bytes", "API version",
        "POST /v1/charges", "account and mode", "400, error of idempotency", "409, try again",
        "after 24 h a new request", "recognises the key for 24h",
        "3 at most, within 24h of the first; then a person",
        "source https://docs.stripe.com/api/idempotent_requests, verified 2026-01-01"}) {
    EXPECT_THAT(run.out, HasSubstr(part));
  }
}

}  // namespace
}  // namespace idempotency::ctl
