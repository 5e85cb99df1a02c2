// Small files that survive a power cut whole: the old content or the new, never a mixture.
//
// Thread safety: pure functions of the file system; two writers of one path must not overlap.
// Errors: UNAVAILABLE, naming the path and what the kernel said.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_DURABLE_FILE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_DURABLE_FILE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace idempotency::keystore {

// UNAVAILABLE with `what`, the path and the text of errno as it is now.
absl::Status FileError(std::string_view what, const std::string& path);

// Returns once `bytes` are what a reader finds at `path` after a power cut.
absl::Status WriteFileDurably(const std::string& path, std::string_view bytes);

// nullopt where there is no such file. At most max_bytes are read.
absl::StatusOr<std::optional<std::string>> ReadSmallFile(const std::string& path, size_t max_bytes);

// Makes new and removed names in a directory durable.
absl::Status SyncDirectory(const std::string& path);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_DURABLE_FILE_H_
