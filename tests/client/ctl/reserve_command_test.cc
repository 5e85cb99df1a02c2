#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>

#include <fstream>
#include <iterator>

#include "client/ctl/enum_text.h"
#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kAbc[] =
    "sha256/bytes-1:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::vector<std::string> Reserve(std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"reserve", "payments", "acct-1", "order/7"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void Acquire(FakeServer* server) {
  v1::ReserveResponse& response = server->service.reserve.response;
  response.set_outcome(v1::RESERVE_OUTCOME_ACQUIRED);
  response.set_next_step(v1::NEXT_STEP_PROCEED);
  response.mutable_lease()->set_fencing_token(12);
}

TEST(ReserveCommand, SendsAllThatWasSaid) {
  FakeServer server;
  Acquire(&server);
  const RunResult run =
      server.Run(Reserve({"--request-file=-", "--lease=2m", "--wait=500ms", "--operation-age=1h",
                          "--worker=w", "--reference=r", "--traceparent=t", "--label", "a=b=c",
                          "--label=[x=y,z]", "--dispatch-later", "--start-over"}),
                 "abc");
  EXPECT_EQ(run.code, 0) << run.err;
  const v1::ReserveRequest& request = server.service.reserve.request;
  EXPECT_EQ(request.id().namespace_(), "payments");
  EXPECT_EQ(request.id().scope(), "acct-1");
  EXPECT_EQ(request.id().key(), "order/7");
  EXPECT_EQ(request.fingerprint().algorithm(), "sha256/bytes-1");
  EXPECT_EQ(request.fingerprint().digest().size(), 32u);
  EXPECT_EQ(request.attempt_id(), kAttemptId);
  EXPECT_EQ(request.lease_duration().seconds(), 120);
  EXPECT_EQ(request.wait_duration().nanos(), 500'000'000);
  EXPECT_EQ(request.operation_age().seconds(), 3600);
  EXPECT_EQ(request.owner().worker(), "w");
  EXPECT_EQ(request.owner().operation_ref(), "r");
  EXPECT_EQ(request.owner().traceparent(), "t");
  EXPECT_EQ(request.labels().at("a"), "b=c");
  EXPECT_EQ(request.labels().at("[x"), "y,z]");
  EXPECT_TRUE(request.dispatch_later());
  EXPECT_TRUE(request.start_over());
}

TEST(ReserveCommand, WhatWasNotSaidIsNotSent) {
  FakeServer server;
  Acquire(&server);
  EXPECT_EQ(server.Run(Reserve()).code, 0);
  const v1::ReserveRequest& request = server.service.reserve.request;
  EXPECT_FALSE(request.has_fingerprint());
  EXPECT_FALSE(request.has_lease_duration());
  EXPECT_FALSE(request.has_wait_duration());
  EXPECT_FALSE(request.has_operation_age());
  EXPECT_EQ(request.owner().worker(), "ann");
}

TEST(ReserveCommand, ShowsTokenAttemptIdAndHowToReport) {
  FakeServer server;
  Acquire(&server);
  const RunResult run = server.Run(Reserve());
  EXPECT_THAT(run.out, HasSubstr("ACQUIRED"));
  EXPECT_THAT(run.out, HasSubstr("fencing token  12\n"));
  EXPECT_THAT(run.out, HasSubstr("complete payments acct-1 order/7 --fencing-token=12"));
  EXPECT_EQ(run.err, "attempt id: " + std::string(kAttemptId) + "\n");
  const RunResult quiet = server.Run(Reserve({"--quiet"}));
  EXPECT_THAT(quiet.out, Not(HasSubstr("Next:")));
  EXPECT_EQ(quiet.err, "");
}

TEST(ReserveCommand, JsonIsOneDocument) {
  FakeServer server;
  Acquire(&server);
  const RunResult run = server.Run(Reserve({"--output=json"}));
  v1::ReserveResponse read;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(run.out, &read).ok()) << run.out;
  EXPECT_EQ(read.SerializeAsString(), server.service.reserve.response.SerializeAsString());
  EXPECT_THAT(run.err, HasSubstr("Next:"));
}

