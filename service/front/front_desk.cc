#include "service/front/front_desk.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "keystore/core/limits.h"
#include "service/sentences.h"

namespace idempotency::service {
namespace {

// What is known of the configuration and the id when a request is turned into a command.
struct Terms {
  const core::Key& key;
  const core::Policy& policy;
  bool namespace_accepts = false;
  const Caller& caller;
};

// A command, how long it may wait, and what speaks against a new key.
struct Draft {
  core::Command command;
  core::Duration wait{0};
  std::optional<FieldError> new_key_error;
};

// The command of a request that can neither wait nor make a key.
template <typename Command>
Checked<Draft> Plain(Checked<Command> command) {
  if (!command.ok()) return command.error();
  return Draft{std::move(command.value()), core::Duration::zero(), std::nullopt};
}

// The answer must still reach the caller: the wait ends a little before the caller stops
// listening.
Checked<core::Duration> WaitOf(const google::protobuf::Duration& asked, const Terms& terms) {
  Checked<core::Duration> wait = CheckWait(asked, terms.policy);
  if (!wait.ok() || !terms.caller.time_left) return wait;
  const core::Duration most = *terms.caller.time_left - core::kWaitDeadlineMargin;
  wait.value() =
      std::clamp(wait.value(), core::Duration::zero(), std::max(most, core::Duration::zero()));
  return wait;
}

Checked<Draft> ToDraft(v1::ReserveRequest* request, const Terms& terms) {
  Checked<core::ReserveCommand> command = CheckReserve(request, terms.policy);
  if (!command.ok()) return command.error();
  // Duplicates are given it.
  std::string& traceparent = command.value().owner.traceparent;
  if (traceparent.empty()) traceparent = terms.caller.trace.traceparent;
  const Checked<core::Duration> wait = WaitOf(request->wait_duration(), terms);
  if (!wait.ok()) return wait.error();
  std::optional<FieldError> new_key_error = CheckNewKey(terms.key, terms.policy);
  if (!terms.namespace_accepts) {
    command.value().refuse_new = core::Reason::kNamespaceNotFound;
  } else if (new_key_error) {
    command.value().refuse_new = core::Reason::kInvalidField;
  }
  return Draft{std::move(command.value()), wait.value(), std::move(new_key_error)};
}

Checked<Draft> ToDraft(v1::GetOperationRequest* request, const Terms& terms) {
  Checked<core::GetCommand> command = CheckGet(request);
  if (!command.ok()) return command.error();
  const Checked<core::Duration> wait = WaitOf(request->wait_duration(), terms);
  if (!wait.ok()) return wait.error();
  return Draft{std::move(command.value()), wait.value(), std::nullopt};
}

Checked<Draft> ToDraft(v1::RenewRequest* request, const Terms& terms) {
  return Plain(CheckRenew(request, terms.policy));
}
Checked<Draft> ToDraft(v1::CompleteRequest* request, const Terms& terms) {
  return Plain(CheckComplete(*request, terms.policy));
}
Checked<Draft> ToDraft(v1::ReleaseRequest* request, const Terms&) {
  return Plain(CheckRelease(*request));
}
Checked<Draft> ToDraft(v1::MarkUnresolvedRequest* request, const Terms&) {
  return Plain(CheckMarkUnresolved(*request));
}
Checked<Draft> ToDraft(v1::InspectOperationRequest*, const Terms&) {
  return Plain(Checked<core::InspectCommand>(core::InspectCommand{}));
}
Checked<Draft> ToDraft(v1::ResolveOperationRequest* request, const Terms& terms) {
  return Plain(CheckResolve(*request, terms.policy));
}
Checked<Draft> ToDraft(v1::DeleteOperationRequest* request, const Terms&) {
  return Plain(CheckDelete(*request));
}

constexpr char kIdRequired[] =
    "id is required; send the namespace, scope and key of the operation.";

// Of a method, where many words are written in one.
std::string_view View(const keystore::TraceId& id) {
  return id[0] == '\0' ? std::string_view() : std::string_view(id.data(), id.size());
}

// The record that the answer shows with its response, or null.
const core::Record* Revealed(const core::Answer& answer) {
  if (const auto* reserve = std::get_if<core::ReserveAnswer>(&answer)) {
    return reserve->reveal ? reserve->operation.get() : nullptr;
  }
  if (const auto* get = std::get_if<core::GetAnswer>(&answer)) {
    return get->reveal ? get->operation.get() : nullptr;
  }
  if (const auto* inspect = std::get_if<core::InspectAnswer>(&answer)) {
    return inspect->operation.get();
  }
  return nullptr;
}

}  // namespace

size_t ShownResponseBytes(const keystore::Reply& reply) {
  const core::Record* const record = Revealed(reply.answer);
  if (record == nullptr || record->state != core::State::kComplete) return 0;
  return record->response.bytes.view().size();
}

template <typename Request>
Admission FrontDesk::AdmitAs(const Caller& caller, Verb verb, Permission permission,
                             Request* request) const {
  const std::chrono::nanoseconds began = keystore::ReadElapsed();
  const v1::OperationId& id = request->id();
  if (!access_->Allows(caller.principal, permission, id.namespace_(), id.scope())) {
    return Denied(caller, verb, id.namespace_(), id.scope(), id.key());
  }
  if (auto failure = RefuseMoved(verb)) {
    return Refused(caller, verb, *std::move(failure), id.namespace_());
  }
  if (!request->has_id()) return Refused(caller, verb, ToFailure(FieldError{"id", kIdRequired}));
  Checked<core::Key> checked_key = CheckId(request->mutable_id());
  if (!checked_key.ok()) {
    return Refused(caller, verb, ToFailure(checked_key.error()), id.namespace_());
  }
  core::Key& key = checked_key.value();
  const std::shared_ptr<const Config> config = config_->Get();
  std::shared_ptr<const core::Policy> policy = config->PolicyFor(key.name_space);
  const Terms terms{key, *policy, config->Accepts(key.name_space), caller};
  Checked<Draft> draft = ToDraft(request, terms);
  if (!draft.ok()) return Refused(caller, verb, ToFailure(draft.error()), key.name_space);
  Ticket ticket{verb, key, policy, std::move(draft.value().new_key_error), began};
  return Admitted{
      keystore::Request{std::move(key), std::move(draft.value().command), std::move(policy),
                        draft.value().wait, caller.gone_after, caller.trace.id()},
      std::move(ticket)};
}

Admission FrontDesk::Admit(const Caller& caller, v1::ReserveRequest* request) const {
  return AdmitAs(caller, Verb::kReserve, Permission::kOperate, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::RenewRequest* request) const {
  return AdmitAs(caller, Verb::kRenew, Permission::kOperate, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::CompleteRequest* request) const {
  return AdmitAs(caller, Verb::kComplete, Permission::kOperate, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::ReleaseRequest* request) const {
  return AdmitAs(caller, Verb::kRelease, Permission::kOperate, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::MarkUnresolvedRequest* request) const {
  return AdmitAs(caller, Verb::kMarkUnresolved, Permission::kOperate, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::GetOperationRequest* request) const {
  return AdmitAs(caller, Verb::kGet, Permission::kRead, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::InspectOperationRequest* request) const {
  return AdmitAs(caller, Verb::kInspect, Permission::kInspect, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::ResolveOperationRequest* request) const {
  return AdmitAs(caller, Verb::kResolve, Permission::kResolve, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::DeleteOperationRequest* request) const {
  const Permission permission = request->force() ? Permission::kForceDelete : Permission::kDelete;
  return AdmitAs(caller, Verb::kDelete, permission, request);
}

Admission FrontDesk::Admit(const Caller& caller, v1::Command* command) const {
  switch (command->command_case()) {
    case v1::Command::kReserve:
      return Admit(caller, command->mutable_reserve());
    case v1::Command::kRenew:
      return Admit(caller, command->mutable_renew());
    case v1::Command::kComplete:
      return Admit(caller, command->mutable_complete());
    case v1::Command::kRelease:
      return Admit(caller, command->mutable_release());
    case v1::Command::kMarkUnresolved:
      return Admit(caller, command->mutable_mark_unresolved());
    case v1::Command::kGetOperation:
      return Admit(caller, command->mutable_get_operation());
    case v1::Command::COMMAND_NOT_SET:
      break;
  }
  return Refused(caller, Verb::kBatch,
                 Failure{core::Reason::kInvalidField, "command",
                         "The command is empty, or of a kind that this version of "
                         "the service does not know; set one of its kinds.",
                         std::nullopt});
}

void FrontDesk::Answer(const keystore::Reply& reply, const Ticket& ticket, v1::Result* out) const {
  std::optional<Failure> failure;
  switch (ticket.verb) {
    case Verb::kReserve:
      failure = Answer(reply, ticket, out->mutable_reserve());
      break;
    case Verb::kRenew:
      failure = Answer(reply, ticket, out->mutable_renew());
      break;
    case Verb::kComplete:
      failure = Answer(reply, ticket, out->mutable_complete());
      break;
    case Verb::kRelease:
      failure = Answer(reply, ticket, out->mutable_release());
      break;
    case Verb::kMarkUnresolved:
      failure = Answer(reply, ticket, out->mutable_mark_unresolved());
      break;
    case Verb::kGet:
      failure = Answer(reply, ticket, out->mutable_get_operation());
      break;
    case Verb::kInspect:
    case Verb::kResolve:
    case Verb::kDelete:
    case Verb::kReclaim:
    case Verb::kList:
    case Verb::kGetNamespace:
    case Verb::kListNamespaces:
    case Verb::kBatch:
    case Verb::kPipeline:
    case Verb::kCreateBackup:
    case Verb::kListBackups:
    case Verb::kCheckEngine:
    case Verb::kExportRecords:
    case Verb::kImportRecords:
    case Verb::kRetireStore:
    case Verb::kReinstateStore:
      failure = Failure{};  // no v1::Command is of these kinds
      break;
  }
  if (failure) *out->mutable_error() = ToError(*failure);
}

std::optional<Failure> FrontDesk::RefuseMoved(Verb verb) const {
  if (retirement_ != nullptr && retirement_->retired()) {
    return Failure{core::Reason::kStoreUnavailable,
                   {},
                   "The service's records were moved to another store, and this server has the old "
                   "one; send the same call again later, and have the service's operators stop it.",
                   core::kMaxOverloadRetryAfter};
  }
  if (transfer_ == TransferMode::kOff) return std::nullopt;
  const bool reads = verb == Verb::kGet || verb == Verb::kInspect || verb == Verb::kList;
  if (reads && transfer_ == TransferMode::kExport) return std::nullopt;
  // Nothing was done: whoever sends it again finds the store that was filled.
  return Failure{
      core::Reason::kStoreUnavailable,
      {},
      transfer_ == TransferMode::kExport
          ? "The service's records are being moved to another store, and none may change "
            "meanwhile; send the same call again later."
          : "The service's store is being filled from another, and may hold only a part "
            "of it; send the same call again later.",
      core::kMaxOverloadRetryAfter};
}

// The core knows neither why a key is refused nor that an id without a scope cannot be there.
Failure FrontDesk::Explain(Failure failure, const Ticket& ticket,
                           const keystore::Reply& reply) const {
  if (failure.reason == core::Reason::kQuotaExceeded && reply.quota) {
    activity_->OnQuotaExceeded(*reply.quota);
    failure.message = DescribeQuota(*reply.quota);
    failure.retry_after = reply.quota->retry_after;
    return failure;
  }
  if (failure.reason == core::Reason::kInvalidField && ticket.new_key_error) {
    return ToFailure(*ticket.new_key_error);
  }
  const bool scope_missing = ticket.key.scope.empty() && !ticket.policy->scope_optional;
  if (failure.reason == core::Reason::kOperationNotFound && scope_missing) {
    return Failure{core::Reason::kInvalidField, "id.scope", "id.scope is required.", std::nullopt};
  }
  return failure;
}

Failure FrontDesk::RefuseUnknown(Verb verb, const Caller& caller, const Authentication& who,
                                 std::string_view peer) const {
  const keystore::TraceId trace_id = caller.trace.id();
  activity_->OnUnauthenticated(verb, who, peer, trace_id);
  if (audit_ != nullptr) {
    AuditEntry entry;
    entry.action = Name(verb);
    entry.peer = peer;
    entry.trace_id = View(trace_id);
    audit_->Deny(entry, FaultName(who.fault));
  }
  const std::string sentence(SentenceOf(who.fault));
  Failure failure{core::Reason::kAccessDenied, {}, sentence, std::nullopt};
  failure.unauthenticated = true;
  return failure;
}

Failure FrontDesk::Denied(const Caller& caller, Verb verb, std::string_view name_space,
                          std::string_view scope, std::string_view key) const {
  Failure failure{core::Reason::kAccessDenied, {}, {}, std::nullopt};
  if (audit_ != nullptr) {
    const keystore::TraceId trace_id = caller.trace.id();
    AuditEntry entry;
    entry.action = Name(verb);
    entry.who = caller.principal.name;
    entry.name_space = name_space;
    entry.scope = scope;
    entry.key = key;
    entry.trace_id = View(trace_id);
    audit_->Deny(entry, ReasonName(failure.reason));
  }
  return Refused(caller, verb, std::move(failure), name_space);
}

void FrontDesk::BeginAct(const Caller& caller, Verb verb, AuditEntry entry,
                         absl::AnyInvocable<void(Begun) &&> then) const {
  if (audit_ == nullptr) return std::move(then)(Begun{});
  const keystore::TraceId trace_id = caller.trace.id();
  entry.action = Name(verb);
  entry.who = caller.principal.name;
  entry.trace_id = View(trace_id);
  audit_->Begin(entry, [this, verb, trace_id, name_space = std::string(entry.name_space),
                        then = std::move(then)](std::optional<AuditLog::Act> act) mutable {
    Begun begun{std::nullopt, std::move(act)};
    if (!begun.act) {
      begun.failure = Failure{core::Reason::kStoreUnavailable,
                              {},
                              "The audit cannot be written, and so the call was not carried out; "
                              "have the service's operators mend --audit_log, and send the same "
                              "call again.",
                              std::nullopt};
      activity_->OnRefused(verb, *begun.failure, name_space, PolicyFor(name_space)->tally.row,
                           trace_id);
    }
    std::move(then)(std::move(begun));
  });
}

std::optional<Failure> FrontDesk::AdmitToStore(const Caller& caller, Verb verb) const {
  if (access_->Allows(caller.principal, Permission::kWholeStore, "", "")) return std::nullopt;
  return Denied(caller, verb, "");
}

Failure FrontDesk::Refused(const Caller& caller, Verb verb, Failure failure,
                           std::string_view name_space) const {
  activity_->OnRefused(verb, failure, name_space, PolicyFor(name_space)->tally.row,
                       caller.trace.id());
  return failure;
}

void FrontDesk::NoteAnswered(Verb verb, std::chrono::nanoseconds began,
                             std::string_view name_space) const {
  activity_->OnAnswered(verb, PolicyFor(name_space)->tally.row);
  NoteTook(verb, began);
}

std::optional<Failure> FrontDesk::GetNamespace(const Caller& caller,
                                               const v1::GetNamespaceRequest& request,
                                               v1::GetNamespaceResponse* out) const {
  const std::string& name = request.name();
  if (!access_->Allows(caller.principal, Permission::kRead, name, std::nullopt)) {
    return Denied(caller, Verb::kGetNamespace, name);
  }
  if (const auto error = CheckNamespaceName(name, "name")) {
    return Refused(caller, Verb::kGetNamespace, ToFailure(*error), name);
  }
  const std::shared_ptr<const Config> config = config_->Get();
  if (!config->Accepts(name)) {
    return Refused(caller, Verb::kGetNamespace,
                   Failure{core::Reason::kNamespaceNotFound, "name", {}, std::nullopt}, name);
  }
  *out->mutable_namespace_() = ToProto(config->Describe(name));
  return std::nullopt;
}

std::optional<Failure> FrontDesk::ListNamespaces(const Caller& caller,
                                                 const v1::ListNamespacesRequest& request,
                                                 v1::ListNamespacesResponse* out) const {
  const Checked<size_t> page_size = CheckPageSize(request.page_size());
  if (!page_size.ok()) return Refused(caller, Verb::kListNamespaces, ToFailure(page_size.error()));
  // A token is the last name of the page before: still right when names come and go.
  const std::string& after = request.page_token();
  if (!after.empty() && CheckNamespaceName(after, "page_token")) {
    return Refused(
        caller, Verb::kListNamespaces,
        Failure{core::Reason::kInvalidField, "page_token",
                "page_token is not one that this method gave; start without one.", std::nullopt});
  }
  const std::shared_ptr<const Config> config = config_->Get();
  const std::vector<std::string> names = config->Names();
  auto name = std::upper_bound(names.begin(), names.end(), after);
  for (; name != names.end(); ++name) {
    if (!access_->Allows(caller.principal, Permission::kInspect, *name, std::nullopt)) continue;
    if (static_cast<size_t>(out->namespaces_size()) == page_size.value()) {
      out->set_next_page_token(out->namespaces().rbegin()->name());
      break;
    }
    *out->add_namespaces() = ToProto(config->Describe(*name));
  }
  return std::nullopt;
}

std::variant<keystore::ListFilter, Failure> FrontDesk::AdmitList(
    const Caller& caller, const v1::ListOperationsRequest& request) const {
  const std::string& name_space = request.namespace_();
  if (!access_->Allows(caller.principal, Permission::kInspect, name_space, request.scope())) {
    return Denied(caller, Verb::kList, name_space, request.scope());
  }
  if (auto failure = RefuseMoved(Verb::kList)) {
    return Refused(caller, Verb::kList, *std::move(failure), name_space);
  }
  Checked<keystore::ListFilter> filter = CheckListFilter(request);
  if (!filter.ok()) return Refused(caller, Verb::kList, ToFailure(filter.error()), name_space);
  return std::move(filter.value());
}

}  // namespace idempotency::service
