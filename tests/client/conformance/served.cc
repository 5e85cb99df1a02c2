#include "tests/client/conformance/served.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "client/src/framed_hash.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::testing {
namespace {

void Unpack(const std::string& archive, const std::string& directory) {
  std::filesystem::create_directory(directory);
  const char* const words[] = {"tar", "-xzf", archive.c_str(), "-C", directory.c_str(), nullptr};
  pid_t process = 0;
  ASSERT_EQ(posix_spawnp(&process, "tar", nullptr, nullptr, const_cast<char**>(words), environ), 0);
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  ASSERT_EQ(status, 0) << archive;
}

}  // namespace

Served::Served(const Json& script, const Json& server, bool batching)
    : tokens_(script.at("tokens").get<std::map<std::string, std::string>>()) {
  std::ofstream tokens(directory_.file("tokens"));
  for (const auto& [name, token] : tokens_) {
    tokens << name << " sha256:" << ToHex(internal::Sha256(token)) << "\n";
  }
  tokens.close();
  Json config = script.at("config");
  config.update(server.value("config", Json::object()));
  config["identity"] = {{"tokens_file", directory_.file("tokens")}};
  std::ofstream(directory_.file("config.yaml")) << config.dump();
  if (server.contains("store")) {
    Unpack(IDEMPOTENCY_VECTORS "/" + server.at("store").get<std::string>(),
           directory_.file("store"));
  }
  std::vector<std::string> flags{"--data_dir=" + directory_.file("store"),
                                 "--config=" + directory_.file("config.yaml"), "--ballast_mb=0"};
  for (const Json& flag : server.value("flags", Json::array())) flags.push_back(flag);
  process_ = std::make_unique<ServerProcess>(std::move(flags));
  for (const auto& [name, token] : tokens_) {
    connections_[name] = MakeConnection({.target = "127.0.0.1:" + std::to_string(process_->port()),
                                         .bearer_token = [token = token] { return token; },
                                         .batching = batching});
  }
}

v1::BatchResponse Served::Batch(const std::string& by, const v1::BatchRequest& request) const {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + tokens_.at(by));
  v1::BatchResponse response;
  const grpc::Status status =
      v1::IdempotencyService::NewStub(process_->Channel())->Batch(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

}  // namespace idempotency::testing
