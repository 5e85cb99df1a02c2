// Who calls, as far as the connection and what is sent with the call prove it.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_PRINCIPAL_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_PRINCIPAL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::service {

// What proves a name. Each kind begins its names in its own way, so that no name of one kind can
// be made to look like one of another.
enum class PrincipalKind : uint8_t {
  kNobody,       // nothing does: only where no identity is configured
  kUri,          // a client certificate with a URI: spiffe://example.org/ns/payments/sa/api
  kDns,          // a client certificate with DNS names: dns:api.payments.svc
  kStaticToken,  // a line of the tokens file: token:ci-deployer
  kJwt,          // a JWT: jwt:ISSUER:SUBJECT, as jwt:cluster:system:serviceaccount:payments:api
};

// The longest name there is; longer ones are refused.
inline constexpr size_t kMaxPrincipalNameBytes = 512;

struct Principal {
  // As access rules write it and the audit shows it, with the beginning of its kind. UTF-8
  // without spaces and control characters. Empty: kNobody.
  std::string name;
  PrincipalKind kind = PrincipalKind::kNobody;

  friend bool operator==(const Principal&, const Principal&) = default;
};

// Whether a subject, URI or the like may stand in a name: not empty, UTF-8, no space, no control
// character, short enough.
bool IsPrincipalText(std::string_view text);

// "uri", "dns", "token", "jwt"; "nobody".
std::string_view KindName(PrincipalKind kind);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_PRINCIPAL_H_
