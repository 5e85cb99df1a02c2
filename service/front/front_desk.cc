#include "service/front/front_desk.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "keystore/core/limits.h"
#include "service/key_check.h"

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

Checked<Draft> ToDraft(const v1::ReserveRequest& request, const Terms& terms) {
  Checked<core::ReserveCommand> command = CheckReserve(request, terms.policy);
  if (!command.ok()) return command.error();
  const Checked<core::Duration> wait = WaitOf(request.wait_duration(), terms);
  if (!wait.ok()) return wait.error();
  std::optional<FieldError> new_key_error = CheckNewKey(terms.key, terms.policy);
  if (!terms.namespace_accepts) {
    command.value().refuse_new = core::Reason::kNamespaceNotFound;
  } else if (new_key_error) {
    command.value().refuse_new = core::Reason::kInvalidField;
  }
  return Draft{std::move(command.value()), wait.value(), std::move(new_key_error)};
}

Checked<Draft> ToDraft(const v1::GetOperationRequest& request, const Terms& terms) {
  Checked<core::GetCommand> command = CheckGet(request);
  if (!command.ok()) return command.error();
  const Checked<core::Duration> wait = WaitOf(request.wait_duration(), terms);
  if (!wait.ok()) return wait.error();
  return Draft{std::move(command.value()), wait.value(), std::nullopt};
}

Checked<Draft> ToDraft(const v1::RenewRequest& request, const Terms& terms) {
  return Plain(CheckRenew(request, terms.policy));
}
Checked<Draft> ToDraft(const v1::CompleteRequest& request, const Terms& terms) {
  return Plain(CheckComplete(request, terms.policy));
}
Checked<Draft> ToDraft(const v1::ReleaseRequest& request, const Terms&) {
  return Plain(CheckRelease(request));
}
Checked<Draft> ToDraft(const v1::MarkUnresolvedRequest& request, const Terms&) {
  return Plain(CheckMarkUnresolved(request));
}
Checked<Draft> ToDraft(const v1::InspectOperationRequest&, const Terms&) {
  return Plain(Checked<core::InspectCommand>(core::InspectCommand{}));
}
Checked<Draft> ToDraft(const v1::ResolveOperationRequest& request, const Terms& terms) {
  return Plain(CheckResolve(request, terms.policy));
}
Checked<Draft> ToDraft(const v1::DeleteOperationRequest& request, const Terms&) {
  return Plain(CheckDelete(request));
}

constexpr char kIdRequired[] =
    "id is required; send the namespace, scope and key of the operation.";

