// What the key check recognises, written a second time as regular expressions; and how often it
// takes what keys are usually made of for something else.
#include "service/key_check.h"

#include <regex.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

// An extended regular expression over bytes, NUL included.
class Pattern {
 public:
  explicit Pattern(const std::string& text, int flags = 0) {
    EXPECT_EQ(regcomp(&compiled_, text.c_str(), REG_EXTENDED | flags), 0) << text;
  }
  ~Pattern() { regfree(&compiled_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // How many bytes the first match has; -1: there is none.
  int Match(std::string_view text) const {
    regmatch_t match{0, static_cast<regoff_t>(text.size())};
    if (regexec(&compiled_, text.data(), 1, &match, REG_STARTEND) != 0) return -1;
    return match.rm_eo - match.rm_so;
  }
  bool Find(std::string_view text) const { return Match(text) >= 0; }

 private:
  regex_t compiled_;
};

const char kLetters[] = "A-Za-z\x80-\xff";
const char kCredentials[] =
    "sk_live_|sk_test_|rk_live_|rk_test_|whsec_|sq0atp-|sq0csp-|shpat_|shpss_|shpca_|shppa_|AKIA|"
    "ASIA|AIza|ya29\\.|GOCSPX-|dop_v1_|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|npm_|pypi-AgE|"
    "hvs\\.|xoxb-|xoxp-|xoxa-|xoxr-|xoxs-|xoxe-|xapp-|SG\\.|sk-proj-|sk-ant-";

bool PassesLuhn(const std::string& digits) {
  int sum = 0;
  bool twice = false;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, twice = !twice) {
    const int value = (*digit - '0') * (twice ? 2 : 1);
    sum += value / 10 + value % 10;
  }
  return sum % 10 == 0;
}

class EveryPattern {
 public:
  std::string_view Describe(std::string_view text) const {
    if (email_.Find(text)) return "an e-mail address";
    if (HoldsCardNumber(text)) return "a card number";
    if (authorization_.Find(text)) return "an authorization header";
    if (jwt_.Find(text)) return "a JSON web token";
    if (private_key_.Find(text)) return "a private key";
    if (api_key_.Find(text)) return "an API key";
    return {};
  }

 private:
  bool HoldsCardNumber(std::string_view text) const {
    for (size_t at = 0; at < text.size(); ++at) {
      if (at > 0 && absl::ascii_isalnum(static_cast<unsigned char>(text[at - 1]))) continue;
      const int bytes = card_.Match(text.substr(at));
      if (bytes < 0) continue;
      std::string digits(text.substr(at, bytes));
      digits.erase(std::remove_if(digits.begin(), digits.end(),
                                  [](unsigned char c) { return !absl::ascii_isdigit(c); }),
                   digits.end());
      if (issuer_.Find(digits) && PassesLuhn(digits)) return true;
    }
    return false;
  }

