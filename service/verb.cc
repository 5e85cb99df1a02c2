#include "service/verb.h"

namespace idempotency::service {
namespace {

template <Verb verb, typename CommandType>
constexpr bool Matches() {
  return std::is_same_v<std::variant_alternative_t<static_cast<size_t>(verb), core::Command>,
                        CommandType>;
}
// The first verbs are the alternatives of core::Command, in the same order.
static_assert(Matches<Verb::kReserve, core::ReserveCommand>());
static_assert(Matches<Verb::kRenew, core::RenewCommand>());
static_assert(Matches<Verb::kComplete, core::CompleteCommand>());
static_assert(Matches<Verb::kRelease, core::ReleaseCommand>());
static_assert(Matches<Verb::kMarkUnresolved, core::MarkUnresolvedCommand>());
static_assert(Matches<Verb::kGet, core::GetCommand>());
static_assert(Matches<Verb::kInspect, core::InspectCommand>());
static_assert(Matches<Verb::kResolve, core::ResolveCommand>());
static_assert(Matches<Verb::kDelete, core::DeleteCommand>());
static_assert(Matches<Verb::kReclaim, core::ReclaimCommand>());

}  // namespace

std::string_view Name(Verb verb) {
  switch (verb) {
    case Verb::kReserve:
      return "reserve";
    case Verb::kRenew:
      return "renew";
    case Verb::kComplete:
      return "complete";
    case Verb::kRelease:
      return "release";
    case Verb::kMarkUnresolved:
      return "mark_unresolved";
    case Verb::kGet:
      return "get_operation";
    case Verb::kInspect:
      return "inspect_operation";
    case Verb::kResolve:
      return "resolve_operation";
    case Verb::kDelete:
      return "delete_operation";
    case Verb::kReclaim:
      return "reclaim";
    case Verb::kList:
      return "list_operations";
    case Verb::kGetNamespace:
      return "get_namespace";
    case Verb::kListNamespaces:
      return "list_namespaces";
    case Verb::kBatch:
      return "batch";
    case Verb::kPipeline:
      return "pipeline";
    case Verb::kCreateBackup:
      return "create_backup";
    case Verb::kListBackups:
      return "list_backups";
    case Verb::kCheckEngine:
      return "check_engine";
    case Verb::kExportRecords:
      return "export_records";
    case Verb::kImportRecords:
      return "import_records";
    case Verb::kRetireStore:
      return "retire_store";
    case Verb::kReinstateStore:
      return "reinstate_store";
  }
  return "unknown";
}

Verb VerbOf(const core::Command& command) { return static_cast<Verb>(command.index()); }

}  // namespace idempotency::service
