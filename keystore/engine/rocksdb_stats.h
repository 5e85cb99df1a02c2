// How much RocksDB holds and does, as its properties say: read about as often as metrics are
// scraped.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STATS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STATS_H_

#include <cstdint>
#include <string_view>

#include "keystore/engine/engine.h"
#include "keystore/engine/rocksdb_store.h"

namespace idempotency::keystore {

// What RocksDB does not say stays zero. The ballast is not its.
StoreStats ReadStats(const RocksDbStore& store);

// Bytes of table files that records take whose stored keys begin with `prefix`, to a block or two.
// What is in memtables is not among them: they keep no order to tell by.
uint64_t TableBytesOf(const RocksDbStore& store, std::string_view prefix);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STATS_H_
