// Sealing: bytes that nobody reads or changes without the key, AES-256-GCM by OpenSSL.
//
//   sealed := ciphertext tag                     tag := 16 bytes
//   key nonce := HKDF-SHA-256(the secret, salt, "idempotency sealed record 1"), 32 and 12 bytes
//
// Each record has a random salt, and so a key of its own: no nonce is ever used twice, however
// many records are sealed. What is `bound` is not stored, but opens nothing where it differs.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_CODEC_SEAL_H_
#define IDEMPOTENCY_KEYSTORE_CODEC_SEAL_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::keystore {

inline constexpr size_t kSealSecretBytes = 32;
inline constexpr size_t kSealSaltBytes = 16;
inline constexpr size_t kSealTagBytes = 16;
// An id is 1 to 32 of [A-Za-z0-9._-].
inline constexpr size_t kMaxSealKeyIdBytes = 32;

// Neither part is owned. `secret` has kSealSecretBytes.
struct SealKey {
  std::string_view id;
  std::string_view secret;
};

// The keys that there are, by id.
class SealKeys {
 public:
  virtual ~SealKeys() = default;
  // Nothing where there is no such key.
  virtual std::optional<SealKey> Find(std::string_view id) const = 0;
};

// Appends the sealed `plain` to `out`. `salt` has kSealSaltBytes, random and used once. False
// where OpenSSL has no memory; `out` is then as it was.
[[nodiscard]] bool Seal(const SealKey& key, std::string_view salt, std::string_view bound,
                        std::string_view plain, std::string* out);

// What was sealed with the same secret, salt and bound bytes; nothing for anything else.
std::optional<std::string> Unseal(const SealKey& key, std::string_view salt, std::string_view bound,
                                  std::string_view sealed);

// The parts, for tests with published vectors. Empty where they fail.
std::string HkdfSha256(std::string_view secret, std::string_view salt, std::string_view info,
                       size_t bytes);
std::string Aes256Gcm(std::string_view key, std::string_view nonce, std::string_view bound,
                      std::string_view plain);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_CODEC_SEAL_H_
