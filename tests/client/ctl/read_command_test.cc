#include <gmock/gmock.h>

#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> Words(const std::string& verb, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {verb, "payments", "acct-1", "order/7"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(GetCommand, EndsWithTheStateOnlyWhereAsked) {
  FakeServer server;
  const std::pair<v1::OperationState, int> rows[] = {{v1::OPERATION_STATE_PENDING, 11},
                                                     {v1::OPERATION_STATE_COMPLETE, 12},
                                                     {v1::OPERATION_STATE_UNRESOLVED, 13},
                                                     {v1::OPERATION_STATE_EXPIRED, 15},
                                                     {v1::OPERATION_STATE_FREED, 17}};
  for (const auto& [state, code] : rows) {
    server.service.get.response.mutable_operation()->set_state(state);
    EXPECT_EQ(server.Run(Words("get")).code, 0);
    EXPECT_EQ(server.Run(Words("get", {"--exit-code"})).code, code);
  }
}

TEST(GetCommand, AgesCountOnTheServersClock) {
  FakeServer server;
  server.service.get.response.mutable_server_time()->set_seconds(1000);
  server.service.get.response.mutable_operation()->mutable_update_time()->set_seconds(940);
  EXPECT_THAT(server.Run(Words("get")).out, HasSubstr("updated    1m ago (1970-01-01T00:15:40Z)"));
}

TEST(GetCommand, ABodyThatIsNotThereIsNotWritten) {
  FakeServer server;
  server.service.get.response.mutable_operation()->set_state(v1::OPERATION_STATE_COMPLETE);
  const RunResult run = server.Run(Words("get", {"--body-out=-", "--fingerprint=x:00"}));
  EXPECT_EQ(run.code, 5);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(server.service.get.request.fingerprint().algorithm(), "x");
  server.service.get.response.mutable_operation()->mutable_response()->set_body("ok");
  EXPECT_EQ(server.Run(Words("get", {"--body-out=-"})).out, "ok");
}

TEST(GetCommand, AReadWithoutAnswerLeavesNoDoubt) {
  FakeServer server;
  server.service.get.answer = [](grpc::ServerContext*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  };
  const RunResult run = server.Run(Words("get"));
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("Nothing was changed"));
}

TEST(InspectCommand, ShowsHowToSettleWhatWasSeen) {
  FakeServer server;
  v1::InspectOperationResponse& response = server.admin.inspect.response;
  response.set_fencing_token(12);
  response.set_detail("Find out\x1b[0m.");
  response.set_next_step(v1::NEXT_STEP_RECONCILE_FIRST);
  response.mutable_operation()->set_state(v1::OPERATION_STATE_UNRESOLVED);
  response.mutable_operation()->set_etag("e1");
  const RunResult run = server.Run(Words("inspect"));
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, HasSubstr("newest fencing token 12\n"));
  EXPECT_THAT(run.out, HasSubstr("resolve completed payments acct-1 order/7 --verdict=succeeded"));
  EXPECT_THAT(run.out, HasSubstr("--etag=e1"));
  EXPECT_THAT(run.out, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace idempotency::ctl