  const std::string letters_ = kLetters;
  const Pattern email_{"[0-9._%+" + letters_ + "-](@|%40)[0-9." + letters_ + "-]*[0-9" + letters_ +
                       "-]\\.[" + letters_ + "]{2}"};
  const Pattern card_{
      "^([0-9]{15,16}|[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{4}|[0-9]{4} [0-9]{4} [0-9]{4} [0-9]{4}|"
      "[0-9]{4}-[0-9]{6}-[0-9]{5}|[0-9]{4} [0-9]{6} [0-9]{5})($|[^0-9A-Za-z])"};
  const Pattern issuer_{
      "^(4.{15}|5[1-5].{14}|(222[1-9]|22[3-9].|2[3-6]..|27[01].|2720).{12}|3[47].{13}|6011.{12}|"
      "(64[4-9]|65.).{13}|(352[89]|35[3-8].).{12}|62.{14}|220[0-4].{12}|"
      "(5018|5020|5038|5893|6304|6759|676[123]).{12})$"};
  const Pattern authorization_{"^(bearer|basic) |[^0-9A-Za-z](bearer|basic) [0-9A-Za-z_.~+/=-]{16}",
                               REG_ICASE};
  const Pattern jwt_{"eyJ[0-9A-Za-z_-]{7,}\\.[0-9A-Za-z_-]{4,}\\."};
  const Pattern private_key_{"(^|[^0-9A-Za-z])(----BEGIN |PuTTY-User-Key-File-|AGE-SECRET-KEY-1)"};
  const Pattern api_key_{"(^|[^0-9A-Za-z])(" + std::string(kCredentials) + ")[0-9A-Za-z_-]{16}"};
};

// Parts of what is recognised, whole and broken, and what may be around them.
constexpr std::string_view kParts[] = {
    "a",
    "Z",
    "7",
    "-",
    "_",
    " ",
    ".",
    "@",
    "%40",
    "/",
    "\xc3\xa4",
    "alice",
    "example.com",
    "mail.co",
    "alice@example.com",
    "4111111111111111",
    "4111",
    "1111",
    "411111111111111",
    "378282246310005",
    "3782",
    "822463",
    "10005",
    "-1111-1111-1111",
    " 1111 1111 1111",
    "-1111 1111-1111",
    "2200000000000053",
    "6759649826438453",
    "Bearer ",
    "basic ",
    "bearer",
    "eyJ",
    "eyJhbGciOiJIUzI1NiJ9",
    ".eyJzdWIiOiIxIn0.",
    "-----BEGIN ",
    "-----BEGIN",
    "BEGIN ",
    "PuTTY-User-Key-File-",
    "AGE-SECRET-KEY-1",
    "sk_live_",
    "AKIA",
    "ghp_",
    "SG.",
    "github_pat_",
    "xoxb-",
    "hvs",
    "abcdefghijklmnop",
    "0123456789abcdef",
    "7f1c0d9e-5b0a-4a3e-9c39-2f7b6d8a1e55",
};

std::string RandomText(std::mt19937& random) {
  const auto below = [&random](size_t n) { return random() % n; };
  std::string text;
  for (size_t parts = below(6) + 1; parts > 0; --parts) {
    text += below(8) == 0 ? std::string(1, static_cast<char>(below(256)))
                          : std::string(kParts[below(std::size(kParts))]);
  }
  return text;
}

TEST(KeyCheckTest, FindsWhatTryingEveryPatternFinds) {
  constexpr unsigned kSeed = 20260131;
  std::mt19937 random(kSeed);
  const EveryPattern every_pattern;
  std::map<std::string_view, int> found;
  for (int i = 0; i < 30'000; ++i) {
    const std::string text = RandomText(random);
    const std::string_view expected = every_pattern.Describe(text);
    ASSERT_EQ(LooksSensitive(text), expected) << text << ", number " << i << ", seed " << kSeed;
    ++found[expected];
  }
  // Each kind came up, and so did texts of none.
  EXPECT_EQ(found.size(), 7u);
  for (const auto& [kind, times] : found) EXPECT_GE(times, 50) << kind;
}

// --- How often what keys are made of is taken for something else
// -----------------------------------

using Random = std::mt19937_64;

uint64_t Between(Random& random, uint64_t first, uint64_t last) {
  return first + random() % (last - first + 1);
}

std::string Digits(Random& random, size_t count) {
  std::string digits;
  while (digits.size() < count) digits += static_cast<char>('0' + random() % 10);
  return digits;
}

std::string Bytes(Random& random, size_t count) {
  std::string bytes;
  while (bytes.size() < count) bytes += static_cast<char>(random() % 256);
  return bytes;
}

// Any time from 2005 to 2038, in milliseconds.
uint64_t AnyTime(Random& random) { return Between(random, 1'104'537'600'000, 2'145'916'800'000); }

std::string Date(Random& random) {
  return absl::StrFormat("%04d%02d%02d", Between(random, 2005, 2038), Between(random, 1, 12),
                         Between(random, 1, 28));
}

std::string Number(uint64_t number) { return std::to_string(number); }

std::string Hex(const std::string& bytes) {
  return std::string(absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size())));
}

std::string Base64(const std::string& bytes) {
  return absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()));
}

std::string Base64Url(const std::string& bytes) {
  return absl::WebSafeBase64Escape(absl::string_view(bytes.data(), bytes.size()));
}

std::string Dashed(const std::string& hex) {
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" +
         hex.substr(16, 4) + "-" + hex.substr(20);
}

