#include "service/key_check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace idempotency::service {
namespace {

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool IsAlpha(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); }
bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// How many bytes of `text` from `at` on are of a kind.
template <typename Predicate>
size_t RunLength(std::string_view text, size_t at, Predicate predicate) {
  size_t end = at;
  while (end < text.size() && predicate(text[end])) ++end;
  return end - at;
}

// --- E-mail addresses ---------------------------------------------------------------------

// Beyond ASCII everything counts as a letter: addresses may be written in any script.
bool IsLetter(char c) { return IsAlpha(c) || static_cast<uint8_t>(c) >= 0x80; }
bool IsDomainByte(char c) { return IsLetter(c) || IsDigit(c) || c == '.' || c == '-'; }
bool IsLocalByte(char c) {
  return IsLetter(c) || IsDigit(c) || std::string_view("._%+-").find(c) != std::string_view::npos;
}

// A name, a dot and at least two letters.
bool StartsWithDomain(std::string_view text) {
  const std::string_view domain = text.substr(0, RunLength(text, 0, IsDomainByte));
  for (size_t dot = domain.find('.'); dot != std::string_view::npos;
       dot = domain.find('.', dot + 1)) {
    if (dot > 0 && domain[dot - 1] != '.' && RunLength(domain, dot + 1, IsLetter) >= 2) return true;
  }
  return false;
}

bool HoldsEmailAddress(std::string_view text, std::string_view sign) {
  for (size_t at = text.find(sign); at != std::string_view::npos; at = text.find(sign, at + 1)) {
    if (at > 0 && IsLocalByte(text[at - 1]) && StartsWithDomain(text.substr(at + sign.size()))) {
      return true;
    }
  }
  return false;
}

// --- Card numbers -------------------------------------------------------------------------

bool PassesLuhn(std::string_view digits) {
  int sum = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    int digit = digits[digits.size() - 1 - i] - '0';
    if (i % 2 == 1) digit *= 2;
    sum += digit > 9 ? digit - 9 : digit;
  }
  return sum % 10 == 0;
}

struct IssuerRange {
  size_t digits;
  int first;  // of the leading four digits
  int last;
};

// None begins like the microseconds (16 digits) of a time before 2039, or like a date.
constexpr IssuerRange kIssuers[] = {
    {16, 4000, 4999}, {16, 5100, 5599}, {16, 2221, 2720}, {15, 3400, 3499}, {15, 3700, 3799},
    {16, 6011, 6011}, {16, 6440, 6599}, {16, 3528, 3589}, {16, 6200, 6299}, {16, 2200, 2204},
    {16, 5018, 5018}, {16, 5020, 5020}, {16, 5038, 5038}, {16, 5893, 5893}, {16, 6304, 6304},
    {16, 6759, 6759}, {16, 6761, 6763},
};

constexpr size_t kMinCardDigits =
    std::min_element(std::begin(kIssuers), std::end(kIssuers),
                     [](const IssuerRange& a, const IssuerRange& b) { return a.digits < b.digits; })
        ->digits;

bool IsCardNumber(std::string_view digits) {
  for (const IssuerRange& issuer : kIssuers) {
    if (digits.size() != issuer.digits) continue;
    const int prefix = std::stoi(std::string(digits.substr(0, 4)));
    if (prefix >= issuer.first && prefix <= issuer.last) return PassesLuhn(digits);
  }
  return false;
}

// The digits of groups of these sizes from `at` on, with the same gap between each two; empty
// where there is something else, or where the last is followed by a digit or a letter.
std::string GroupedDigits(std::string_view text, size_t at, std::initializer_list<size_t> groups) {
  std::string digits;
  char gap = 0;
  for (size_t group : groups) {
    if (!digits.empty()) {
      if (at == text.size() || (text[at] != '-' && text[at] != ' ')) return {};
      if (gap != 0 && text[at] != gap) return {};
      gap = text[at++];
    }
    if (RunLength(text, at, IsDigit) != group) return {};
    digits.append(text.substr(at, group));
    at += group;
  }
  return at < text.size() && IsAlpha(text[at]) ? std::string() : digits;
}

