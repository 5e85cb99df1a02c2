#include "client/ctl/printable.h"

#include <gtest/gtest.h>

#include "client/ctl/table.h"
#include "tests/client/ctl/shell.h"

namespace idempotency::ctl {
namespace {

TEST(Printable, Utf8IsCheckedStrictly) {
  for (const char* text : {"", "plain", "\u00e9", "\u20ac", "\U0001F600", "\u043a\u043b"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* text : {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "a\xFF"}) {
    EXPECT_FALSE(IsUtf8(text)) << testing::PrintToString(text);
  }
}

TEST(Printable, NothingActsOnATerminal) {
  EXPECT_EQ(Printable("plain \u00e9"), "plain \u00e9");
  EXPECT_EQ(Printable("\x1b[31mred\n"), "\\x1b[31mred\\x0a");
  EXPECT_EQ(Printable("\xff"), "\\xff");
  EXPECT_EQ(Printable("\x7f"), "\\x7f");
  EXPECT_EQ(Printable("\u009b1m"), "\\xc2\\x9b1m");
  EXPECT_EQ(Printable("a\u202eb"), "a\\xe2\\x80\\xaeb");
}

TEST(Printable, PreviewsCountCharacters) {
  EXPECT_EQ(Preview("abc", 3), "abc");
  EXPECT_EQ(Preview("abcd", 3), "abc...");
  EXPECT_EQ(Preview("\u00e9\u00e9\u00e9", 2), "\u00e9\u00e9...");
}

TEST(ShellQuote, LeavesPlainWordsBare) {
  for (const char* text : {"payments", "a/b/c", "x=y", "127.0.0.1:7420", "a@b,c%+-_"}) {
    EXPECT_EQ(ShellQuote(text), text);
  }
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("a b"), "'a b'");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellQuote("a\nb"), "$'a\\x0ab'");
  EXPECT_EQ(ShellQuote("=x"), "'=x'");
  EXPECT_EQ(ShellQuote("~x"), "'~x'");
}

TEST(ShellQuote, BashReadsTheSameBytes) {
  for (const std::string text :
       {"", "a b", "it's", "$HOME", "`id`", "!!", "*", "\\", "\"", "a\nb\t'c'\\", "#x", "a;b", "~x",
        "=x", "{a,b}", "\u043a\u043b\u044e\u0447", "\x1b[0m\xff", "a\u202e'1"}) {
    EXPECT_EQ(WordsOf("idempotencyctl " + ShellQuote(text)), std::vector<std::string>{text})
        << ShellQuote(text);
  }
}

TEST(Table, ColumnsAlignByCharacters) {
  Table table({"A", "B"});
  table.Add({"\u00e9\u00e9\u00e9", "x"});
  table.Add({"y", ""});
  EXPECT_EQ(table.ToString(), "A    B\n\u00e9\u00e9\u00e9  x\ny\n");
}

TEST(Table, FieldsThatAreNotSetAreNotShown) {
  Fields fields;
  fields.Add("state", "PENDING");
  fields.Add("cause", "");
  fields.Add("worker", "\x1b[2J");
  EXPECT_EQ(fields.ToString(), "  state   PENDING\n  worker  \\x1b[2J\n");
}

}  // namespace
}  // namespace idempotency::ctl
