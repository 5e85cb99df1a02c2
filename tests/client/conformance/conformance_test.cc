// The C++ client leaves the same trace as those of other languages: tests/vectors/conformance.json,
// played against the release binary, call by call and over the stream.
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "client/src/framed_hash.h"
#include "gtest/gtest.h"
#include "idempotency/connection.h"
#include "tests/client/conformance/scenario.h"
#include "tests/client/conformance/script.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_directory.h"

namespace idempotency::testing {
namespace {

std::string ReadVectors(const std::string& name) {
  std::ifstream file(std::string(IDEMPOTENCY_VECTORS "/") + name);
  EXPECT_TRUE(file.good()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Json> ReadTrace() {
  std::vector<Json> lines;
  std::istringstream text(ReadVectors("conformance_trace.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

class ConformanceTest : public ::testing::TestWithParam<bool> {
 protected:
  ConformanceTest() : script_(Json::parse(ReadVectors("conformance.json"))) {
    Json config = script_.at("config");
    std::ofstream tokens(directory_.file("tokens"));
    for (const auto& [name, token] : script_.at("tokens").items()) {
      tokens << name << " sha256:" << ToHex(internal::Sha256(token.get<std::string>())) << "\n";
    }
    config["identity"] = {{"tokens_file", directory_.file("tokens")}};
    std::ofstream(directory_.file("config.yaml")) << config.dump();
    tokens.close();
    server_ = std::make_unique<ServerProcess>(
        std::vector<std::string>{"--data_dir=" + directory_.file("store"),
                                 "--config=" + directory_.file("config.yaml"), "--ballast_mb=0"});
  }

  Connections Connect() const {
    Connections connections;
    for (const auto& [name, token] : script_.at("tokens").items()) {
      connections[name] =
          MakeConnection({.target = "127.0.0.1:" + std::to_string(server_->port()),
                          .bearer_token = [token = token.get<std::string>()] { return token; },
                          .batching = GetParam()});
    }
    return connections;
  }

  TempDirectory directory_;
  const Json script_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_P(ConformanceTest, LeavesTheTrace) {
  const std::vector<Json> wanted = ReadTrace();
  const Connections connections = Connect();
  size_t line = 0;
  const auto check = [&](const Json& seen) {
    ASSERT_LT(line, wanted.size()) << seen;
    EXPECT_EQ(seen, wanted[line]) << "line " << line + 1 << " differs by "
                                  << Json::diff(wanted[line], seen).dump();
    ++line;
  };
  const Json& scenarios = script_.at("scenarios");
  for (size_t number = 0; number < scenarios.size(); ++number) {
    Scenario(connections, number, scenarios.at(number), check).Play();
  }
  EXPECT_EQ(line, wanted.size());
}

INSTANTIATE_TEST_SUITE_P(Both, ConformanceTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return std::string(info.param ? "Pipelined" : "CallByCall");
                         });

}  // namespace
}  // namespace idempotency::testing
