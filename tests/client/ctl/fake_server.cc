#include "tests/client/ctl/fake_server.h"

#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "client/ctl/run.h"

namespace idempotency::ctl {

grpc::Status Refuse(grpc::ServerContext* context, grpc::StatusCode code, const std::string& reason,
                    const std::string& message) {
  context->AddTrailingMetadata("idempotency-reason", reason);
  return grpc::Status(code, message);
}

FakeServer::FakeServer(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  builder.RegisterService(&service);
  builder.RegisterService(&admin);
  builder.RegisterService(&backups);
  builder.RegisterService(&engine);
  builder.RegisterService(&transfers);
  builder.RegisterService(&health);
  server_ = builder.BuildAndStart();
  EXPECT_NE(server_, nullptr);
  env["USER"] = "ann";
  env["IDEMPOTENCY_SERVER"] = "127.0.0.1:" + std::to_string(port);
}

FakeServer::~FakeServer() { server_->Shutdown(); }

RunResult FakeServer::Run(const std::vector<std::string>& words,
                          const std::string& standard_input) {
  std::istringstream in(standard_input);
  std::ostringstream out;
  std::ostringstream err;
  System system;
  system.now = [] { return absl::FromUnixSeconds(1'767'323'045); };  // 2026-01-02T03:04:05Z
  system.new_attempt_id = [] { return std::string(kAttemptId); };
  system.env = [this](const std::string& name) -> std::optional<std::string> {
    const auto found = env.find(name);
    if (found == env.end()) return std::nullopt;
    return found->second;
  };
  system.in = &in;
  system.out = &out;
  system.err = &err;
  system.interrupt = &interrupt;
  system.pause = [this](absl::Duration span) {
    pauses.push_back(span);
    if (on_pause) on_pause();
  };
  system.terminal = terminal;
  system.screen = screen;
  system.become = [this](const std::string& program, const std::vector<std::string>& arguments) {
    became = {program};
    became.insert(became.end(), arguments.begin(), arguments.end());
    return std::string("not found");
  };
  RunResult result;
  result.code = static_cast<int>(RunTool(words, system));
  result.out = out.str();
  result.err = err.str();
  return result;
}

}  // namespace idempotency::ctl
