#include "service/key_check.h"

#include <cstddef>
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

bool IsDomainByte(char c) { return IsAlnum(c) || c == '.' || c == '-'; }
bool IsLocalByte(char c) {
  return IsAlnum(c) || std::string_view("._%+-").find(c) != std::string_view::npos;
}

// A name, a dot and at least two letters.
bool StartsWithDomain(std::string_view text) {
  const std::string_view domain = text.substr(0, RunLength(text, 0, IsDomainByte));
  for (size_t dot = domain.find('.'); dot != std::string_view::npos;
       dot = domain.find('.', dot + 1)) {
    if (dot > 0 && domain[dot - 1] != '.' && RunLength(domain, dot + 1, IsAlpha) >= 2) return true;
  }
  return false;
}

bool HoldsEmailAddress(std::string_view text) {
  for (size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    if (at > 0 && IsLocalByte(text[at - 1]) && StartsWithDomain(text.substr(at + 1))) return true;
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

constexpr IssuerRange kIssuers[] = {
    {16, 4000, 4999}, {16, 5100, 5599}, {16, 2221, 2720}, {15, 3400, 3499}, {15, 3700, 3799},
    {16, 6011, 6011}, {16, 6440, 6599}, {16, 3528, 3589}, {16, 6200, 6299},
};

bool IsCardNumber(std::string_view digits) {
  for (const IssuerRange& issuer : kIssuers) {
    if (digits.size() != issuer.digits) continue;
    const int prefix = std::stoi(std::string(digits.substr(0, 4)));
    if (prefix >= issuer.first && prefix <= issuer.last) return PassesLuhn(digits);
  }
  return false;
}

// The digits of the number that starts at `at`, written without gaps or in the groups of a card
// (4-4-4-4, 4-6-5), with *end behind it.
std::string CardDigits(std::string_view text, size_t at, size_t* end) {
  std::string digits;
  std::string groups;
  while (true) {
    const size_t run = RunLength(text, at, IsDigit);
    digits.append(text.substr(at, run));
    groups.push_back(static_cast<char>('0' + (run < 10 ? run : 0)));
    at += run;
    *end = at;
    const bool goes_on = at + 1 < text.size() && (text[at] == '-' || text[at] == ' ') &&
                         IsDigit(text[at + 1]) && digits.size() < 16;
    if (!goes_on) break;
    ++at;
  }
  const bool card_groups = groups.size() == 1 || groups == "4444" || groups == "465";
  return card_groups ? digits : std::string();
}

bool HoldsCardNumber(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (!IsDigit(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    const std::string digits = CardDigits(text, at, &end);
    const bool bounded =
        (at == 0 || !IsAlpha(text[at - 1])) && (end == text.size() || !IsAlpha(text[end]));
    if (bounded && IsCardNumber(digits)) return true;
    at = end;
  }
  return false;
}

// --- Credentials --------------------------------------------------------------------------

bool IsTokenByte(char c) { return IsAlnum(c) || c == '_' || c == '-'; }

bool IsAuthorizationValue(std::string_view text) {
  const absl::string_view value(text.data(), text.size());
  return absl::StartsWithIgnoreCase(value, "bearer ") ||
         absl::StartsWithIgnoreCase(value, "basic ");
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
    "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", "AKIA",        "ASIA",   "AIza",
    "ghp_",     "gho_",     "ghu_",     "ghs_",     "ghr_",   "github_pat_", "glpat-", "xoxb-",
    "xoxp-",    "xoxa-",    "xoxr-",    "xoxs-",    "shpat_", "shpss_",      "npm_",   "ya29.",
};
constexpr size_t kMinCredentialBytes = 16;  // behind the prefix

bool HoldsApiKey(std::string_view text) {
  for (std::string_view prefix : kCredentialPrefixes) {
    const size_t at = text.find(prefix);
    if (at == std::string_view::npos || (at > 0 && IsAlnum(text[at - 1]))) continue;
    if (RunLength(text, at + prefix.size(), IsTokenByte) >= kMinCredentialBytes) return true;
  }
  return false;
}

bool HoldsPrivateKey(std::string_view text) {
  return text.find("-----BEGIN ") != std::string_view::npos;
}

}  // namespace

std::string_view LooksSensitive(std::string_view text) {
  if (HoldsEmailAddress(text)) return "an e-mail address";
  if (HoldsCardNumber(text)) return "a card number";
  if (IsAuthorizationValue(text)) return "an authorization header";
  if (HoldsJwt(text)) return "a JSON web token";
  if (HoldsPrivateKey(text)) return "a PEM-encoded key";
  if (HoldsApiKey(text)) return "an API key";
  return {};
}

}  // namespace idempotency::service