Failure AccessDenied() { return Failure{core::Reason::kAccessDenied, {}, {}, std::nullopt}; }

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
  const bool has_id = request->has_id();
  v1::OperationId* const id = request->mutable_id();
  if (!access_->Allows(caller.principal, permission, id->namespace_(), id->scope())) {
    return Refused(verb, AccessDenied(), id->namespace_());
  }
  if (!has_id) return Refused(verb, ToFailure(FieldError{"id", kIdRequired}));
  Checked<core::Key> key = CheckId(*id);
  if (!key.ok()) return Refused(verb, ToFailure(key.error()), id->namespace_());
  const std::shared_ptr<const Config> config = config_->Get();
  std::shared_ptr<const core::Policy> policy = config->PolicyFor(id->namespace_());
  const Terms terms{key.value(), *policy, config->Accepts(id->namespace_()), caller};
  Checked<Draft> draft = ToDraft(*request, terms);
  if (!draft.ok()) return Refused(verb, ToFailure(draft.error()), id->namespace_());
  if (verb == Verb::kReserve && policy->key_check == core::KeyCheck::kWarn) {
    const std::string_view looks_like = LooksSensitive(id->key());
    if (!looks_like.empty()) activity_->OnSensitiveKey(id->namespace_(), looks_like);
  }
  return Admitted{
      keystore::Request{std::move(key.value()), std::move(draft.value().command), policy,
                        draft.value().wait},
      Ticket{verb, std::move(*id), std::move(policy), std::move(draft.value().new_key_error)}};
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
  return AdmitAs(caller, Verb::kGet, Permission::kOperate, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::InspectOperationRequest* request) const {
  return AdmitAs(caller, Verb::kInspect, Permission::kAdminister, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::ResolveOperationRequest* request) const {
  return AdmitAs(caller, Verb::kResolve, Permission::kAdminister, request);
}
Admission FrontDesk::Admit(const Caller& caller, v1::DeleteOperationRequest* request) const {
  return AdmitAs(caller, Verb::kDelete, Permission::kAdminister, request);
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
  return Refused(Verb::kBatch, Failure{core::Reason::kInvalidField, "command",
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
      failure = Failure{};  // no v1::Command is of these kinds
      break;
  }
  if (failure) *out->mutable_error() = ToError(*failure);
}

// The core knows neither why a key is refused nor that an id without a scope cannot be there.
Failure FrontDesk::Explain(Failure failure, const Ticket& ticket) const {
  if (failure.reason == core::Reason::kInvalidField && ticket.new_key_error) {
    return ToFailure(*ticket.new_key_error);
  }
  const bool scope_missing = ticket.id.scope().empty() && !ticket.policy->scope_optional;
  if (failure.reason == core::Reason::kOperationNotFound && scope_missing) {
    return Failure{core::Reason::kInvalidField, "id.scope", "id.scope is required.", std::nullopt};
  }
  return failure;
}

Failure FrontDesk::Refused(Verb verb, Failure failure, std::string_view name_space) const {
  activity_->OnRefused(verb, failure, name_space);
  return failure;
}

std::optional<Failure> FrontDesk::GetNamespace(const Caller& caller,
                                               const v1::GetNamespaceRequest& request,
                                               v1::GetNamespaceResponse* out) const {
  const std::string& name = request.name();
  if (!access_->Allows(caller.principal, Permission::kOperate, name, {})) {
    return Refused(Verb::kGetNamespace, AccessDenied(), name);
  }
  if (const auto error = CheckNamespaceName(name, "name")) {
    return Refused(Verb::kGetNamespace, ToFailure(*error), name);
  }
  const std::shared_ptr<const Config> config = config_->Get();
  if (!config->Accepts(name)) {
    return Refused(Verb::kGetNamespace,
                   Failure{core::Reason::kNamespaceNotFound, "name", {}, std::nullopt}, name);
  }
  *out->mutable_namespace_() = ToProto(config->Describe(name));
  return std::nullopt;
}

std::optional<Failure> FrontDesk::ListNamespaces(const Caller& caller,
                                                 const v1::ListNamespacesRequest& request,
                                                 v1::ListNamespacesResponse* out) const {
  const Checked<size_t> page_size = CheckPageSize(request.page_size());
  if (!page_size.ok()) return Refused(Verb::kListNamespaces, ToFailure(page_size.error()));
  // A token is the last name of the page before: still right when names come and go.
  const std::string& after = request.page_token();
  if (!after.empty() && CheckNamespaceName(after, "page_token")) {
    return Refused(
        Verb::kListNamespaces,
        Failure{core::Reason::kInvalidField, "page_token",
                "page_token is not one that this method gave; start without one.", std::nullopt});
  }
  const std::shared_ptr<const Config> config = config_->Get();
  const std::vector<std::string> names = config->Names();
  auto name = std::upper_bound(names.begin(), names.end(), after);
  for (; name != names.end(); ++name) {
    if (!access_->Allows(caller.principal, Permission::kAdminister, *name, {})) continue;
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
  if (!access_->Allows(caller.principal, Permission::kAdminister, name_space, request.scope())) {
    return Refused(Verb::kList, AccessDenied(), name_space);
  }
  Checked<keystore::ListFilter> filter = CheckListFilter(request);
  if (!filter.ok()) return Refused(Verb::kList, ToFailure(filter.error()), name_space);
  return std::move(filter.value());
}

}  // namespace idempotency::service
