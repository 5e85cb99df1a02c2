// Above which token the next may be given. Within a run the floor follows the tokens that are
// committed; across runs it begins at the ceiling that the last run left, so that no token
// repeats, not even where RocksDB has lost its newest records, or a key was forgotten.
//
// A ceiling is durable before any token at or above the old one is committed. It is raised by
// kTokensPerExtension at once, so that this is rare; a run that ends leaves the rest unused,
// of which the 2^53 tokens there are allow for over eight thousand million runs.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_TOKEN_CEILING_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_TOKEN_CEILING_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/epoch_files.h"

namespace idempotency::keystore {

inline constexpr uint64_t kTokensPerExtension = uint64_t{1} << 20;

class TokenCeiling {
 public:
  // Begins the epoch after `last`, durably. UNAVAILABLE where it cannot be stored.
  static absl::StatusOr<std::unique_ptr<TokenCeiling>> Begin(EpochFiles files, const Epoch& last);

  // Above every token that Cover was told of, in this run or an earlier one.
  uint64_t floor() const { return floor_.load(); }

  // To be called before `token` is committed. An error: it must not be.
  absl::Status Cover(uint64_t token) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  TokenCeiling(EpochFiles files, const Epoch& now, uint64_t floor)
      : files_(std::move(files)), floor_(floor), now_(now) {}

  const EpochFiles files_;
  std::atomic<uint64_t> floor_;
  absl::Mutex mutex_;
  Epoch now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_TOKEN_CEILING_H_
