// Whatever the bytes of a file are, reading it ends in a configuration or in problems: it
// neither crashes nor runs on.
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "service/config.h"

namespace idempotency::service {
namespace {

constexpr std::string_view kSeedText = R"(
defaults:
  retention: 24h
  provider: &p {name: "P", endpoints: [POST /a, 'b']}
namespaces:
  - name: payments
    preset: STRIPE_V1
    max_attempts: 3
    provider: *p
  - name: other
    description: |
      two
      lines
limits: {max_waiters: 10}
unlisted_namespaces: ALLOW
)";

// What YAML and the schema give a meaning to.
constexpr std::string_view kPieces[] = {"\n",         "\n  ",
                                        "\n- ",       ": ",
                                        ":",          "- ",
                                        "[",          "]",
                                        "{",          "}",
                                        ",",          "&a ",
                                        "*a",         "!!str ",
                                        "!",          "|\n",
                                        ">\n",        "'",
                                        "\"",         "\\",
                                        "#",          "%TAG ",
                                        "---\n",      "...\n",
                                        "? ",         "<<: ",
                                        "~",          "null",
                                        "@",          "`",
                                        "\t",         "\r\n",
                                        "\x04",       "\xEF\xBB\xBF",
                                        "\xFF",       "\xC3\xA9",
                                        "\\x00",      "\\uD800",
                                        "-1s",        "24h",
                                        "RERUN",      "name",
                                        "preset",     "namespaces",
                                        "limits",     "defaults",
                                        "provider",   "endpoints",
                                        "retention",  "max_waiters",
                                        "4294967296", "99999999999999999999d"};

// Loads `text`; the answer has to be either whole or a reason.
void Load(const std::string& text) {
  const auto config = Config::LoadText(text, "f.yaml");
  if (config.ok()) {
    for (const std::string& name : (*config)->Names()) EXPECT_TRUE((*config)->Accepts(name));
  } else {
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(config.status().message().substr(0, 7), "f.yaml:") << config.status();
  }
}

class ConfigRandomTest : public testing::Test {
 protected:
  size_t Below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }
  std::string_view Piece() { return kPieces[Below(std::size(kPieces))]; }

  static constexpr uint32_t kSeed = 20261129;
  static constexpr int kRounds = 3000;
  std::mt19937 random_{kSeed};
};

TEST_F(ConfigRandomTest, PiecesInAnyOrder) {
  for (int round = 0; round < kRounds; ++round) {
    std::string text;
    for (size_t left = Below(40); left > 0; --left) text += Piece();
    SCOPED_TRACE(text);
    Load(text);
  }
}

TEST_F(ConfigRandomTest, AGoodFileWithPiecesPutInAndLeftOut) {
  for (int round = 0; round < kRounds; ++round) {
    std::string text(kSeedText);
    for (size_t left = 1 + Below(4); left > 0; --left) {
      const size_t at = Below(text.size());
      text.replace(at, Below(8), Below(2) == 0 ? "" : Piece());
    }
    SCOPED_TRACE(text);
    Load(text);
  }
}

TEST_F(ConfigRandomTest, AnyBytes) {
  for (int round = 0; round < kRounds; ++round) {
    std::string text;
    for (size_t left = Below(60); left > 0; --left) text += static_cast<char>(Below(256));
    SCOPED_TRACE(text);
    Load(text);
  }
}

TEST_F(ConfigRandomTest, AGoodFileCutOffAnywhere) {
  for (size_t end = 0; end <= kSeedText.size(); ++end) {
    const std::string text(kSeedText.substr(0, end));
    SCOPED_TRACE(text);
    Load(text);
  }
}

}  // namespace
}  // namespace idempotency::service
