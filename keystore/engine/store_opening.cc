#include "keystore/engine/store_opening.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "keystore/engine/accepted_loss.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/epoch_files.h"
#include "keystore/engine/store_check.h"
#include "keystore/engine/watermark.h"

namespace idempotency::keystore {
namespace {

absl::Status AcceptLoss(const RocksDbStore& store, const EngineOptions& options,
                        Watermark& watermark) {
  const core::Now now = options.now();
  // By the later of the clocks: what is taken for newer than the loss is granted.
  watermark.lost_before = std::max(now.latest, now.wall);
  const absl::StatusOr<size_t> changed = MakePendingUnresolved(store, now);
  if (!changed.ok()) return changed.status();
  options.log(kLogError, absl::StrCat("the loss is accepted: ", *changed,
                                      " pending operations are unresolved, and operations begun "
                                      "before now of which nothing is known are TOO_OLD"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenedStore> OpenStore(const DataDirectory& directory, const StoreTuning& tuning,
                                      const EngineOptions& options) {
  const EpochFiles epochs(directory.path());
  auto file = std::make_unique<WatermarkFile>(directory.watermark_path());
  const absl::StatusOr<OpeningPlan> plan =
      PlanOpening(directory, epochs, *file, tuning, options.accept_loss, options.log);
  if (!plan.ok()) return plan.status();
  if (plan->create && plan->loss_accepted) {
    absl::Status status = SetAside(directory.db_path(), plan->last.epoch);
    if (!status.ok()) return status;
  }
  OpenedStore opened;
  opened.watermark = std::make_shared<WatermarkKeeper>(std::move(file), options.log);
  auto store =
      RocksDbStore::Open(directory.db_path(), plan->create, tuning,
                         {.cut_at_damage = plan->cut_at_damage, .flushes = opened.watermark});
  if (!store.ok()) return store.status();
  opened.store = *std::move(store);
  Watermark watermark = plan->watermark;
  watermark.epoch = plan->last.epoch + 1;
  if (plan->loss_accepted) {
    absl::Status status = AcceptLoss(*opened.store, options, watermark);
    if (!status.ok()) return status;
  }
  opened.lost_before = watermark.lost_before;
  // Before the epoch: a store that has one has a watermark.
  absl::Status promised = opened.watermark->Open(&opened.store->db(), std::move(watermark));
  if (!promised.ok()) return promised;
  auto tokens = TokenCeiling::Begin(epochs, plan->last);
  if (!tokens.ok()) {
    opened.watermark->Close();
    return tokens.status();
  }
  opened.tokens = *std::move(tokens);
  return opened;
}

}  // namespace idempotency::keystore
