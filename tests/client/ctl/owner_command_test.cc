#include <gmock/gmock.h>

#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using testing::HasSubstr;

std::vector<std::string> Words(const std::string& verb, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {verb, "payments", "acct-1", "order/7", "--fencing-token=12"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(OwnerCommands, RenewSendsProgressAndDispatch) {
  FakeServer server;
  const RunResult run = server.Run(
      Words("renew", {"--lease=1m", "--dispatched", "--progress-file=-", "--worker=w"}), "half");
  EXPECT_EQ(run.code, 0) << run.err;
  const v1::RenewRequest& request = server.service.renew.request;
  EXPECT_EQ(request.fencing_token(), 12u);
  EXPECT_EQ(request.lease_duration().seconds(), 60);
  EXPECT_EQ(request.progress(), "half");
  EXPECT_TRUE(request.dispatched());
  EXPECT_EQ(request.owner().worker(), "w");
  EXPECT_EQ(server.Run(Words("renew")).code, 0);
  EXPECT_FALSE(server.service.renew.request.has_progress());
  EXPECT_FALSE(server.service.renew.request.has_owner());
}

TEST(OwnerCommands, CompleteSendsTheAnswer) {
  FakeServer server;
  const RunResult run =
      server.Run(Words("complete", {"--verdict=succeeded", "--body-file=-", "--http-status=201",
                                    "--content-type=text/plain", "--header=X-Id:  a: b", "--header",
                                    "x:", "--provider-request-id=ch_1", "--retention=48h"}),
                 std::string("\0x", 2));
  EXPECT_EQ(run.code, 0) << run.err;
  const v1::CompleteRequest& request = server.service.complete.request;
  EXPECT_EQ(request.verdict(), v1::VERDICT_SUCCEEDED);
  EXPECT_EQ(request.provider_request_id(), "ch_1");
  EXPECT_EQ(request.retention().seconds(), 48 * 3600);
  EXPECT_EQ(request.response().http_status(), 201);
  EXPECT_EQ(request.response().body(), std::string("\0x", 2));
  ASSERT_EQ(request.response().metadata_size(), 2);
  EXPECT_EQ(request.response().metadata(0).name(), "X-Id");
  EXPECT_EQ(request.response().metadata(0).value(), "a: b");
  EXPECT_EQ(request.response().metadata(1).value(), "");
}

TEST(OwnerCommands, NoBodyIsNotAnEmptyBody) {
  FakeServer server;
  EXPECT_EQ(server.Run(Words("complete", {"--verdict=failed"})).code, 0);
  EXPECT_FALSE(server.service.complete.request.has_response());
  EXPECT_EQ(server.Run(Words("complete", {"--verdict=failed", "--body-file=-"}), "").code, 0);
  EXPECT_TRUE(server.service.complete.request.response().has_body());
  EXPECT_EQ(server.Run(Words("complete", {"--verdict=failed", "--grpc-code=0"})).code, 0);
  EXPECT_EQ(server.service.complete.request.response().status_case(),
            v1::CachedResponse::kGrpcCode);
}

TEST(OwnerCommands, ABodyTooLargeToSendIsStillACompletion) {
  FakeServer server;
  const std::string body(15 * 1024 * 1024 + 1, 'x');
  const RunResult run =
      server.Run(Words("complete", {"--verdict=succeeded", "--body-file=-"}), body);
  EXPECT_EQ(run.code, 0) << run.err;
  const v1::CachedResponse& response = server.service.complete.request.response();
  EXPECT_TRUE(response.body_omitted());
  EXPECT_FALSE(response.has_body());
  EXPECT_EQ(response.body_size(), body.size());
  EXPECT_THAT(run.err, HasSubstr("too large to send"));
}

TEST(OwnerCommands, ReleaseTellsFreedFromStillUnknown) {
  FakeServer server;
  server.service.release.response.set_state(v1::OPERATION_STATE_FREED);
  EXPECT_EQ(server.Run(Words("release", {"--detail=why"})).code, 0);
  EXPECT_EQ(server.service.release.request.detail(), "why");
  server.service.release.response.set_state(v1::OPERATION_STATE_UNRESOLVED);
  const RunResult run = server.Run(Words("release"));
  EXPECT_EQ(run.code, 13);
  EXPECT_THAT(run.out, HasSubstr("resolve not-executed payments acct-1 order/7"));
}

TEST(OwnerCommands, MarkUnresolvedSaysWhatIsNotKnown) {
  FakeServer server;
  server.service.mark.response.set_next_step(v1::NEXT_STEP_RECONCILE_FIRST);
  server.service.mark.response.mutable_operation()->set_state(v1::OPERATION_STATE_UNRESOLVED);
  server.service.mark.response.mutable_operation()->set_etag("e1");
  const RunResult run = server.Run(
      Words("mark-unresolved", {"--cause=connection-lost", "--detail=d", "--provider-request-id=p",
                                "--retry-after=5s", "--reconcile-first"}));
  EXPECT_EQ(run.code, 0) << run.err;
  const v1::MarkUnresolvedRequest& request = server.service.mark.request;
  EXPECT_EQ(request.cause(), v1::UNRESOLVED_CAUSE_CONNECTION_LOST);
  EXPECT_EQ(request.retry_after().seconds(), 5);
  EXPECT_TRUE(request.reconcile_first());
  EXPECT_THAT(run.out, HasSubstr("--etag=e1"));
}

TEST(OwnerCommands, ALapsedOwnerLearnsHowToReport) {
  FakeServer server;
  server.service.renew.answer = [](grpc::ServerContext* context, const auto&, auto*) {
    return Refuse(context, grpc::StatusCode::FAILED_PRECONDITION, "LEASE_LAPSED", "It has ended.");
  };
  const RunResult run = server.Run(Words("renew"));
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, HasSubstr("complete payments acct-1 order/7 --fencing-token=12"));
}

}  // namespace
}  // namespace idempotency::ctl
