#ifndef IDEMPOTENCY_KEYSTORE_KEY_HASH_H_
#define IDEMPOTENCY_KEYSTORE_KEY_HASH_H_

#include <cstddef>

#include "absl/hash/hash.h"
#include "keystore/core/record.h"
#include "keystore/fair_order.h"

namespace idempotency::keystore {

// Seeded per process: good for tables in memory and for choosing a lane, never for storage.
struct KeyHash {
  size_t operator()(const core::Key& key) const {
    return absl::HashOf(key.name_space, key.scope, key.key);
  }
};

// Whose operation it is.
inline TenantId TenantOf(const core::Key& key) {
  return {absl::HashOf(key.name_space), absl::HashOf(key.name_space, key.scope)};
}

// Of tables of keys that live elsewhere.
struct KeyPointerHash {
  size_t operator()(const core::Key* key) const { return KeyHash()(*key); }
};
struct KeyPointerEqual {
  bool operator()(const core::Key* a, const core::Key* b) const { return *a == *b; }
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_KEY_HASH_H_
