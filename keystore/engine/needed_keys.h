// Which keys a store needs: those that its records may be sealed with. A store remembers their ids,
// each engine in its own way, and is not opened without one of them unless it is given up by name.
//
// Thread safety: a pure function.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_NEEDED_KEYS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_NEEDED_KEYS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_NEEDED_KEYS_H_
