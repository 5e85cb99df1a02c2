#include "keystore/engine/rocksdb_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace idempotency::keystore {

absl::Status ToStatus(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(std::string(what), ": ", status.ToString());
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsInvalidArgument() || status.IsNotSupported()) {
    return absl::FailedPreconditionError(message);
  }
  return absl::UnavailableError(message);
}

}  // namespace idempotency::keystore
