// The C++ client leaves the same trace as those of other languages: tests/vectors/conformance.json,
// played against the release binary, call by call and over the stream.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/conformance/scenario.h"
#include "tests/client/conformance/script.h"
#include "tests/client/conformance/served.h"

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

class ConformanceTest : public ::testing::TestWithParam<bool> {};

TEST_P(ConformanceTest, LeavesTheTrace) {
  const Json script = Json::parse(ReadVectors("conformance.json"));
  const std::vector<Json> wanted = ReadTrace();
  const Served shared(script, Json::object(), GetParam());
  size_t line = 0;
  const auto check = [&](const Json& seen) {
    ASSERT_LT(line, wanted.size()) << seen;
    EXPECT_EQ(seen, wanted[line]) << "line " << line + 1 << " differs by "
                                  << Json::diff(wanted[line], seen).dump();
    ++line;
  };
  const Json& scenarios = script.at("scenarios");
  for (size_t number = 0; number < scenarios.size(); ++number) {
    const Json& scenario = scenarios.at(number);
    if (scenario.contains("server")) {
      const Served own(script, scenario.at("server"), GetParam());
      Scenario(own, number, scenario, check).Play();
    } else {
      Scenario(shared, number, scenario, check).Play();
    }
  }
  EXPECT_EQ(line, wanted.size());
}

INSTANTIATE_TEST_SUITE_P(Both, ConformanceTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return std::string(info.param ? "Pipelined" : "CallByCall");
                         });

}  // namespace
}  // namespace idempotency::testing
