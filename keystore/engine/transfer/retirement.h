// The end of a store whose records were moved away: a mark in it (store_mark.h), with which it is
// neither served any more nor filled. What was done since is known to the new store alone, so that
// whoever served this one would have it done twice. It may still be read and exported.
//
// Thread safety: pure functions, but for the engine's calls, which block.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_RETIREMENT_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_RETIREMENT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/transfer/moved_records.h"

namespace idempotency::keystore {

// When it was, by whom and where to, in a few words.
std::string TextOf(const Retirement& retirement);

core::Key RetirementKey();
// Whether all are of marks: then they may be written in a retired store, too.
bool WritesMarksAlone(const std::vector<GuardedWrite>& writes);
core::Record MakeRetirementMark(const Retirement& retirement);
// nullopt where it is no such record.
std::optional<Retirement> ReadRetirementMark(const core::Record& record);

// Nothing: the store is not retired. DATA_LOSS where the mark cannot be read, UNAVAILABLE as
// Engine::Read.
absl::StatusOr<std::optional<Retirement>> FindRetirement(Engine* engine);
// Whether the store may be served, or filled: FAILED_PRECONDITION where it is retired, with when,
// by whom, and what may be done with it.
absl::Status CheckNotRetired(Engine* engine);

// Reads all records, retires the store where they come to `wanted`.digest, keeps every other server
// from writing in it, reads them again, and gives what is in the store then: of one that is retired
// already with the same digest, what was said first. FAILED_PRECONDITION where it is another
// digest, or the store is only a part of an import, or the records have changed by the second
// reading: it is retired then, and a server was running on it. ABORTED where it was taken back
// meanwhile. CANCELLED where it was stopped; others as StoreWalk's: by then it may be retired.
absl::StatusOr<Retirement> Retire(Engine* engine, const Retirement& wanted,
                                  const std::function<bool()>& stopped);
// Takes that back, and gives what was taken back. Nothing where the store is not retired, or its
// mark could not be read, which goes, too.
absl::StatusOr<std::optional<Retirement>> Reinstate(Engine* engine);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_RETIREMENT_H_
