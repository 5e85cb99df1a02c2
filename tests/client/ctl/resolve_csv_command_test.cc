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
using testing::IsEmpty;
using testing::Not;

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

// A server as a dry run sees it: what it is asked to resolve can change nothing, and is refused as
// the service does; everything is UNRESOLVED since half a minute.
void Answer(FakeServer& server) {
  server.admin.resolve.answer = [](grpc::ServerContext* context, const auto& request, auto*) {
    EXPECT_EQ(request.resolution_case(), v1::ResolveOperationRequest::RESOLUTION_NOT_SET);
    EXPECT_EQ(request.actor(), "");
    EXPECT_EQ(request.reason(), "");
    return Refuse(context, grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "actor.");
  };
  server.admin.inspect.response.mutable_server_time()->set_seconds(1030);
  v1::Operation& operation = *server.admin.inspect.response.mutable_operation();
  operation.set_state(v1::OPERATION_STATE_UNRESOLVED);
  operation.mutable_update_time()->set_seconds(1000);
  server.service.get_namespace.response.mutable_namespace_()
      ->mutable_settle_duration()
      ->set_seconds(30);
}

TEST(ResolveCsvCommand, ADryRunOnlyLooks) {
  FakeServer server;
  Answer(server);
  const RunResult run = Send(server, kThree, {"--dry-run"});
  EXPECT_EQ(run.code, 0) << run.err;
  // Once for the one scope, and not with a line's own request.
  EXPECT_EQ(server.admin.resolve.calls, 1);
  EXPECT_EQ(server.admin.inspect.calls, 3);
  EXPECT_EQ(server.service.get_namespace.calls, 1);
  EXPECT_THAT(run.out, HasSubstr("3 would be settled, 0 would not, of 3 lines\n"));
  // Of the one that is to be freed not all is known.
  EXPECT_THAT(run.out, HasSubstr("Not known: not-executed is refused for longer (NOT_SETTLED)"));
}

TEST(ResolveCsvCommand, ADryRunSaysWhatIsNotSettledYet) {
  FakeServer server;
  Answer(server);
  server.service.get_namespace.response.mutable_namespace_()
      ->mutable_settle_duration()
      ->set_seconds(90);
  const RunResult run = Send(server, kThree, {"--dry-run"});
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.out, HasSubstr("order-2  NOT_SETTLED  the owner's call may still arrive; try "
                                 "again in 1m (1970-01-01T00:18:10Z)"));
  EXPECT_THAT(run.out, HasSubstr("2 would be settled, 1 would not, of 3 lines\n"));
  EXPECT_THAT(run.out, Not(HasSubstr("Not known")));
}

// A READER may look, and settles nothing: that has to be said before the file is sent.
TEST(ResolveCsvCommand, ADryRunSaysThatTheCallerMayNot) {
  FakeServer server;
  Answer(server);
  server.admin.resolve.answer = [](grpc::ServerContext* context, const auto& request, auto*) {
    const bool mine = request.id().scope() == "acct-1";
    return mine ? Refuse(context, grpc::StatusCode::PERMISSION_DENIED, "ACCESS_DENIED", "Ask.")
                : Refuse(context, grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "actor.");
  };
  const RunResult run =
      Send(server, std::string(kThree) + "payments,acct-2,order-4,abandoned,\n", {"--dry-run"});
  EXPECT_EQ(run.code, 3);
  // Each scope is asked of by itself.
  EXPECT_EQ(server.admin.resolve.calls, 2);
  EXPECT_EQ(server.admin.inspect.calls, 1);
  EXPECT_THAT(run.out, HasSubstr("order-1  ACCESS_DENIED  Ask."));
  EXPECT_THAT(run.out, HasSubstr("order-3  ACCESS_DENIED  Ask."));
  EXPECT_THAT(run.out, HasSubstr("1 would be settled, 3 would not, of 4 lines\n"));
}

TEST(ResolveCsvCommand, ADryRunSaysWhatItCannotTell) {
  FakeServer server;
  Answer(server);
  server.service.get_namespace.answer = [](grpc::ServerContext* context, const auto&, auto*) {
    return Refuse(context, grpc::StatusCode::NOT_FOUND, "NAMESPACE_NOT_FOUND", "Gone.");
  };
  const RunResult run = Send(server, kThree, {"--dry-run"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("PERHAPS NOT"));
  EXPECT_THAT(run.out, HasSubstr("order-2  NOT_SETTLED  the settle_duration of its namespace"));
  EXPECT_THAT(run.out,
              HasSubstr("2 would be settled, 0 would not, 1 cannot be told, of 3 lines\n"));
  const RunResult document = Send(server, kThree, {"--dry-run", "--output=json"});
  EXPECT_THAT(document.out, HasSubstr("\"unknown\""));
  EXPECT_THAT(document.out, HasSubstr("\"reason\": \"NOT_SETTLED\""));
}

TEST(ResolveCsvCommand, ADryRunWithoutAnAnswerSaysHowFarItCame) {
  FakeServer server;
  Answer(server);
  server.admin.inspect.answer = [&](grpc::ServerContext*, const auto& request, auto* response) {
    if (request.id().key() == "order-2") return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
    *response = server.admin.inspect.response;
    return grpc::Status::OK;
  };
  const RunResult run = Send(server, kThree, {"--dry-run"});
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("before it 1 would be settled and 0 not"));
  EXPECT_THAT(run.err, HasSubstr("Nothing was changed"));
}

TEST(ResolveCsvCommand, ShowsHowFarItIsOnATerminalOnly) {
  FakeServer server;
  const RunResult piped = Send(server, kThree);
  EXPECT_THAT(piped.err, IsEmpty());
  server.terminal = true;
  const RunResult watched = Send(server, kThree);
  EXPECT_THAT(watched.err,
              HasSubstr("\r\x1b[Ksettling   [################........]  66 %  3 of 3"));
  EXPECT_EQ(watched.out, piped.out);
  // The last of it is taken away.
  EXPECT_EQ(watched.err.rfind("\r\x1b[K"), watched.err.size() - 4);
  EXPECT_THAT(Send(server, kThree, {"--progress=never"}).err, IsEmpty());
  EXPECT_THAT(Send(server, kThree, {"--progress=always", "--quiet"}).err, IsEmpty());
  server.env["TERM"] = "dumb";
  EXPECT_THAT(Send(server, kThree).err, IsEmpty());
  server.terminal = false;
  EXPECT_THAT(Send(server, kThree, {"--progress=always"}).err, HasSubstr("3 of 3 lines"));
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
