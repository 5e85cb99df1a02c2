// Opens the store of a data directory, in the order that a crash may interrupt anywhere:
//
//   look at what is there (store_check.h) -> RocksDB -> an accepted loss -> the watermark
//   -> the epoch and its tokens
//
// Thread safety: none; the directory must be locked.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_STORE_OPENING_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_STORE_OPENING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "keystore/core/time.h"
#include "keystore/engine/data_directory.h"
#include "keystore/engine/open_engine.h"
#include "keystore/engine/rocksdb_options.h"
#include "keystore/engine/rocksdb_store.h"
#include "keystore/engine/token_ceiling.h"
#include "keystore/engine/watermark_keeper.h"

namespace idempotency::keystore {

struct OpenedStore {
  std::unique_ptr<RocksDbStore> store;
  std::unique_ptr<TokenCeiling> tokens;
  // To be started, and closed before the store is.
  std::shared_ptr<WatermarkKeeper> watermark;
  // When a loss was last accepted; unset: never.
  core::Time lost_before;
};

// `options` must be complete. Errors as OpenEngine's.
absl::StatusOr<OpenedStore> OpenStore(const DataDirectory& directory, const StoreTuning& tuning,
                                      const EngineOptions& options);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_STORE_OPENING_H_
