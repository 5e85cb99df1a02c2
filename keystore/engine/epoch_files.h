// What must outlive even the loss of RocksDB's newest files: how often the store was opened,
// and a ceiling above every fencing token that may have been given. It is kept twice, in
// epoch-a and epoch-b, as text:
//
//   idempotency epoch 1
//   epoch 3
//   token_ceiling 3145729
//   crc32 89ea5ad1          of all that is above
//
// A new state counts once both files hold it, so that either of them alone is enough.
//
// Thread safety: writers must not overlap.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_EPOCH_FILES_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_EPOCH_FILES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace idempotency::keystore {

struct Epoch {
  // Rises with every opening. 0: a store is being created, and nothing was acknowledged yet.
  uint64_t epoch = 0;
  // Above every token committed so far.
  uint64_t token_ceiling = 1;

  friend bool operator==(const Epoch&, const Epoch&) = default;
};

std::string EncodeEpoch(const Epoch& epoch);
// nullopt for anything but exactly what EncodeEpoch makes.
std::optional<Epoch> DecodeEpoch(std::string_view bytes);

class EpochFiles {
 public:
  explicit EpochFiles(const std::string& directory)
      : paths_{directory + "/epoch-a", directory + "/epoch-b"} {}

  // At least one of the files is there, intact or not.
  bool Exist() const;

  struct Loaded {
    Epoch epoch;
    // One of the two was missing or damaged; the next Store repairs it.
    bool repair = false;
  };
  // nullopt where neither file exists. DATA_LOSS where none of those that exist is intact.
  absl::StatusOr<std::optional<Loaded>> Load() const;

  // Returns once both files hold `epoch` durably.
  absl::Status Store(const Epoch& epoch) const;

 private:
  std::array<std::string, 2> paths_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_EPOCH_FILES_H_
