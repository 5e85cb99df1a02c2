// Seals the records of a store, and opens them: which key, which salt, and what is said where a
// key is missing.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_RECORD_SEALER_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_RECORD_SEALER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "keystore/codec/record_codec.h"
#include "keystore/codec/seal.h"
#include "keystore/core/record.h"
#include "keystore/engine/key_ring.h"
#include "keystore/engine/open_engine.h"

namespace idempotency::keystore {

// Fills the bytes with what nobody can guess. Called from any thread.
using RandomBytes = std::function<void(char* bytes, size_t size)>;
using SealerLog = std::function<void(int level, std::string_view line)>;

class RecordSealer {
 public:
  // Seals nothing; opens what is plain.
  RecordSealer();
  // `random` may be unset where `keys` has no current one.
  RecordSealer(std::shared_ptr<const KeyRing> keys, RandomBytes random, SealerLog log);
  // As above; where a key is missing that is not among `lost`, the record cannot be read.
  RecordSealer(std::shared_ptr<const KeyRing> keys, RandomBytes random, SealerLog log,
               std::vector<std::string> lost);

  const KeyRing& keys() const { return *keys_; }

  // Appends. False for lack of memory.
  [[nodiscard]] bool Encode(std::string_view stored_key, const core::Record& record,
                            std::string* out) const;
  // nullopt for what cannot be read. Logs the first record of each key that is missing.
  std::optional<OpenedRecord> Decode(std::string_view stored_key, std::string_view bytes) const;

 private:
  void NoteMissing(std::string_view key_id) const;
  bool MayBeMissing(std::string_view key_id) const;

  const std::shared_ptr<const KeyRing> keys_;
  const RandomBytes random_;
  const SealerLog log_;
  // Unset: any key may be missing.
  const std::optional<std::vector<std::string>> lost_;
  mutable absl::Mutex mutex_;
  mutable std::vector<std::string> noted_ ABSL_GUARDED_BY(mutex_);
};

// What the options ask to seal with. Errors as KeyRing::Load's.
absl::StatusOr<std::shared_ptr<const RecordSealer>> LoadSealer(const EngineOptions& options);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_RECORD_SEALER_H_
