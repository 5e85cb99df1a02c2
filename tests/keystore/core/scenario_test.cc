// Every file in scenarios/ plays as it says. With IDEMPOTENCY_REWRITE_SCENARIOS set, the files
// are rewritten with the actual outcomes instead, for a person to judge.
#include "tests/keystore/core/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace idempotency::core {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> ScenarioFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(IDEMPOTENCY_SCENARIOS_DIR)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ScenarioTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(ScenarioTest, PlaysAsItSays) {
  const std::string text = ReadFile(GetParam());
  if (std::getenv("IDEMPOTENCY_REWRITE_SCENARIOS") != nullptr) {
    std::ofstream(GetParam(), std::ios::binary) << Rewrite(text);
    FAIL() << "rewritten: read it before you believe it";
  }
  EXPECT_EQ(Play(text), "") << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Scenarios, ScenarioTest, testing::ValuesIn(ScenarioFiles()),
                         [](const auto& file) { return file.param.stem().string(); });

TEST(ScenarioRunner, AWrongOutcomeIsReported) {
  EXPECT_NE(Play("at 0 reserve a\n  IN_PROGRESS RESERVE_AGAIN retry=1s\n"), "");
}

TEST(ScenarioRunner, ACommandWithoutAnExpectedOutcomeIsReported) {
  EXPECT_NE(Play("at 0 reserve a\n"), "");
  EXPECT_NE(Play("at 0 reserve a\nat 1s show\n  absent\n"), "");
}

TEST(ScenarioRunner, AWordThatIsNotUnderstoodIsReported) {
  const std::string wrong = Play("at 0 reserve a leese=3s\n  ACQUIRED\n");
  EXPECT_NE(wrong.find("what is 'leese=3s'?"), std::string::npos) << wrong;
  EXPECT_NE(Play("at 0 steal a\n  ACQUIRED\n").find("what is 'steal'?"), std::string::npos);
}

}  // namespace
}  // namespace idempotency::core
