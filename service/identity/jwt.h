// JSON Web Tokens (RFC 7519, in the compact form of RFC 7515), verified as RFC 8725 asks.
//
//   Verified verified = VerifyJwt(token, issuers, now);
//   if (verified.fault == TokenFault::kNone) Use(verified.claims);
//
// Taken are tokens signed by RS256 or ES256 with a key of the issuer that they name. The key says
// by which algorithm, the token has to say the same: neither `none` nor an HMAC made with a
// public key can pass. Keys that a token brings along (jwk, jku, x5c, x5u) are never looked at.
//
// Thread safety: pure functions; the time and the keys are arguments.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_JWT_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_JWT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keystore/core/time.h"
#include "service/identity/jwks.h"

namespace idempotency::service {

inline constexpr size_t kMaxTokenBytes = 8 * 1024;
inline constexpr size_t kMaxSubjectBytes = 255;

// Why a token is refused, in the order in which it is asked.
enum class TokenFault : uint8_t {
  kNone,
  kTooLarge,
  kMalformed,      // not three parts of base64url, or no JSON object with what has to be there
  kUnknownIssuer,  // `iss` is none of those configured
  kCritical,       // `crit`: it depends on an extension
  kWrongType,      // `typ` is another kind of token
  kAlgorithm,      // `alg` is not that of the key, or none that is taken
  kUnknownKey,     // no key of this kid
  kSignature,
  kExpired,
  kNotYetValid,  // `nbf` or `iat` lies ahead
  kWrongAudience,
};

// For logs and metrics: "EXPIRED".
std::string_view FaultName(TokenFault fault);

// Who may have signed a token, and what it has to say.
struct JwtIssuer {
  std::string name;    // what principals are called by
  std::string issuer;  // `iss`, exactly
  // One of these has to be among those of the token.
  std::vector<std::string> audiences;
  // How far the issuer's clock may be away from ours.
  core::Duration clock_skew = std::chrono::seconds(60);
  std::shared_ptr<const KeySet> keys;
};

struct JwtClaims {
  std::string issuer_name;
  std::string subject;
  // From here on the token is refused: its `exp` and the skew.
  core::Time end;
  // Before this it is refused; the epoch: at no time.
  core::Time begin;
};

struct VerifiedJwt {
  TokenFault fault = TokenFault::kNone;
  JwtClaims claims;  // good only without a fault
};

VerifiedJwt VerifyJwt(std::string_view token, const std::vector<JwtIssuer>& issuers,
                      core::Time now);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_JWT_H_
