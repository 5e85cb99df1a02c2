// What an import leaves in the store itself, as a mark (store_mark.h).
//
// It is written before the first record that is imported, and erased behind the last: a store that
// has it is not whole, and no server may answer from it. Its token is the highest that the source
// may have given: since a store's token floor rises with every record written, and stays, later
// tokens are above, also of keys that the source has forgotten. Where the source had lost records,
// it stays for good, and says until when.
//
// Thread safety: pure functions, but for the engine's calls.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_IMPORT_MARK_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_IMPORT_MARK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/transfer/moved_records.h"
#include "keystore/engine/transfer/waiting_engine.h"

namespace idempotency::keystore {

core::Key ImportMarkKey();

struct ImportMark {
  // The import has ended; only lost_before still counts.
  bool finished = false;
  // Of the header that is being imported.
  std::string facts_digest;
  // As Traits::lost_before.
  core::Time lost_before;

  friend bool operator==(const ImportMark&, const ImportMark&) = default;
};

// The record that says so, for an import of these facts.
core::Record MakeImportMark(const TransferFacts& facts, bool finished);
// nullopt where it is no such record.
std::optional<ImportMark> ReadImportMark(const core::Record& record);

// Nothing where there is none. DATA_LOSS where it cannot be read, UNAVAILABLE as Engine::Read.
absl::StatusOr<std::optional<ImportMark>> FindImportMark(const WaitingEngine& engine);

// Whether the store may be served: FAILED_PRECONDITION where it is only a part of what is imported.
// Gives what an import has brought along of Traits::lost_before; unset: nothing.
absl::StatusOr<core::Time> CheckImported(Engine* engine);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_IMPORT_MARK_H_
