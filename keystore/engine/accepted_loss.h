// What follows where somebody has accepted that a store has lost records.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ACCEPTED_LOSS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ACCEPTED_LOSS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/time.h"
#include "keystore/engine/rocksdb_store.h"

namespace idempotency::keystore {

// Makes everything that is stored as PENDING unresolved (core/loss.h), durably; returns how many
// there were. Doing it again changes nothing. UNAVAILABLE or DATA_LOSS where it cannot be done.
absl::StatusOr<size_t> MakePendingUnresolved(const RocksDbStore& store, const core::Now& now);

// Renames what is left of a store that cannot be opened, so that another can be made in its
// place; nothing where there is none. `run` tells several apart.
absl::Status SetAside(const std::string& db_path, uint64_t run);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ACCEPTED_LOSS_H_
