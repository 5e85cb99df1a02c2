// The JSON reader against naive second opinions, at random; the seed is printed.
#include "client/src/json.h"

#include <codecvt>
#include <locale>
#include <random>
#include <string>

#include "client/src/json_number.h"
#include "client/src/utf8.h"
#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

constexpr uint32_t kSeed = 20261129;

std::u16string Utf16(const std::string& text) {
  std::wstring_convert<std::codecvt_utf8_utf16<char16_t>, char16_t> converter;
  return converter.from_bytes(text);
}

// Mostly from where the two orders differ.
std::string RandomText(std::mt19937* random) {
  constexpr uint32_t kInteresting[] = {0x61,   0x7f,   0x80,    0x7ff,   0x800,   0xd7ff,
                                       0xe000, 0xffff, 0x10000, 0x1f600, 0x10ffff};
  std::string text;
  const size_t length = (*random)() % 4;
  for (size_t i = 0; i < length; ++i) {
    AppendUtf8(kInteresting[(*random)() % std::size(kInteresting)], &text);
  }
  return text;
}

TEST(JsonTest, NamesSortByUtf16CodeUnits) {
  std::mt19937 random(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    const std::string a = RandomText(&random);
    const std::string b = RandomText(&random);
    EXPECT_EQ(Utf16Less(a, b), Utf16(a) < Utf16(b)) << "seed " << kSeed << ": " << a << ", " << b;
  }
}

// Digits of a * 10^x with so much room that nothing is lost: whole numbers of up to 18 digits.
struct Decimal {
  int64_t digits;
  int exponent;
};

std::string Written(const Decimal& value, int style, std::mt19937* random) {
  const bool negative = value.digits < 0;
  std::string digits = std::to_string(negative ? -value.digits : value.digits);
  const std::string sign = negative ? "-" : "";
  const std::string zeros((*random)() % 5, '0');
  switch (style) {
    case 0:  // 123e4
      return sign + digits + "e" + std::to_string(value.exponent);
    case 1: {  // 123000e1
      const auto more = static_cast<int>(zeros.size());
      return sign + digits + zeros + "E" + std::to_string(value.exponent - more);
    }
    case 2: {  // 1.2300e6
      const auto behind = static_cast<int>(digits.size()) - 1;
      const std::string fraction = digits.substr(1) + zeros;
      const std::string point = fraction.empty() ? "" : "." + fraction;
      return sign + digits.substr(0, 1) + point + "e+" + std::to_string(value.exponent + behind);
    }
    default: {  // 0.00123e9
      const auto behind = static_cast<int>(zeros.size() + digits.size());
      return sign + "0." + zeros + digits + "e" + std::to_string(value.exponent + behind);
    }
  }
}

std::string Canonical(const std::string& text) {
  const absl::StatusOr<JsonValue> value = ParseJson(text);
  EXPECT_TRUE(value.ok()) << text << " " << value.status();
  return value.ok() ? WriteCanonicalJson(*value) : "";
}

TEST(JsonTest, OneNumberHasOneTextAndTwoHaveTwo) {
  std::mt19937 random(kSeed);
  for (int i = 0; i < 5'000; ++i) {
    const int64_t digits = static_cast<int64_t>(random() % 2000) - 1000;
    const int exponent = 40 + static_cast<int>(random() % 9);
    const Decimal value{digits, exponent};
    const std::string first = Canonical(Written(value, 0, &random));
    for (int style = 0; style < 4; ++style) {
      // case 2 writes "e+": exponents are positive here.
      const std::string text = Written(value, style, &random);
      EXPECT_EQ(Canonical(text), first) << "seed " << kSeed << ": " << text;
    }
    EXPECT_EQ(Canonical(first), first) << "seed " << kSeed;
    const std::string next = Canonical(Written({digits + 1, exponent}, 0, &random));
    EXPECT_NE(next, first) << "seed " << kSeed;
  }
}

// Where a double holds a number exactly as it is written, RFC 8785's text is the shortest that
// reads back: that of a large precision with its zeros taken off.
TEST(JsonTest, WholeNumbersAreAsTheyAlwaysWere) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 5'000; ++i) {
    const auto number = static_cast<int64_t>(random() >> (11 + random() % 50));
    EXPECT_EQ(Canonical(std::to_string(number)), std::to_string(number));
    EXPECT_EQ(Canonical(std::to_string(number) + ".000"), std::to_string(number));
  }
}

TEST(JsonTest, WhatIsWrittenReadsBackTheSame) {
  const std::string texts[] = {
      R"({"b":[1,2.5,-3e-9,{"x":null}],"a":{"\u0000":"\ud83d\ude00\n"},"":true})",
      R"([[],{},"",false,0,[[[]]]])",
  };
  for (const std::string& text : texts) {
    const std::string once = Canonical(text);
    EXPECT_EQ(Canonical(once), once) << text;
  }
}

// Its canonical form was written, and then refused as too large by whoever read it.
TEST(JsonTest, ANumberThatIsWrittenTooLargeToBeReadIsRefused) {
  for (const char* text : {"12e999999999", "0.1e-999999999", "-0.01e-999999998"}) {
    EXPECT_FALSE(ParseJson(text).ok()) << text;
  }
  for (const char* text : {"0.1e1000000000", "10e-1000000000"}) {
    EXPECT_FALSE(ParseJson(text).ok()) << text;
  }
  for (const std::string text : {"1.2e+999999999", "1e-999999999"}) {
    EXPECT_EQ(Canonical(text), text);
  }
  EXPECT_EQ(Canonical("0.01e-999999997"), "1e-999999999");
}

// Whatever arrives, the reader says yes or no, and what it says yes to is stable.
TEST(JsonTest, NothingBreaksIt) {
  std::mt19937 random(kSeed);
  const std::string pieces[] = {"{",  "}",    "[",    "]",    ",",    ":",       "\"",
                                "\\", "\\u",  "d83d", "de00", "0",    "1",       "-",
                                ".",  "e",    "+",    "true", "nul",  "\"a\"",   " ",
                                "\n", "\x80", "\xc3", "\xa9", "\xf0", "\"a\":1", "null"};
  int accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    const size_t count = 1 + random() % 8;
    for (size_t piece = 0; piece < count; ++piece) text += pieces[random() % std::size(pieces)];
    const absl::StatusOr<JsonValue> value = ParseJson(text);
    if (!value.ok()) continue;
    ++accepted;
    const std::string once = WriteCanonicalJson(*value);
    EXPECT_EQ(Canonical(once), once) << "seed " << kSeed << ": " << text;
  }
  EXPECT_GT(accepted, 500) << "the pieces hardly ever fit together";
}

}  // namespace
}  // namespace idempotency::internal
