#include "service/config_problems.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

TEST(ConfigProblemsTest, TellsThemByLine) {
  ConfigProblems problems;
  EXPECT_TRUE(problems.empty());
  problems.Add(7, "b.c", "second on the line");
  problems.Add(2, "a", "first");
  problems.Add(7, "", "third");
  problems.Add(0, "", "of the whole file");
  EXPECT_FALSE(problems.empty());
  EXPECT_EQ(problems.Tell("dir/f.yaml"),
            "dir/f.yaml: of the whole file\n"
            "dir/f.yaml:2: a: first\n"
            "dir/f.yaml:7: b.c: second on the line\n"
            "dir/f.yaml:7: third");
}

TEST(ConfigProblemsTest, KnowsWhichFieldsHaveSome) {
  ConfigProblems problems;
  problems.Add(7, "b.c", "wrong");
  EXPECT_TRUE(problems.Has("b.c"));
  EXPECT_FALSE(problems.Has("b"));
  EXPECT_FALSE(problems.Has("b.c.d"));
}

TEST(ConfigProblemsTest, CountsWhatItDoesNotTell) {
  ConfigProblems problems;
  for (size_t i = 0; i < ConfigProblems::kMaxTold; ++i) problems.Add(1, absl::StrCat("f", i), "x");
  EXPECT_EQ(problems.Tell("f").find("not told"), std::string::npos);
  problems.Add(1, "over", "x");
  problems.Add(1, "more", "x");
  EXPECT_TRUE(problems.Has("more"));
  const std::string told = problems.Tell("f");
  EXPECT_EQ(told.find("over"), std::string::npos);
  EXPECT_EQ(told.substr(told.rfind('\n') + 1), "f: 2 more problems are not told: mend these first");
}

TEST(QuotedTest, IsPrintableAndShort) {
  const struct {
    std::string text;
    std::string expected;
  } kRows[] = {
      {"", "''"},
      {"a b", "'a b'"},
      {"a\nb", "'a\\nb'"},
      {"caf\xC3\xA9", "'caf\xC3\xA9'"},
      {std::string(64, 'x'), "'" + std::string(64, 'x') + "'"},
      {std::string(65, 'x'), "'" + std::string(64, 'x') + "...'"},
      // A character of two bytes across the cut goes as a whole.
      {std::string(63, 'x') + "\xC3\xA9", "'" + std::string(63, 'x') + "...'"},
  };
  for (const auto& row : kRows) EXPECT_EQ(Quoted(row.text), row.expected) << row.text;
}

}  // namespace
}  // namespace idempotency::service
