// The keys that responses and progress are sealed with, read from the files of a directory:
//
//   ID.key      64 hex digits, as `openssl rand -hex 32` prints them; ID is 1 to 32 of
//               [A-Za-z0-9._-] and does not begin with a dot
//   current     the ID that new records are sealed with; where there is no such file, none is
//
// Other files are left alone. Nobody but owner and group may have any access to a key. What keys
// say is nowhere else: not in errors, not in core dumps (secret_bytes.h).
//
// Thread safety: immutable once loaded.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_KEY_RING_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_KEY_RING_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "keystore/codec/seal.h"
#include "keystore/engine/secret_bytes.h"

namespace idempotency::keystore {

class KeyRing final : public SealKeys {
 public:
  // Without keys.
  KeyRing() = default;
  // FAILED_PRECONDITION, naming the file and what to do, where one is not as above.
  static absl::StatusOr<std::shared_ptr<const KeyRing>> Load(const std::string& directory);

  std::optional<SealKey> Find(std::string_view id) const override;
  // Nothing: new records are not sealed.
  std::optional<SealKey> current() const { return Find(current_); }

 private:
  struct Entry {
    std::string id;
    SecretBytes secret;
  };
  std::vector<Entry> entries_;
  std::string current_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_KEY_RING_H_
