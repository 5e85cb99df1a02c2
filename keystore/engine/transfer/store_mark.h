// Marks: what a store says of itself as a whole, kept in the store, so that every engine can keep
// it: each is one record under a key that no caller can name. A backup and a snapshot take marks
// along; moving records does not.
//
// Thread safety: pure functions, but for the engine's calls.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_STORE_MARK_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_STORE_MARK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/engine/transfer/waiting_engine.h"

namespace idempotency::keystore {

// A shared store that refuses a write so often is not one that will take it.
inline constexpr int kMaxWriteTries = 10;

// Its namespace begins with a byte that no name may have.
core::Key MarkKey(std::string name);
// Whether it is a mark, of whatever name: none is a record of anybody's.
bool IsMarkKey(const core::Key& key);

// A key that is free, and that nobody forgets. `says` tells apart what is under one name; `token`
// may be any that there is.
core::Record MakeMark(std::string says, std::string digest, uint64_t token, core::Time made);

// What is stored there; nothing where nothing is. DATA_LOSS, with `unreadable` to say what to do,
// where that is no record; UNAVAILABLE as Engine::Read.
absl::StatusOr<std::optional<core::Record>> FindMark(const WaitingEngine& engine,
                                                     const core::Key& key, const char* unreadable);

// Null: the mark is erased. Nothing: it stays as it is.
using MarkChange = std::optional<core::RecordPtr>;
// Stores what `decide` makes of what is stored, guarded by that: it is asked again where somebody
// else was first, or where nobody knows what became of the write. UNAVAILABLE where it is not
// taken; others as `decide` and Engine::Read.
absl::Status ChangeMark(
    const WaitingEngine& engine, const core::Key& key,
    const std::function<absl::StatusOr<MarkChange>(const core::Stored&)>& decide);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_STORE_MARK_H_
