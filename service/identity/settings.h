// What the configuration says about who may connect and how callers prove who they are.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_SETTINGS_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_SETTINGS_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "keystore/core/time.h"

namespace idempotency::service {

inline constexpr size_t kMaxJwtIssuers = 16;
inline constexpr size_t kMaxJwtAudiences = 16;
inline constexpr size_t kMaxClaimBytes = 255;
inline constexpr core::Duration kMaxClockSkew = std::chrono::minutes(5);
inline constexpr core::Duration kUsualClockSkew = std::chrono::seconds(60);

// Paths of PEM files.
struct TlsSettings {
  std::string certificate_file;
  std::string private_key_file;
  std::string client_ca_file;  // empty: clients show no certificates
  bool client_certificate_required = true;

  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

struct JwtIssuerSettings {
  std::string name;
  std::string issuer;
  std::vector<std::string> audiences;
  std::string jwks_file;
  core::Duration clock_skew = kUsualClockSkew;

  friend bool operator==(const JwtIssuerSettings&, const JwtIssuerSettings&) = default;
};

struct IdentitySettings {
  std::string tokens_file;  // empty: no static tokens
  std::vector<JwtIssuerSettings> jwt_issuers;

  // Whether calls may bring tokens.
  bool takes_tokens() const { return !tokens_file.empty() || !jwt_issuers.empty(); }

  friend bool operator==(const IdentitySettings&, const IdentitySettings&) = default;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_SETTINGS_H_