// How a card number may be written.
constexpr std::initializer_list<size_t> kCardGroups[] = {{16}, {15}, {4, 4, 4, 4}, {4, 6, 5}};

bool HoldsCardNumber(std::string_view text) {
  for (size_t at = 0; at < text.size(); at += std::max<size_t>(RunLength(text, at, IsDigit), 1)) {
    if (!IsDigit(text[at]) || (at > 0 && IsAlpha(text[at - 1]))) continue;
    for (const auto& groups : kCardGroups) {
      if (IsCardNumber(GroupedDigits(text, at, groups))) return true;
    }
  }
  return false;
}

// --- Credentials --------------------------------------------------------------------------

bool IsTokenByte(char c) { return IsAlnum(c) || c == '_' || c == '-'; }
// Of what follows the scheme of an authorization header.
bool IsHeaderTokenByte(char c) {
  return IsTokenByte(c) || std::string_view(".~+/=").find(c) != std::string_view::npos;
}
constexpr size_t kMinCredentialBytes = 16;  // behind the prefix

// At the beginning whatever follows; later on what follows has to be as long as a token is, since
// "the bearer of this" says nothing.
bool HoldsAuthorization(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (at > 0 && IsAlnum(text[at - 1])) continue;
    const absl::string_view rest(text.data() + at, text.size() - at);
    for (absl::string_view scheme : {"bearer ", "basic "}) {
      if (!absl::StartsWithIgnoreCase(rest, scheme)) continue;
      if (at == 0) return true;
      if (RunLength(text, at + scheme.size(), IsHeaderTokenByte) >= kMinCredentialBytes) {
        return true;
      }
    }
  }
  return false;
}

// Three base64url parts, the first of which is a JSON object.
bool HoldsJwt(std::string_view text) {
  for (size_t at = text.find("eyJ"); at != std::string_view::npos; at = text.find("eyJ", at + 1)) {
    const size_t header = RunLength(text, at, IsTokenByte);
    size_t next = at + header;
    if (header < 10 || next >= text.size() || text[next] != '.') continue;
    const size_t payload = RunLength(text, ++next, IsTokenByte);
    next += payload;
    if (payload >= 4 && next < text.size() && text[next] == '.') return true;
  }
  return false;
}

// Beginnings of credentials that their issuers have made recognisable.
constexpr std::string_view kCredentialPrefixes[] = {
    // Payments: Stripe, Square, Shopify.
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "whsec_",
    "sq0atp-",
    "sq0csp-",
    "shpat_",
    "shpss_",
    "shpca_",
    "shppa_",
    // Clouds: AWS, Google, DigitalOcean.
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "GOCSPX-",
    "dop_v1_",
    // Code: GitHub, GitLab, npm, PyPI, HashiCorp.
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "npm_",
    "pypi-AgE",
    "hvs.",
    // Messages: Slack, SendGrid.
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxr-",
    "xoxs-",
    "xoxe-",
    "xapp-",
    "SG.",
    // Models: OpenAI, Anthropic.
    "sk-proj-",
    "sk-ant-",
};

// Beginnings of private keys in the formats of PEM (OpenSSL, OpenSSH, PGP), PuTTY and age.
constexpr std::string_view kPrivateKeyBeginnings[] = {"----BEGIN ", "PuTTY-User-Key-File-",
                                                      "AGE-SECRET-KEY-1"};

// Whether `sign` begins a word of `text`, with at least this many token bytes behind it.
bool BeginsAWord(std::string_view text, std::string_view sign, size_t min_bytes_behind) {
  for (size_t at = text.find(sign); at != std::string_view::npos; at = text.find(sign, at + 1)) {
    if (at > 0 && IsAlnum(text[at - 1])) continue;
    if (RunLength(text, at + sign.size(), IsTokenByte) >= min_bytes_behind) return true;
  }
  return false;
}

