// The keys that an issuer signs its tokens with, from a JSON Web Key Set (RFC 7517).
//
//   auto keys = ParseJwks(text);
//   (*keys)->Find("2024-05")      // null where there is no such key
//
// Used are signing keys for RS256 (kty RSA, 2048 to 8192 bits) and ES256 (kty EC, crv P-256). Keys
// of other kinds and other uses are passed over; one that should be usable and is not makes the
// whole set wrong, since the tokens signed with it would be refused.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_JWKS_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_JWKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// OpenSSL's EVP_PKEY.
struct evp_pkey_st;

namespace idempotency::service {

inline constexpr size_t kMaxJwksBytes = 256 * 1024;
inline constexpr size_t kMaxJwksKeys = 100;

enum class SignatureAlgorithm : uint8_t { kRs256, kEs256 };

// "RS256", "ES256".
std::string_view AlgorithmName(SignatureAlgorithm algorithm);

struct JwtKey {
  // What the key itself is made for: a token cannot ask for anything else.
  SignatureAlgorithm algorithm = SignatureAlgorithm::kRs256;
  std::shared_ptr<evp_pkey_st> key;
};

// Immutable; may be read from any thread.
class KeySet {
 public:
  explicit KeySet(std::map<std::string, JwtKey, std::less<>> keys) : keys_(std::move(keys)) {}

  // Lives as long as the set; null where there is none.
  const JwtKey* Find(std::string_view key_id) const {
    const auto found = keys_.find(key_id);
    return found == keys_.end() ? nullptr : &found->second;
  }
  size_t size() const { return keys_.size(); }

 private:
  std::map<std::string, JwtKey, std::less<>> keys_;
};

// INVALID_ARGUMENT, in words that follow a file's name, for what is not a key set, holds a wrong
// key or two of the same kid, or no usable key at all.
absl::StatusOr<std::shared_ptr<const KeySet>> ParseJwks(std::string_view text);

// Whether `signature`, as a JWS carries it (RS256: as the key is long; ES256: r and s, 32 bytes
// each), is the key's over `signed_text`.
bool VerifySignature(const JwtKey& key, std::string_view signed_text, std::string_view signature);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_JWKS_H_
