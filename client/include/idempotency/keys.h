// Keys. A key names one operation, so it is made once, saved with what is to be done, and read
// back for every further try. Never call RandomKey where a try is made (inside a retry, at the
// start of a handler that may run again): each try would then be a new operation.
//
//   RandomKey      when the operation is born here and can be saved before its first try: a row
//                  of an outbox, an order that is just being created.
//   DeriveKey      when a business identifier exists that is the same for every try and
//                  different for every operation: "refund of order 4711", an event's id. Nothing
//                  has to be saved.
//   ProviderKey    what goes to the provider: not the caller's key itself, so that keys of two
//                  namespaces or tenants never meet in the provider's account, and nothing that
//                  is in a key leaves the house. Attempt::provider_key() is this.
//
// Thread safety: all may be called from any thread.
#ifndef IDEMPOTENCY_KEYS_H_
#define IDEMPOTENCY_KEYS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "idempotency/policies.h"
#include "idempotency/types.h"

namespace idempotency {

inline constexpr size_t kProviderKeyBytes = 43;
inline constexpr size_t kRandomKeyBytes = 32;
inline constexpr size_t kDerivedKeyBytes = 64;

// base64url(SHA-256(frame(namespace) frame(scope) frame(key))), without padding: 43 of
// [A-Za-z0-9_-], which every provider of providers.h accepts. frame(x) is the length of x in
// bytes as 8 bytes, big endian, then x. tests/vectors/provider_keys.json holds vectors.
std::string ProviderKey(const OperationId& id);

// 128 random bits as 32 lower-case hexadecimal digits.
std::string RandomKey();
std::string RandomKey(Environment& environment);

// hex(SHA-256(frame("derive-1") frame(domain_label) frame(business_id))), 64 lower-case digits:
// always the same for the same two, and not readable back. domain_label says what is done
// ("refund-order"): two kinds of operations on one order need two labels. Whoever knows both
// can compute the key; that is no secret to rely on.
//
// Hexadecimal, because among keys of mixed case one in some millions begins like a cloud
// provider's credential, which the service's key check would then refuse for good.
std::string DeriveKey(std::string_view domain_label, std::string_view business_id);

}  // namespace idempotency

#endif  // IDEMPOTENCY_KEYS_H_