bool HoldsApiKey(std::string_view text) {
  return std::any_of(
      std::begin(kCredentialPrefixes), std::end(kCredentialPrefixes),
      [text](std::string_view sign) { return BeginsAWord(text, sign, kMinCredentialBytes); });
}

bool HoldsPrivateKey(std::string_view text) {
  return std::any_of(std::begin(kPrivateKeyBeginnings), std::end(kPrivateKeyBeginnings),
                     [text](std::string_view sign) { return BeginsAWord(text, sign, 0); });
}

// --- A first look -------------------------------------------------------------------------

// What a byte can be a sign of. Nearly every key is made of letters, digits and dashes, and one
// pass over it tells that it holds none of the above.
enum Sign : uint8_t {
  kDigit = 1,
  kLetter = 2,
  kGap = 4,         // may be between the digits of a card number
  kAt = 8,          // in every e-mail address, but for those written with %40
  kSpace = 16,      // in every authorization header
  kCapitalJ = 32,   // in every JSON web token
  kBeginning = 64,  // the first of what a credential or a private key begins with
  kPercent = 128,
};

constexpr std::array<uint8_t, 256> MakeSigns() {
  std::array<uint8_t, 256> signs{};
  const auto add = [&signs](char c, Sign sign) { signs[static_cast<uint8_t>(c)] |= sign; };
  for (char c = '0'; c <= '9'; ++c) add(c, kDigit);
  for (char c = 'a'; c <= 'z'; ++c) add(c, kLetter);
  for (char c = 'A'; c <= 'Z'; ++c) add(c, kLetter);
  add('-', kGap);
  add(' ', kGap);
  add('@', kAt);
  add('%', kPercent);
  add(' ', kSpace);
  add('J', kCapitalJ);
  for (std::string_view prefix : kCredentialPrefixes) add(prefix.front(), kBeginning);
  for (std::string_view prefix : kPrivateKeyBeginnings) add(prefix.front(), kBeginning);
  return signs;
}
constexpr std::array<uint8_t, 256> kSigns = MakeSigns();

bool BeginsSecret(std::string_view text) {
  const auto begins = [text](std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
  };
  return std::any_of(std::begin(kCredentialPrefixes), std::end(kCredentialPrefixes), begins) ||
         std::any_of(std::begin(kPrivateKeyBeginnings), std::end(kPrivateKeyBeginnings), begins);
}

struct FirstLook {
  unsigned signs = 0;       // of all bytes
  size_t most_digits = 0;   // in one stretch of digits and gaps
  bool has_secret = false;  // what begins a word is what a credential or private key begins with

  bool Saw(Sign sign) const { return (signs & sign) != 0; }
};

FirstLook LookAt(std::string_view text) {
  FirstLook look;
  size_t digits = 0;  // of the stretch so far
  unsigned before = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const unsigned sign = kSigns[static_cast<uint8_t>(text[at])];
    look.signs |= sign;
    digits = (sign & (kDigit | kGap)) != 0 ? digits + (sign & kDigit) : 0;
    look.most_digits = std::max(look.most_digits, digits);
    const bool begins_word = (before & (kDigit | kLetter)) == 0;
    if (begins_word && (sign & kBeginning) != 0 && BeginsSecret(text.substr(at))) {
      look.has_secret = true;
    }
    before = sign;
  }
  return look;
}

}  // namespace

std::string_view LooksSensitive(std::string_view text) {
  const FirstLook look = LookAt(text);
  if (look.Saw(kAt) && HoldsEmailAddress(text, "@")) return "an e-mail address";
  if (look.Saw(kPercent) && HoldsEmailAddress(text, "%40")) return "an e-mail address";
  if (look.most_digits >= kMinCardDigits && HoldsCardNumber(text)) return "a card number";
  if (look.Saw(kSpace) && HoldsAuthorization(text)) return "an authorization header";
  if (look.Saw(kCapitalJ) && HoldsJwt(text)) return "a JSON web token";
  if (look.has_secret && HoldsPrivateKey(text)) return "a private key";
  if (look.has_secret && HoldsApiKey(text)) return "an API key";
  return {};
}

}  // namespace idempotency::service
