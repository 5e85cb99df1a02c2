#include "client/ctl/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idempotency::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<CsvRow> Parse(const std::string& text) {
  std::string error;
  std::vector<CsvRow> rows = ParseCsv(text, &error);
  EXPECT_EQ(error, "") << text;
  return rows;
}

std::string ErrorOf(const std::string& text) {
  std::string error;
  EXPECT_THAT(ParseCsv(text, &error), IsEmpty());
  return error;
}

TEST(Csv, TakesFieldsApart) {
  EXPECT_THAT(Parse("a,b,c\n1,,3\n"),
              ElementsAre(CsvRow{1, {"a", "b", "c"}}, CsvRow{2, {"1", "", "3"}}));
  EXPECT_THAT(Parse("a,b\r\n1,2"), ElementsAre(CsvRow{1, {"a", "b"}}, CsvRow{2, {"1", "2"}}));
  EXPECT_THAT(Parse("\xef\xbb\xbf"
                    "a\n"),
              ElementsAre(CsvRow{1, {"a"}}));
  EXPECT_THAT(Parse(""), IsEmpty());
}

TEST(Csv, QuotedFieldsHoldAnything) {
  EXPECT_THAT(Parse("\"a,b\",\"say \"\"no\"\"\",\"two\nlines\"\nnext\n"),
              ElementsAre(CsvRow{1, {"a,b", "say \"no\"", "two\nlines"}}, CsvRow{3, {"next"}}));
  EXPECT_THAT(Parse("\"\",x\n"), ElementsAre(CsvRow{1, {"", "x"}}));
}

TEST(Csv, LeavesEmptyLinesOut) {
  EXPECT_THAT(Parse("a\n\n\r\nb\n"), ElementsAre(CsvRow{1, {"a"}}, CsvRow{4, {"b"}}));
}

TEST(Csv, NamesTheLineThatIsNot) {
  EXPECT_THAT(ErrorOf("a\nb\"c\n"), HasSubstr("line 2: a quote inside"));
  EXPECT_THAT(ErrorOf("a\n\"b\nc\n"), HasSubstr("line 2: a quote is not closed"));
  EXPECT_THAT(ErrorOf("\"a\"b\n"), HasSubstr("line 1: something follows"));
}

}  // namespace
}  // namespace idempotency::ctl
