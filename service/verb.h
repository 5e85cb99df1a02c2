// The methods that work on operations, by name: for logs and metrics.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_VERB_H_
#define IDEMPOTENCY_SERVICE_VERB_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "keystore/core/command.h"

namespace idempotency::service {

enum class Verb : uint8_t {
  kReserve,
  kRenew,
  kComplete,
  kRelease,
  kMarkUnresolved,
  kGet,
  kInspect,
  kResolve,
  kDelete,
  kReclaim,
  kList,
  kGetNamespace,
  kListNamespaces,
  kBatch,
  kPipeline,
  kCreateBackup,
  kListBackups,
  kCheckEngine,
  kExportRecords,
  kImportRecords,
  kRetireStore,
  kReinstateStore,
};
inline constexpr size_t kVerbs = static_cast<size_t>(Verb::kReinstateStore) + 1;

// For example "mark_unresolved".
std::string_view Name(Verb verb);

Verb VerbOf(const core::Command& command);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_VERB_H_
