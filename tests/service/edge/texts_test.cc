// What callers write: texts, times, keys that should not be keys.
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "service/key_check.h"
#include "service/text.h"
#include "service/wire_time.h"

namespace idempotency::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TextTest, FindsTheFirstFault) {
  struct Row {
    const char* name;
    std::string text;
    TextFault fault;
  };
  const Row rows[] = {
      {"empty", "", TextFault::kNone},
      {"ascii", "abc ~", TextFault::kNone},
      {"two_bytes", "\xc3\xa4", TextFault::kNone},
      {"three_bytes", "\xe2\x82\xac", TextFault::kNone},
      {"four_bytes", "\xf0\x9f\x92\xb3", TextFault::kNone},
      {"last_code_point", "\xf4\x8f\xbf\xbf", TextFault::kNone},
      {"beyond_the_last", "\xf4\x90\x80\x80", TextFault::kNotUtf8},
      {"overlong_slash", "\xc0\xaf", TextFault::kNotUtf8},
      {"overlong_three", "\xe0\x80\x80", TextFault::kNotUtf8},
      {"overlong_four", "\xf0\x80\x80\x80", TextFault::kNotUtf8},
      {"surrogate", "\xed\xa0\x80", TextFault::kNotUtf8},
      {"lone_continuation", "\x80", TextFault::kNotUtf8},
      {"cut_off", "a\xe2\x82", TextFault::kNotUtf8},
      {"wrong_continuation", "\xc3(", TextFault::kNotUtf8},
      {"byte_ff", "\xff", TextFault::kNotUtf8},
      {"nul", std::string("\0", 1), TextFault::kControlCharacter},
      {"tab", "a\tb", TextFault::kControlCharacter},
      {"delete", "\x7f", TextFault::kControlCharacter},
      {"c1", "\xc2\x9f", TextFault::kControlCharacter},
      {"after_c1", "\xc2\xa0", TextFault::kNone},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(static_cast<int>(FindTextFault(row.text)), static_cast<int>(row.fault)) << row.name;
  }
}

TEST(TextTest, FindsAFaultWhereverItIs) {
  const auto fault_of = [](uint8_t byte) {
    if (byte >= 0x80) return TextFault::kNotUtf8;
    return byte < 0x20 || byte == 0x7F ? TextFault::kControlCharacter : TextFault::kNone;
  };
  for (size_t size = 1; size <= 20; ++size) {
    for (size_t at = 0; at < size; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string text(size, ' ');
        text[at] = static_cast<char>(byte);
        ASSERT_EQ(FindTextFault(text), fault_of(static_cast<uint8_t>(byte)))
            << "byte " << byte << " at " << at << " of " << size;
      }
      // Nothing of a character is lost where the bytes are taken several at a time.
      const std::string before(at, '~'), after(size - at, '~');
      ASSERT_EQ(FindTextFault(before + "\xe2\x82\xac" + after), TextFault::kNone);
      ASSERT_EQ(FindTextFault(before + "\xc2\x9f" + after), TextFault::kControlCharacter);
    }
  }
}

TEST(TextTest, IsCutBetweenCharacters) {
  EXPECT_EQ(CutText("abc", 3), "abc");
  EXPECT_EQ(CutText("abc", 2), "ab");
  EXPECT_EQ(CutText("a\xe2\x82\xac", 4), "a\xe2\x82\xac");
  EXPECT_EQ(CutText("a\xe2\x82\xac", 3), "a");
  EXPECT_EQ(CutText("\xe2\x82\xac", 2), "");
  EXPECT_EQ(CutText("abc", 0), "");
}

