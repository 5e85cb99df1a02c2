// RocksDB's statuses as ours, for the calls that have no better answer.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STATUS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STATUS_H_

#include <rocksdb/status.h>

#include <string_view>

#include "absl/status/status.h"

namespace idempotency::keystore {

// Damage is DATA_LOSS; what RocksDB finds to be another store or the wrong options is
// FAILED_PRECONDITION; everything else is UNAVAILABLE. The message is `what`, then RocksDB's.
absl::Status ToStatus(const rocksdb::Status& status, std::string_view what);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STATUS_H_
