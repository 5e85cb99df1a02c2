#include "service/identity/static_tokens.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

using ::testing::HasSubstr;

// SHA-256 of "abc" and of the empty text (FIPS 180-2).
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kEmpty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string Problem(const std::string& text) {
  const auto tokens = ParseStaticTokens(text);
  return tokens.ok() ? "" : std::string(tokens.status().message());
}

TEST(StaticTokensTest, FindsWhoHasAToken) {
  const auto tokens =
      ParseStaticTokens(absl::StrCat("# comment\n\n  ci\tsha256:", kAbc, " \r\nci sha256:", kEmpty,
                                     "\n", "Other.name_1-x sha256:", std::string(64, 'F')));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens)->size(), 3u);
  EXPECT_EQ((*tokens)->Find(DigestToken("abc")), "ci");
  EXPECT_EQ((*tokens)->Find(DigestToken("")), "ci");
  EXPECT_EQ((*tokens)->Find(DigestToken("abd")), "");
  TokenDigest all_ones;
  all_ones.fill(0xFF);
  EXPECT_EQ((*tokens)->Find(all_ones), "Other.name_1-x");
}

TEST(StaticTokensTest, SaysWhichLineIsWrongAndNeverRepeatsIt) {
  const std::string good = absl::StrCat("a sha256:", kAbc, "\n");
  const struct {
    const char* name;
    std::string text;
    const char* problem;
  } kCases[] = {
      {"empty", "", "holds no token"},
      {"comments alone", "# a\n\n", "holds no token"},
      {"a name alone", good + "secret\n", "line 2 is not a name and a digest"},
      {"three words", absl::StrCat("a sha256:", kAbc, " secret"), "line 1 is not a name"},
      {"the token itself", good + "b secret-secret-secret", "line 2 has no digest"},
      {"another hash", absl::StrCat("a md5:", kAbc), "line 1 has no digest"},
      {"a short digest", absl::StrCat("a sha256:", std::string(63, 'a')), "line 1 has no digest"},
      {"not hexadecimal", absl::StrCat("a sha256:", std::string(64, 'g')), "line 1 has no digest"},
      {"a name with a colon", absl::StrCat("a:secret sha256:", kAbc), "line 1 begins with no name"},
      {"a long name", absl::StrCat(std::string(65, 'a'), " sha256:", kAbc),
       "line 1 begins with no name"},
      {"the same token twice", good + absl::StrCat("b sha256:", kAbc),
       "line 2 has the digest of an earlier line"},
  };
  for (const auto& row : kCases) {
    EXPECT_THAT(Problem(row.text), HasSubstr(row.problem)) << row.name;
    EXPECT_EQ(Problem(row.text).find("secret"), std::string::npos) << row.name;
  }
}

TEST(StaticTokensTest, TakesAThousandLines) {
  std::string text;
  for (size_t i = 0; i < kMaxStaticTokens; ++i) {
    absl::StrAppend(&text, "t sha256:", absl::Hex(i, absl::kZeroPad16), std::string(48, '0'), "\n");
  }
  EXPECT_EQ(Problem(text), "");
  EXPECT_THAT(Problem(absl::StrCat(text, "u sha256:", kAbc)), HasSubstr("line 1001 is one too"));
}

}  // namespace
}  // namespace idempotency::service
