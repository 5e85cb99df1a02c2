// What `engine check` shows of what a server has found.
#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using engine::v1::CheckEngineResponse;
using engine::v1::Severity;
using testing::HasSubstr;
using testing::Not;

void AddFinding(const std::string& id, int severity, CheckEngineResponse* response) {
  engine::v1::Finding* const finding = response->add_findings();
  finding->set_id(id);
  finding->set_severity(static_cast<Severity>(severity));
  finding->set_seen("seen of " + id);
  finding->set_why("why of " + id);
  if (severity != engine::v1::SEVERITY_OK) finding->set_next_step("next of " + id);
}

CheckEngineResponse SomeCheck() {
  CheckEngineResponse response;
  response.set_engine("etcd");
  response.set_version("3.4.23");
  AddFinding("etcd.quorum", engine::v1::SEVERITY_OK, &response);
  AddFinding("etcd.clock", engine::v1::SEVERITY_NOT_CHECKED, &response);
  AddFinding("etcd.auth", engine::v1::SEVERITY_WARNING, &response);
  AddFinding("etcd.version", engine::v1::SEVERITY_GUARANTEE_FAILS, &response);
  return response;
}

TEST(EngineCheckCommand, ShowsTheWorstFirstWithWhyAndWhatToDo) {
  FakeServer server;
  server.engine.check.response = SomeCheck();
  const RunResult run = server.Run({"engine", "check"});
  EXPECT_EQ(run.code, 7);
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(run.out,
            "engine etcd, 3.4.23: of 4 checks 1 fail a guarantee, 1 warn, 1 could not be made, 1 "
            "are well\n"
            "RESULT                CHECK         SEEN\n"
            "FAILS A GUARANTEE     etcd.version  seen of etcd.version\n"
            "WARNING               etcd.auth     seen of etcd.auth\n"
            "COULD NOT BE CHECKED  etcd.clock    seen of etcd.clock\n"
            "ok                    etcd.quorum   seen of etcd.quorum\n"
            "\netcd.version\n  why   why of etcd.version\n  next  next of etcd.version\n"
            "\netcd.auth\n  why   why of etcd.auth\n  next  next of etcd.auth\n"
            "\netcd.clock\n  why   why of etcd.clock\n  next  next of etcd.clock\n");
}

TEST(EngineCheckCommand, AsJsonIsTheAnswerInTheSameOrder) {
  FakeServer server;
  server.engine.check.response = SomeCheck();
  const RunResult run = server.Run({"engine", "check", "--output=json"});
  EXPECT_EQ(run.code, 7);
  EXPECT_THAT(run.out, HasSubstr("\"SEVERITY_GUARANTEE_FAILS\""));
  EXPECT_LT(run.out.find("etcd.version"), run.out.find("etcd.auth"));
  EXPECT_LT(run.out.find("etcd.auth"), run.out.find("etcd.quorum"));
}

TEST(EngineCheckCommand, OnlyAGuaranteeThatFailsIsAFailure) {
  const std::pair<int, int> rows[] = {{engine::v1::SEVERITY_OK, 0},
                                      {engine::v1::SEVERITY_NOT_CHECKED, 0},
                                      {engine::v1::SEVERITY_WARNING, 0},
                                      {engine::v1::SEVERITY_GUARANTEE_FAILS, 7},
                                      // Of a server that is newer, or wrong.
                                      {engine::v1::SEVERITY_UNSPECIFIED, 7},
                                      {99, 7}};
  for (const auto& [severity, code] : rows) {
    FakeServer server;
    AddFinding("a.b", severity, &server.engine.check.response);
    const RunResult run = server.Run({"engine", "check"});
    EXPECT_EQ(run.code, code) << severity;
    EXPECT_EQ(run.out.find("FAILS A GUARANTEE") != std::string::npos, code == 7) << severity;
  }
}

TEST(EngineCheckCommand, WhatIsWellNeedsNoWords) {
  FakeServer server;
  AddFinding("rocksdb.sync", engine::v1::SEVERITY_OK, &server.engine.check.response);
  EXPECT_THAT(server.Run({"engine", "check"}).out, Not(HasSubstr("why of")));
}

TEST(EngineCheckCommand, AnEscapeSequenceOfAStoreDoesNotAct) {
  FakeServer server;
  AddFinding("a.b", engine::v1::SEVERITY_WARNING, &server.engine.check.response);
  server.engine.check.response.mutable_findings(0)->set_seen("\x1b[2J");
  server.engine.check.response.set_version("\x1b[2J");
  EXPECT_THAT(server.Run({"engine", "check"}).out, Not(HasSubstr("\x1b")));
}

TEST(EngineCheckCommand, SaysWhyItWasRefused) {
  FakeServer server;
  server.engine.check.answer = [](auto* context, const auto&, auto*) {
    return Refuse(context, grpc::StatusCode::PERMISSION_DENIED, "ACCESS_DENIED", "not for you");
  };
  const RunResult run = server.Run({"engine", "check"});
  EXPECT_EQ(run.code, 3);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("not for you"));
  EXPECT_EQ(server.Run({"engine"}).code, 2);
}

}  // namespace
}  // namespace idempotency::ctl
