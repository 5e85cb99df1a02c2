// Which keys a store needs: those that its records may be sealed with. A store remembers their ids,
// each engine in its own way, and is not opened without one of them unless it is given up by name.
//
// Thread safety: pure functions, but for what they are given to call.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_NEEDED_KEYS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_NEEDED_KEYS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/engine/key_ring.h"

namespace idempotency::keystore {

// The id that the store, which calls itself `where`, has to remember before anything is sealed;
// nothing: `needed` has it, or nothing will be sealed. FAILED_PRECONDITION where one of those that
// are needed is neither among the keys nor among those that are given up.
absl::StatusOr<std::optional<std::string>> CheckNeededKeys(std::string_view where,
                                                           const std::vector<std::string>& needed,
                                                           const KeyRing& keys,
                                                           const std::vector<std::string>& lost);

// Where a store that several servers share keeps those ids.
struct NeededKeyList {
  std::function<absl::StatusOr<std::vector<std::string>>()> read;
  // Durable, and for all to read, when it returns. May be there already.
  std::function<absl::Status(const std::string& id)> remember;
};
// As CheckNeededKeys, and remembers the current one, for several servers at once: each looks again
// once its own is there, so that of two that begin together one at least sees the other's. An id
// that was added by one that is refused then stays: nobody knows who has seen it, and has sealed
// with the same key by now.
absl::Status ShareNeededKeys(std::string_view where, const NeededKeyList& list, const KeyRing& keys,
                             const std::vector<std::string>& lost);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_NEEDED_KEYS_H_
