// Stored keys looked up in both families of a store, at one moment.
//
// Thread safety: immutable. Holds blocks of the store, which must outlive it.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_LOOKUP_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_LOOKUP_H_

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keystore/engine/rocksdb_store.h"
#include "keystore/engine/stored_value.h"

namespace idempotency::keystore {

class RocksDbLookup {
 public:
  // Once it has found more than `max_bytes`, some keys are put off: they are not looked for.
  RocksDbLookup(const RocksDbStore& store, const std::vector<std::string>& stored_keys,
                size_t max_bytes = SIZE_MAX);

  // The first failure that is not about damage to what is stored under one key.
  rocksdb::Status status() const;

  bool is_put_off(size_t i) const {
    return statuses_[2 * i].IsAborted() || statuses_[2 * i + 1].IsAborted();
  }
  // Of the i-th key, unless it is put off; the bytes live as long as this object.
  Find open(size_t i) const { return At(2 * i); }
  Find finished(size_t i) const { return At(2 * i + 1); }

 private:
  Find At(size_t i) const;

  // The i-th key's in `open`, then in `finished`.
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<rocksdb::Status> statuses_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_LOOKUP_H_
