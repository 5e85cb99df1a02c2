// Seals what a store holds with the current key, so that older ones are needed no more.
//
// Thread safety: none. Nothing else may write to the store meanwhile: what a record is read as is
// what it is written as.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_REWRAP_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_REWRAP_H_

#include <functional>

#include "absl/status/statusor.h"
#include "keystore/engine/open_engine.h"
#include "keystore/engine/rocksdb_store.h"

namespace idempotency::keystore {

// Every record keeps its commit number: it means the same as before. Durable when it returns;
// older ciphertexts are in files until these are compacted. UNAVAILABLE or DATA_LOSS where a file
// cannot be read or written.
absl::StatusOr<RewrapProgress> RewrapRecords(
    const RocksDbStore& store, const std::function<void(const RewrapProgress&)>& tell);

// Once no file holds anything older: the ids of the keys that are still needed. All of them, where
// something could not be read.
absl::Status ForgetOldKeys(const RocksDbStore& store, const RewrapProgress& done);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_REWRAP_H_
