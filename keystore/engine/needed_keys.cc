#include "keystore/engine/needed_keys.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace idempotency::keystore {
namespace {

bool Contains(const std::vector<std::string>& ids, std::string_view id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

absl::StatusOr<std::optional<std::string>> CheckNeededKeys(std::string_view where,
                                                           const std::vector<std::string>& needed,
                                                           const KeyRing& keys,
                                                           const std::vector<std::string>& lost) {
  for (const std::string& id : needed) {
    if (Contains(lost, id) || keys.Find(id).has_value()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "answers in ", std::string(where), " are sealed with the key ", id,
        ", which is missing; put ", id,
        ".key into the directory of --response_keys, or, if it is lost for good, add ", id,
        " to --lost_response_keys: its answers cannot be replayed then, that they were given "
        "stays known"));
  }
  const std::optional<SealKey> current = keys.current();
  if (!current.has_value() || Contains(needed, current->id)) return std::optional<std::string>();
  return std::optional(std::string(current->id));
}

absl::Status ShareNeededKeys(std::string_view where, const NeededKeyList& list, const KeyRing& keys,
                             const std::vector<std::string>& lost) {
  const auto before = list.read();
  if (!before.ok()) return before.status();
  // Who is refused anyhow adds nothing.
  const auto missing = CheckNeededKeys(where, *before, keys, lost);
  if (!missing.ok()) return missing.status();
  if (!missing->has_value()) return absl::OkStatus();
  if (absl::Status status = list.remember(**missing); !status.ok()) return status;
  const auto after = list.read();
  if (!after.ok()) return after.status();
  const auto still = CheckNeededKeys(where, *after, keys, lost);
  if (!still.ok()) return still.status();
  if (!still->has_value()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("what was noted in ", std::string(where),
                   " of the keys that it needs is gone again; try again"));
}

}  // namespace idempotency::keystore
