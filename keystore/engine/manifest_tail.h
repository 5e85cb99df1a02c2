// A manifest whose end a power cut has torn. RocksDB appends to it and then syncs it; bytes that
// were on their way may be on the disk in part, and RocksDB opens no store with such a manifest.
// Nothing rests on them: a log is given up only behind a synced edit, and the watermark says how
// far the manifest was synced when that happened.
//
// Thread safety: pure functions, but for the directory, which must be locked.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_MANIFEST_TAIL_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_MANIFEST_TAIL_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/watermark.h"

namespace idempotency::keystore {

// Where the last edit ends that is whole, and all in front of it; 0: not even the first is.
size_t EndOfWholeEdits(std::string_view manifest);

// Cuts off what follows the last whole edit of the manifest that CURRENT names, where all that is
// `promised` is in front of it; the manifest as it was is kept beside, in `keep_in`, and a warning
// logged. FAILED_PRECONDITION, and nothing is changed, where there is nothing to cut off or more
// than that is damaged.
absl::Status CutTornManifest(const std::string& db_path, const std::string& keep_in,
                             const ManifestMark& promised, const LogFunction& log);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_MANIFEST_TAIL_H_
