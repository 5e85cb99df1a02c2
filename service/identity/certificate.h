// X.509 certificates: who they name, how long they hold, and whether a key belongs to one.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_CERTIFICATE_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_CERTIFICATE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "keystore/core/time.h"
#include "service/identity/principal.h"

namespace idempotency::service {

inline constexpr size_t kMaxPemBytes = 1024 * 1024;

// What a certificate says of its owner.
struct CertificateNames {
  // Subject alternative names, in the certificate's order, as they are.
  std::vector<std::string> uris;
  std::vector<std::string> dns;
  // Outside [begin, end) it does not hold.
  core::Time begin;
  core::Time end;
};

// Of the first certificate in `pem`. Nothing where there is none, or it cannot be read.
std::optional<CertificateNames> ReadCertificate(std::string_view pem);

// Who the certificate stands for: its one URI; where it has none, its first DNS name. The common
// name is not looked at. Nothing where there are several URIs, of which none would say more than
// another, or the name is not fit for a principal: a URI without "scheme://", a wildcard, or
// characters that do not belong.
std::optional<Principal> PrincipalOf(const CertificateNames& names);

// What a server needs for its handshakes, in PEM.
struct TlsMaterial {
  std::string certificate_chain;
  std::string private_key;
  std::string client_ca;  // empty: none

  friend bool operator==(const TlsMaterial&, const TlsMaterial&) = default;
};

// INVALID_ARGUMENT, in words, where the chain or the key cannot be read, they do not belong
// together, the certificate has expired or does not hold yet, or the authorities cannot be read.
absl::Status CheckTlsMaterial(const TlsMaterial& material, core::Time now);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_CERTIFICATE_H_
