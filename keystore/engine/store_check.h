// Decides, before RocksDB may change anything, how a data directory may be opened, and whether:
// everything that its watermark promises must still be there.
//
//   what is found                                         what follows
//   nothing, or a store whose making was interrupted      it is made
//   all that the watermark promises                       it is opened
//   the same, with damage behind that in the log          it is opened as it was before the damage
//   the same, with a manifest that is torn behind that    its end is cut off, and it is opened
//   less, another store, no store, or no watermark        refused, until the loss is accepted
//   a store that RocksDB cannot open at all               refused
//
// A loss is accepted by the number of the last run, which the refusal names: a flag that is left
// on accepts no later one.
//
// Thread safety: none; the directory must be locked.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_STORE_CHECK_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_STORE_CHECK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "keystore/engine/data_directory.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/epoch_files.h"
#include "keystore/engine/rocksdb_options.h"
#include "keystore/engine/watermark.h"

namespace idempotency::keystore {

struct OpeningPlan {
  // What the last run left. Epoch 0: the store has still to be made.
  Epoch last;
  // Its watermark, as far as the next one goes on from it.
  Watermark watermark;
  // There is no store: make one.
  bool create = false;
  // Replay the log as far as it is whole, and forget the rest.
  bool cut_at_damage = false;
  // Something that was acknowledged is gone, and the operator knows.
  bool loss_accepted = false;
};

// FAILED_PRECONDITION or DATA_LOSS, with the next step, where it must not be opened; UNAVAILABLE
// for I/O errors. Changes nothing but in an empty directory, where it writes the epoch files, and
// the end of a torn manifest (manifest_tail.h), of which it keeps a copy. An accepted loss is not
// accepted for good before the next watermark is stored.
absl::StatusOr<OpeningPlan> PlanOpening(const DataDirectory& directory, const EpochFiles& epochs,
                                        WatermarkFile& watermark, const StoreTuning& tuning,
                                        uint64_t accept_loss, const LogFunction& log);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_STORE_CHECK_H_