TEST(SpanTest, RoundsUpAndSaturates) {
  constexpr int64_t kMost = 315'576'000'000;
  struct Row {
    const char* name;
    int64_t whole;
    int32_t nanos;
    Span span;
  };
  const Row rows[] = {
      {"zero", 0, 0, {false, milliseconds(0)}},
      {"one_nano", 0, 1, {false, milliseconds(1)}},
      {"one_milli", 0, 1'000'000, {false, milliseconds(1)}},
      {"a_nano_more", 0, 1'000'001, {false, milliseconds(2)}},
      {"minus_one_nano", 0, -1, {true, milliseconds(0)}},
      {"minus_one_second", -1, 0, {true, milliseconds(0)}},
      {"signs_that_disagree", 1, -500'000'000, {false, milliseconds(500)}},
      {"signs_that_disagree_below_zero", -1, 500'000'000, {true, milliseconds(0)}},
      {"too_many_nanos", 0, 2'000'000'000, {false, milliseconds(2000)}},
      {"longest", kMost, 0, {false, seconds(kMost)}},
      {"longer", std::numeric_limits<int64_t>::max(), 999'999'999, {false, seconds(kMost)}},
      {"shortest", std::numeric_limits<int64_t>::min(), -999'999'999, {true, milliseconds(0)}},
  };
  for (const Row& row : rows) {
    google::protobuf::Duration duration;
    duration.set_seconds(row.whole);
    duration.set_nanos(row.nanos);
    EXPECT_EQ(ToSpan(duration), row.span) << row.name;
  }
}

TEST(SpanTest, KnowsWhatADurationMayBe) {
  constexpr int64_t kMost = 315'576'000'000;
  struct Row {
    const char* name;
    int64_t whole;
    int32_t nanos;
    bool well_formed;
  };
  const Row rows[] = {
      {"zero", 0, 0, true},
      {"nanos_alone", 0, -999'999'999, true},
      {"a_second_of_nanos", 0, 1'000'000'000, false},
      {"minus_a_second_of_nanos", 0, -1'000'000'000, false},
      {"negative", -1, -1, true},
      {"plus_minus", 1, -1, false},
      {"minus_plus", -1, 1, false},
      {"longest", kMost, 999'999'999, true},
      {"longer", kMost + 1, 0, false},
      {"shortest", -kMost, 0, true},
      {"shorter", -kMost - 1, 0, false},
  };
  for (const Row& row : rows) {
    google::protobuf::Duration duration;
    duration.set_seconds(row.whole);
    duration.set_nanos(row.nanos);
    EXPECT_EQ(IsWellFormed(duration), row.well_formed) << row.name;
  }
}

TEST(SpanTest, GoesOutAsItCameIn) {
  google::protobuf::Duration duration;
  SetDuration(milliseconds(1501), &duration);
  EXPECT_EQ(duration.seconds(), 1);
  EXPECT_EQ(duration.nanos(), 501'000'000);
  google::protobuf::Timestamp timestamp;
  SetTimestamp(core::Time(milliseconds(1'700'000'000'123)), &timestamp);
  EXPECT_EQ(timestamp.seconds(), 1'700'000'000);
  EXPECT_EQ(timestamp.nanos(), 123'000'000);
}

TEST(KeyCheckTest, RecognisesWhatShouldNotBeAKey) {
  struct Row {
    const char* text;
    const char* looks_like;
  };
  const Row rows[] = {
      // What keys usually are.
      {"order-4711", ""},
      {"7f1c0d9e-5b0a-4a3e-9c39-2f7b6d8a1e55", ""},
      {"01HZX4Q9VJ5W8K2T3M6N7P8R9S", ""},
      {"charge/2026-01-31/4711", ""},
      {"a@b", ""},
      {"@handle.example", ""},
      {"v1.2@build", ""},
      {"eyJ", ""},
      {"skating_live_1", ""},
      {"bearer-of-news", ""},
      {"the bearer of this", ""},
      {"hf_0123456789abcdef0123456789abcdef", ""},
      {"price-7%40discount", ""},
      // Version 4 identifiers whose groups are all digits; a date and a count.
      {"41111111-1111-4111-8111-111111111111", ""},
      {"abcd1111-4111-4111-8111-1111aaaaaaaa", ""},
      // E-mail addresses.
      {"alice@example.com", "an e-mail address"},
      {"order-7-alice+x@mail.example.co.uk-1", "an e-mail address"},
      {"alice%40example.com", "an e-mail address"},
      {"b\xc3\xbc@b\xc3\xbc"
       "cher.example",
       "an e-mail address"},
      // Card numbers: right prefix, length and check digit.
      {"4111111111111111", "a card number"},
      {"4111-1111-1111-1111", "a card number"},
      {"pay 4111 1111 1111 1111", "a card number"},
      {"378282246310005", "a card number"},
      {"3782-822463-10005", "a card number"},
      {"5555555555554444", "a card number"},
      {"2223003122003222", "a card number"},
      {"6011111111111117", "a card number"},
      {"2026-01-31-4111-1111-1111-1111", "a card number"},
      {"2200000000000053", "a card number"},
      {"6759649826438453", "a card number"},
      {"4111 1111-1111 1111", ""},  // gaps of two kinds
      {"4111111111111112", ""},     // check digit
      {"9111111111111111", ""},     // nobody's prefix
      {"41111111111111111", ""},    // 17 digits
      {"x4111111111111111", ""},    // part of a word
      {"41-11111111111111-1", ""},  // not a card's groups
      // Credentials.
      {"Bearer abc", "an authorization header"},
      {"basic dXNlcjpwYXNz", "an authorization header"},
      {"Authorization: Bearer mF_9.B5f-4.1JqM0123", "an authorization header"},
      {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig", "a JSON web token"},
      {"-----BEGIN PRIVATE KEY-----", "a private key"},
      {"-----BEGIN OPENSSH PRIVATE KEY-----", "a private key"},
      {"PuTTY-User-Key-File-3: ssh-ed25519", "a private key"},
      {"AGE-SECRET-KEY-1QQPQYQS", "a private key"},
      {"rk_live_aaaaaaaaaaaaaaaaaaaaaaaa", "an API key"},
      {"github_pat_aaaaaaaaaaaaaaaaaaaaaa", "an API key"},
      {"xoxb-111111111111-aaaaaaaaaaaa", "an API key"},
      {"AIzaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "an API key"},
      {"SG.aaaaaaaaaaaaaaaaaaaaaa.aaaaaaaa", "an API key"},
      {"sk-ant-api03-aaaaaaaaaaaaaaaa", "an API key"},
      {"sk_test_aaaaaaaaaaaaaaaaaaaaaaaa", "an API key"},
      {"key-AKIAAAAAAAAAAAAAAAAA", "an API key"},
      {"ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "an API key"},
      {"sk_live_short", ""},
  };
  for (const Row& row : rows) EXPECT_EQ(LooksSensitive(row.text), row.looks_like) << row.text;
}

}  // namespace
}  // namespace idempotency::service
