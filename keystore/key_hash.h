#ifndef IDEMPOTENCY_KEYSTORE_KEY_HASH_H_
#define IDEMPOTENCY_KEYSTORE_KEY_HASH_H_

#include <cstddef>

#include "absl/hash/hash.h"
#include "keystore/core/record.h"

namespace idempotency::keystore {

// Seeded per process: good for tables in memory and for choosing a lane, never for storage.
struct KeyHash {
  size_t operator()(const core::Key& key) const {
    return absl::HashOf(key.name_space, key.scope, key.key);
  }
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_KEY_HASH_H_
