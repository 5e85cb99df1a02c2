#include "keystore/codec/key_codec.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::keystore {
namespace {

using core::Key;
using ::testing::StartsWith;

// What is told apart only by where one part ends and the next begins, and bytes that are
// special elsewhere.
std::vector<Key> OddKeys() {
  using std::string_literals::operator""s;
  return {
      {"", "", ""},
      {"", "", "a"},
      {"", "a", ""},
      {"a", "", ""},
      {"a", "bc", "k"},
      {"ab", "c", "k"},
      {"a", "b", "ck"},
      {"abc", "", "k"},
      {"a", "", "bck"},
      {"a", "b", ""},
      {"a", "b", "k"},
      {"a", "b", "kk"},
      {"a\0"s, "b", "k"},
      {"a", "\0b"s, "k"},
      {"a", "\0"s, "k"},
      {"a", "b", "\0"s},
      {"a", "b", "\0\0"s},
      {"a", "b", "\xff"},
      {"a", "b", "\xff\xff"},
      {"a", "\xff", "k"},
      {"\xff", "b", "k"},
      {"a", "B", "k"},
      {std::string(64, 'n'), std::string(255, 's'), std::string(255, 'k')},
      {std::string(255, '\xff'), std::string(255, '\xff'), std::string(255, '\xff')},
  };
}

TEST(KeyCodecTest, GoldenBytes) {
  EXPECT_EQ(EncodeKey({"pay", "eu", "order-1"}),
            "\x03pay\x02"
            "euorder-1");
}

TEST(KeyCodecTest, KeysComeBack) {
  for (const Key& key : OddKeys()) {
    const std::string bytes = EncodeKey(key);
    EXPECT_EQ(DecodeKey(bytes), key) << ::testing::PrintToString(bytes);
  }
}

TEST(KeyCodecTest, DifferentKeysAreDifferentBytes) {
  const std::vector<Key> keys = OddKeys();
  for (const Key& a : keys) {
    for (const Key& b : keys) {
      EXPECT_EQ(EncodeKey(a) == EncodeKey(b), a == b)
          << ::testing::PrintToString(EncodeKey(a)) << ::testing::PrintToString(EncodeKey(b));
    }
  }
}

TEST(KeyCodecTest, InOneScopeBytesAreOrderedAsKeysAre) {
  std::vector<std::string> keys = {"", "a", "a\x01", "ab", "b", "\x7f", "\x80", "\xff", "\xff\xff"};
  keys.push_back(std::string(1, '\0'));
  keys.push_back(std::string("a\0", 2));
  for (const std::string& a : keys) {
    for (const std::string& b : keys) {
      EXPECT_EQ(EncodeKey({"n", "s", a}) < EncodeKey({"n", "s", b}), a < b)
          << ::testing::PrintToString(a) << ::testing::PrintToString(b);
    }
  }
}

bool InRange(std::string_view bytes, const std::string& prefix) {
  const std::string end = PrefixEnd(prefix);
  return bytes >= prefix && (end.empty() || bytes < end);
}

TEST(KeyCodecTest, ANamespaceIsOneRange) {
  for (const Key& wanted : OddKeys()) {
    for (const Key& key : OddKeys()) {
      EXPECT_EQ(InRange(EncodeKey(key), NamespacePrefix(wanted.name_space)),
                key.name_space == wanted.name_space)
          << ::testing::PrintToString(EncodeKey(key))
          << ::testing::PrintToString(wanted.name_space);
    }
  }
}

TEST(KeyCodecTest, AKeyPrefixInAScopeIsOneRange) {
  for (const Key& wanted : OddKeys()) {
    const std::string prefix = ScopePrefix(wanted.name_space, wanted.scope, wanted.key);
    for (const Key& key : OddKeys()) {
      const bool fits = key.name_space == wanted.name_space && key.scope == wanted.scope &&
                        std::string_view(key.key).substr(0, wanted.key.size()) == wanted.key;
      EXPECT_EQ(InRange(EncodeKey(key), prefix), fits)
          << ::testing::PrintToString(EncodeKey(key)) << ::testing::PrintToString(prefix);
    }
  }
}

TEST(KeyCodecTest, AScopeLiesInItsNamespace) {
  EXPECT_THAT(ScopePrefix("pay", "eu", ""), StartsWith(NamespacePrefix("pay")));
  EXPECT_THAT(EncodeKey({"pay", "eu", "k"}), StartsWith(ScopePrefix("pay", "eu", "")));
}

TEST(KeyCodecTest, PrefixEndIsTheSmallestAboveAllThatBeginWithIt) {
  struct Row {
    const char* name;
    std::string prefix;
    std::string end;
  };
  const std::vector<Row> rows = {
      {"nothing has no end", "", ""},
      {"the last byte rises", "ab", "ac"},
      {"NUL rises", std::string("a\0", 2), "a\x01"},
      {"0x7f rises to 0x80", "\x7f", "\x80"},
      {"0xfe rises to 0xff", "\xfe", "\xff"},
      {"0xff gives way to the byte before", "a\xff", "b"},
      {"many 0xff give way", "a\xff\xff\xff", "b"},
      {"0xff inside stays",
       "\xff"
       "a",
       "\xff"
       "b"},
      {"only 0xff has no end", "\xff\xff", ""},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(PrefixEnd(row.prefix), row.end)
        << row.name << ": " << ::testing::PrintToString(row.prefix);
  }
}

TEST(KeyCodecTest, LengthsBeyondTheEndAreRefused) {
  struct Row {
    const char* name;
    std::string bytes;
  };
  const std::vector<Row> rows = {
      {"nothing", ""},
      {"namespace missing", "\x01"},
      {"namespace cut",
       "\x05"
       "abc"},
      {"scope length missing",
       "\x03"
       "abc"},
      {"scope missing",
       "\x03"
       "abc\x01"},
      {"scope cut",
       "\x03"
       "abc\x05"
       "abcd"},
      {"length with its high bit",
       "\xff"
       "abc"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(DecodeKey(row.bytes), std::nullopt)
        << row.name << ": " << ::testing::PrintToString(row.bytes);
  }
}

TEST(KeyCodecTest, WhatIsReadIsWhatWouldBeWritten) {
  // All strings of up to four of these bytes, short of exhausting every byte there is.
  const std::string alphabet(
      "\0\x01\x02"
      "a\xff",
      5);
  std::vector<std::string> all = {""};
  for (size_t begin = 0, length = 0; length < 4; ++length) {
    const size_t end = all.size();
    for (; begin < end; ++begin) {
      for (const char byte : alphabet) all.push_back(all[begin] + byte);
    }
  }
  for (const std::string& bytes : all) {
    const std::optional<Key> key = DecodeKey(bytes);
    if (key.has_value()) {
      EXPECT_EQ(EncodeKey(*key), bytes) << ::testing::PrintToString(bytes);
    }
  }
}

TEST(KeyCodecDeathTest, APartOverItsLimitIsABug) {
  EXPECT_DEATH(EncodeKey({std::string(256, 'n'), "s", "k"}), "");
  EXPECT_DEATH(EncodeKey({"n", std::string(256, 's'), "k"}), "");
}

}  // namespace
}  // namespace idempotency::keystore