std::string UuidBytes(Random& random, int version) {
  std::string uuid = Bytes(random, 16);
  const uint64_t time = version == 7 ? AnyTime(random) << 16 : AnyTime(random) * 10'000;
  // The version 1 has the low part of its time first, the version 7 the high one.
  const std::string_view order = version == 7 ? "01234567" : "67450123";
  for (size_t i = 0; i < 8 && version != 4; ++i) {
    if (version == 7 && i >= 6) break;
    uuid[i] = static_cast<char>(time >> (56 - 8 * (order[i] - '0')));
  }
  uuid[6] = static_cast<char>((uuid[6] & 0x0f) | (version << 4));
  uuid[8] = static_cast<char>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

std::string Ulid(Random& random) {
  constexpr char kAlphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  std::string ulid;
  const uint64_t time = AnyTime(random);
  for (int shift = 45; shift >= 0; shift -= 5) ulid += kAlphabet[(time >> shift) & 31];
  while (ulid.size() < 26) ulid += kAlphabet[random() % 32];
  return ulid;
}

// At least three months after the beginning of its count.
std::string Snowflake(Random& random, uint64_t epoch_ms, int low_bits) {
  const uint64_t age = Between(random, epoch_ms + 7'776'000'000, 2'145'916'800'000) - epoch_ms;
  return Number(age << low_bits | (random() & ((uint64_t{1} << low_bits) - 1)));
}

struct Shape {
  const char* name;
  std::function<std::string(Random&)> make;
  // How many of 100,000 may be recognised as something at the most.
  int at_most;
};

constexpr int kSamples = 100'000;
constexpr int kOneInTenThousand = kSamples / 10'000 - 1;
constexpr uint64_t kTwitterEpoch = 1'288'834'974'657;
constexpr uint64_t kDiscordEpoch = 1'420'070'400'000;
constexpr uint64_t kInstagramEpoch = 1'314'220'021'721;

int Recognised(const Shape& shape, Random& random) {
  int recognised = 0;
  for (int i = 0; i < kSamples; ++i) {
    if (!LooksSensitive(shape.make(random)).empty()) ++recognised;
  }
  return recognised;
}

// `gtest --gtest_filter=KeyCheckRates*` prints the table of service/README.md.
void Measure(const std::vector<Shape>& shapes) {
  for (const Shape& shape : shapes) {
    Random random(20260131);
    const int recognised = Recognised(shape, random);
    std::printf("%-52s %6d of %d\n", shape.name, recognised, kSamples);
    EXPECT_LE(recognised, shape.at_most) << shape.name << ", such as " << shape.make(random);
  }
}

TEST(KeyCheckRatesTest, IdentifiersAreKeys) {
  Measure({
      {"UUID v1", [](Random& r) { return Dashed(Hex(UuidBytes(r, 1))); }, kOneInTenThousand},
      {"UUID v1, no dashes", [](Random& r) { return Hex(UuidBytes(r, 1)); }, kOneInTenThousand},
      {"UUID v4", [](Random& r) { return Dashed(Hex(UuidBytes(r, 4))); }, kOneInTenThousand},
      {"UUID v4, no dashes", [](Random& r) { return Hex(UuidBytes(r, 4)); }, kOneInTenThousand},
      {"UUID v7", [](Random& r) { return Dashed(Hex(UuidBytes(r, 7))); }, kOneInTenThousand},
      {"UUID v7, no dashes", [](Random& r) { return Hex(UuidBytes(r, 7)); }, kOneInTenThousand},
      {"ULID", Ulid, kOneInTenThousand},
      {"snowflake, Twitter's epoch", [](Random& r) { return Snowflake(r, kTwitterEpoch, 22); },
       kOneInTenThousand},
      {"snowflake, Discord's epoch", [](Random& r) { return Snowflake(r, kDiscordEpoch, 22); },
       kOneInTenThousand},
      {"snowflake, Instagram's, 23 low bits",
       [](Random& r) { return Snowflake(r, kInstagramEpoch, 23); }, kOneInTenThousand},
  });
}

TEST(KeyCheckRatesTest, TimesAreKeys) {
  Measure({
      {"epoch time, s", [](Random& r) { return Number(AnyTime(r) / 1000); }, kOneInTenThousand},
      {"epoch time, ms", [](Random& r) { return Number(AnyTime(r)); }, kOneInTenThousand},
      {"epoch time, us", [](Random& r) { return Number(AnyTime(r) * 1000 + r() % 1000); },
       kOneInTenThousand},
      {"epoch time, ns", [](Random& r) { return Number(AnyTime(r) * 1'000'000 + r() % 1'000'000); },
       kOneInTenThousand},
  });
}

TEST(KeyCheckRatesTest, HashesAreKeys) {
  Measure({
      {"MD5, hex", [](Random& r) { return Hex(Bytes(r, 16)); }, kOneInTenThousand},
      {"MD5, base64", [](Random& r) { return Base64(Bytes(r, 16)); }, kOneInTenThousand},
      {"MD5, base64url", [](Random& r) { return Base64Url(Bytes(r, 16)); }, kOneInTenThousand},
      {"SHA-1, hex", [](Random& r) { return Hex(Bytes(r, 20)); }, kOneInTenThousand},
      {"SHA-1, base64", [](Random& r) { return Base64(Bytes(r, 20)); }, kOneInTenThousand},
      {"SHA-1, base64url", [](Random& r) { return Base64Url(Bytes(r, 20)); }, kOneInTenThousand},
      {"SHA-256, hex", [](Random& r) { return Hex(Bytes(r, 32)); }, kOneInTenThousand},
      {"SHA-256, base64", [](Random& r) { return Base64(Bytes(r, 32)); }, kOneInTenThousand},
      {"SHA-256, base64url", [](Random& r) { return Base64Url(Bytes(r, 32)); }, kOneInTenThousand},
  });
}

TEST(KeyCheckRatesTest, OrderNumbersAreKeys) {
  Measure({
      {"13 digits", [](Random& r) { return Digits(r, 13); }, 0},
      {"order-, 13 digits", [](Random& r) { return "order-" + Digits(r, 13); }, 0},
      {"6 to 12 digits", [](Random& r) { return Digits(r, 6 + r() % 7); }, 0},
      {"14 digits", [](Random& r) { return Digits(r, 14); }, 0},
      {"17 to 19 digits", [](Random& r) { return Digits(r, 17 + r() % 3); }, 0},
      {"date and 6 digits", [](Random& r) { return Date(r) + Digits(r, 6); }, kOneInTenThousand},
      {"date and 7 digits", [](Random& r) { return Date(r) + Digits(r, 7); }, kOneInTenThousand},
      {"date and 8 digits", [](Random& r) { return Date(r) + Digits(r, 8); }, kOneInTenThousand},
      {"date, dash, 8 digits", [](Random& r) { return Date(r) + "-" + Digits(r, 8); },
       kOneInTenThousand},
      {"ORD-year-6 digits",
       [](Random& r) { return "ORD-" + Number(2005 + r() % 34) + "-" + Digits(r, 6); },
       kOneInTenThousand},
      {"3-7-7 digits",
       [](Random& r) { return Digits(r, 3) + "-" + Digits(r, 7) + "-" + Digits(r, 7); },
       kOneInTenThousand},
      {"GPA.4-4-4-5 digits",
       [](Random& r) {
         return "GPA." + Digits(r, 4) + "-" + Digits(r, 4) + "-" + Digits(r, 4) + "-" +
                Digits(r, 5);
       },
       kOneInTenThousand},
      {"customer-order-attempt, 6-8-1 digits",
       [](Random& r) { return Digits(r, 6) + "-" + Digits(r, 8) + "-" + Digits(r, 1); },
       kOneInTenThousand},
      {"letter and 16 digits", [](Random& r) { return "A" + Digits(r, 16); }, kOneInTenThousand},
      {"charge/date/10 digits", [](Random& r) { return "charge/" + Date(r) + "/" + Digits(r, 10); },
       kOneInTenThousand},
  });
}

// Nothing tells these from card numbers but whose they are.
TEST(KeyCheckRatesTest, SomeNumbersCannotBeToldFromCards) {
  Measure({
      {"15 random digits", [](Random& r) { return Digits(r, 15); }, kSamples * 3 / 1000},
      {"16 random digits", [](Random& r) { return Digits(r, 16); }, kSamples * 3 / 100},
      {"4-4-4-4 random digits",
       [](Random& r) {
         return Digits(r, 4) + "-" + Digits(r, 4) + "-" + Digits(r, 4) + "-" + Digits(r, 4);
       },
       kSamples * 3 / 100},
      {"snowflake, first four weeks of an epoch",
       [](Random& r) { return Number(Between(r, 1, 2'419'200'000) << 22 | (r() & 0x3fffff)); },
       kSamples * 4 / 100},
  });
}

}  // namespace
}  // namespace idempotency::service