TEST(ReserveCommand, OutcomesEndWithTheirCodes) {
  FakeServer server;
  const std::pair<v1::ReserveOutcome, int> rows[] = {
      {v1::RESERVE_OUTCOME_ACQUIRED, 0},        {v1::RESERVE_OUTCOME_ALREADY_HELD, 10},
      {v1::RESERVE_OUTCOME_IN_PROGRESS, 11},    {v1::RESERVE_OUTCOME_COMPLETED, 12},
      {v1::RESERVE_OUTCOME_UNRESOLVED, 13},     {v1::RESERVE_OUTCOME_FINGERPRINT_MISMATCH, 14},
      {v1::RESERVE_OUTCOME_EXPIRED, 15},        {v1::RESERVE_OUTCOME_TOO_OLD, 16},
      {static_cast<v1::ReserveOutcome>(99), 20}};
  for (const auto& [outcome, code] : rows) {
    server.service.reserve.response.set_outcome(outcome);
    EXPECT_EQ(server.Run(Reserve()).code, code) << EnumText(outcome);
  }
}

TEST(ReserveCommand, ReplaysTheBodyByteForByte) {
  FakeServer server;
  v1::ReserveResponse& response = server.service.reserve.response;
  response.set_outcome(v1::RESERVE_OUTCOME_COMPLETED);
  response.set_next_step(v1::NEXT_STEP_USE_RESPONSE);
  const std::string body("\0\xff\n", 3);
  response.mutable_operation()->mutable_response()->set_body(body);
  const RunResult run = server.Run(Reserve({"--body-out=-"}));
  EXPECT_EQ(run.code, 12);
  EXPECT_EQ(run.out, body);
  EXPECT_THAT(run.err, HasSubstr("COMPLETED"));
  const std::string path = testing::TempDir() + "/reserve_command_test_body";
  EXPECT_EQ(server.Run(Reserve({"--body-out=" + path})).code, 12);
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), body);
  // An answer without a body leaves the file alone, and a script learns it.
  response.mutable_operation()->mutable_response()->clear_body();
  EXPECT_EQ(server.Run(Reserve({"--body-out=" + path})).code, 5);
}

TEST(ReserveCommand, ARefusalIsExplained) {
  FakeServer server;
  server.service.reserve.answer = [](grpc::ServerContext* context, const auto&, auto*) {
    return Refuse(context, grpc::StatusCode::FAILED_PRECONDITION, "ATTEMPT_FINISHED",
                  "This attempt has ended.");
  };
  const RunResult run = server.Run(Reserve({"--output=json"}));
  EXPECT_EQ(run.code, 3);
  v1::Result read;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(run.out, &read).ok()) << run.out;
  EXPECT_EQ(read.error().reason(), v1::ERROR_REASON_ATTEMPT_FINISHED);
  EXPECT_EQ(read.error().code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(run.err, HasSubstr("refused: ATTEMPT_FINISHED"));
  EXPECT_THAT(run.err, HasSubstr("This attempt has ended."));
}

TEST(ReserveCommand, ALostReplyIsRepeatedWithTheSameAttemptId) {
  FakeServer server;
  server.service.reserve.answer = [](grpc::ServerContext*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed");
  };
  const RunResult run = server.Run(Reserve({"--request-file=-", "--lease=2m", "--quiet"}), "abc");
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("may have been applied"));
  EXPECT_THAT(run.err,
              HasSubstr("reserve payments acct-1 order/7 --attempt-id=" + std::string(kAttemptId) +
                        " --fingerprint=" + kAbc + " --lease=2m\n"));
}

TEST(ReserveCommand, NobodyThereMeansNothingWasSent) {
  FakeServer server;
  // Port 1 is reserved, and nothing listens there.
  const RunResult run = server.Run(Reserve({"--server=127.0.0.1:1"}));
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("cannot reach 127.0.0.1:1"));
  EXPECT_THAT(run.err, HasSubstr("Nothing was sent"));
  EXPECT_THAT(run.err, Not(HasSubstr("may have been applied")));
  EXPECT_EQ(server.service.reserve.calls, 0);
}

}  // namespace
}  // namespace idempotency::ctl
