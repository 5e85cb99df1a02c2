#include "service/identity/jwt.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "service/identity/base64url.h"
#include "service/identity/principal.h"
#include "service/identity/strict_json.h"

namespace idempotency::service {
namespace {

using nlohmann::json;

struct Parts {
  json header;
  json payload;
  std::string_view signed_text;  // of the token
  std::string signature;
};

std::optional<json> ReadPart(std::string_view text) {
  const std::optional<std::string> bytes = DecodeBase64Url(text);
  return bytes ? ParseStrictObject(*bytes) : std::nullopt;
}

// Nothing where the token does not consist of what it has to.
std::optional<Parts> Split(std::string_view token) {
  const size_t first = token.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = token.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  // A third point is no base64url.
  std::optional<json> header = ReadPart(token.substr(0, first));
  std::optional<json> payload = ReadPart(token.substr(first + 1, second - first - 1));
  std::optional<std::string> signature = DecodeBase64Url(token.substr(second + 1));
  if (!header || !payload || !signature) return std::nullopt;
  return Parts{*std::move(header), *std::move(payload), token.substr(0, second),
               *std::move(signature)};
}

// NumericDate, of which RFC 7519 allows fractions. Nothing where it is no time that can be.
std::optional<core::Time> ToTime(const json& value) {
  if (!value.is_number()) return std::nullopt;
  const double seconds = value.get<double>();
  const double most =
      std::floor(static_cast<double>(core::kMaxTime.time_since_epoch().count()) / 1000);
  if (!(seconds >= 0 && seconds <= most)) return std::nullopt;
  return core::Time(core::Duration(static_cast<int64_t>(std::floor(seconds * 1000))));
}

// A time that need not be there; false where it is there and is none.
bool ReadTime(const json& payload, const char* name, std::optional<core::Time>* out) {
  const auto member = payload.find(name);
  if (member == payload.end()) return true;
  *out = ToTime(*member);
  return out->has_value();
}

// What the payload says; nothing where a claim is missing or of a wrong kind.
struct Claims {
  std::string issuer;
  std::string subject;
  std::vector<std::string> audiences;
  std::optional<core::Time> expire;
  std::optional<core::Time> not_before;
  std::optional<core::Time> issued;
};

bool ReadAudiences(const json& payload, std::vector<std::string>* out) {
  const auto member = payload.find("aud");
  if (member == payload.end()) return false;
  if (member->is_string()) {
    out->push_back(member->get<std::string>());
    return true;
  }
  if (!member->is_array()) return false;
  for (const json& audience : *member) {
    if (!audience.is_string()) return false;
    out->push_back(audience.get<std::string>());
  }
  return true;
}

std::optional<Claims> ReadClaims(const json& payload) {
  Claims claims;
  claims.issuer = TextMember(payload, "iss").value_or("");
  claims.subject = TextMember(payload, "sub").value_or("");
  const bool well_formed =
      ReadAudiences(payload, &claims.audiences) && ReadTime(payload, "exp", &claims.expire) &&
      ReadTime(payload, "nbf", &claims.not_before) && ReadTime(payload, "iat", &claims.issued) &&
      claims.expire && claims.subject.size() <= kMaxSubjectBytes && IsPrincipalText(claims.subject);
  if (!well_formed) return std::nullopt;
  return claims;
}

// Whether the header asks for what is given here, and the signature is right.
TokenFault CheckSignature(const Parts& parts, const KeySet& keys) {
  if (parts.header.contains("crit")) return TokenFault::kCritical;
  if (parts.header.contains("typ")) {
    const std::string type = TextMember(parts.header, "typ").value_or("");
    if (!absl::EqualsIgnoreCase(type, "JWT") && !absl::EqualsIgnoreCase(type, "at+jwt")) {
      return TokenFault::kWrongType;
    }
  }
  const std::string algorithm = TextMember(parts.header, "alg").value_or("");
  if (algorithm != AlgorithmName(SignatureAlgorithm::kRs256) &&
      algorithm != AlgorithmName(SignatureAlgorithm::kEs256)) {
    return TokenFault::kAlgorithm;
  }
  const std::optional<std::string> key_id = TextMember(parts.header, "kid");
  const JwtKey* const key = key_id ? keys.Find(*key_id) : nullptr;
  if (key == nullptr) return TokenFault::kUnknownKey;
  if (algorithm != AlgorithmName(key->algorithm)) return TokenFault::kAlgorithm;
  return VerifySignature(*key, parts.signed_text, parts.signature) ? TokenFault::kNone
                                                                   : TokenFault::kSignature;
}

bool IsMeantForUs(const Claims& claims, const JwtIssuer& issuer) {
  return std::any_of(claims.audiences.begin(), claims.audiences.end(), [&](const auto& audience) {
    return std::find(issuer.audiences.begin(), issuer.audiences.end(), audience) !=
           issuer.audiences.end();
  });
}

// A moment that much earlier, not before the epoch.
core::Time Earlier(core::Time time, core::Duration span) {
  return time.time_since_epoch() > span ? time - span : core::Time{};
}

VerifiedJwt Refuse(TokenFault fault) { return VerifiedJwt{fault, {}}; }

// What only a token with a right signature is told.
VerifiedJwt Judge(const Claims& claims, const JwtIssuer& issuer, core::Time now) {
  const core::Time end = core::Add(*claims.expire, issuer.clock_skew);
  const core::Time valid_from =
      std::max(claims.not_before.value_or(core::Time{}), claims.issued.value_or(core::Time{}));
  const core::Time begin = Earlier(valid_from, issuer.clock_skew);
  if (now >= end) return Refuse(TokenFault::kExpired);
  if (now < begin) return Refuse(TokenFault::kNotYetValid);
  if (!IsMeantForUs(claims, issuer)) return Refuse(TokenFault::kWrongAudience);
  return VerifiedJwt{TokenFault::kNone, {issuer.name, claims.subject, end, begin}};
}

}  // namespace

std::string_view FaultName(TokenFault fault) {
  constexpr std::array<std::string_view, 12> kNames = {
      "NONE",          "TOO_LARGE",  "MALFORMED",       "UNKNOWN_ISSUER",
      "CRITICAL",      "WRONG_TYPE", "WRONG_ALGORITHM", "UNKNOWN_KEY",
      "BAD_SIGNATURE", "EXPIRED",    "NOT_YET_VALID",   "WRONG_AUDIENCE"};
  static_assert(kNames.size() == static_cast<size_t>(TokenFault::kWrongAudience) + 1);
  return kNames[static_cast<size_t>(fault)];
}

VerifiedJwt VerifyJwt(std::string_view token, const std::vector<JwtIssuer>& issuers,
                      core::Time now) {
  if (token.size() > kMaxTokenBytes) return Refuse(TokenFault::kTooLarge);
  const std::optional<Parts> parts = Split(token);
  const std::optional<Claims> claims = parts ? ReadClaims(parts->payload) : std::nullopt;
  if (!claims) return Refuse(TokenFault::kMalformed);
  const auto issuer = std::find_if(issuers.begin(), issuers.end(), [&](const JwtIssuer& candidate) {
    return candidate.issuer == claims->issuer;
  });
  if (issuer == issuers.end()) return Refuse(TokenFault::kUnknownIssuer);
  const TokenFault fault = CheckSignature(*parts, *issuer->keys);
  if (fault != TokenFault::kNone) return Refuse(fault);
  return Judge(*claims, *issuer, now);
}

}  // namespace idempotency::service
