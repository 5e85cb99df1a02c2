#include "keystore/engine/token_ceiling.h"

#include <algorithm>
#include <utility>

#include "keystore/core/limits.h"

namespace idempotency::keystore {
namespace {

// Nothing is given above the last token that there can be.
uint64_t CeilingAbove(uint64_t floor) {
  return std::min(floor + kTokensPerExtension, core::kMaxFencingToken + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenCeiling>> TokenCeiling::Begin(EpochFiles files,
                                                                  const Epoch& last) {
  const uint64_t floor = last.token_ceiling;
  const Epoch now{.epoch = last.epoch + 1, .token_ceiling = CeilingAbove(floor)};
  if (absl::Status status = files.Store(now); !status.ok()) return status;
  return std::unique_ptr<TokenCeiling>(new TokenCeiling(std::move(files), now, floor));
}

absl::Status TokenCeiling::Cover(uint64_t token) {
  if (token < floor_.load()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  if (token >= now_.token_ceiling) {
    // Held across the sync: once in a million tokens, and whoever waits needs it, too.
    const Epoch next{.epoch = now_.epoch, .token_ceiling = CeilingAbove(token + 1)};
    if (absl::Status status = files_.Store(next); !status.ok()) return status;
    now_ = next;
  }
  floor_.store(std::max(floor_.load(), token + 1));
  return absl::OkStatus();
}

}  // namespace idempotency::keystore
