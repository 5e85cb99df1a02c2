// The way of one command from a request message to the key store and back, the same for every
// method and for Batch and Pipeline:
//
//   may the caller do this? -> is the id well-formed? -> which policy? -> is the rest valid?
//   -> keystore::Request -> (key store) -> response message, or why there is none
//
// Nothing here knows how a call travels; the reactors beside this file do.
#ifndef IDEMPOTENCY_SERVICE_FRONT_FRONT_DESK_H_
#define IDEMPOTENCY_SERVICE_FRONT_FRONT_DESK_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "absl/functional/any_invocable.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/clock.h"
#include "keystore/key_store.h"
#include "keystore/outstanding.h"
#include "service/access.h"
#include "service/activity.h"
#include "service/audit_log.h"
#include "service/config.h"
#include "service/conversion.h"
#include "service/error_table.h"
#include "service/front/held_answers.h"
#include "service/identity/authenticator.h"
#include "service/retirement_watch.h"
#include "service/trace_context.h"
#include "service/transfer_mode.h"
#include "service/validation.h"
#include "service/verb.h"

namespace idempotency::service {

// Who calls, and how long the caller will listen.
struct Caller {
  Principal principal;
  // Until the caller's own deadline; unset: it has none.
  std::optional<core::Duration> time_left;
  // The same without the safety margin that `time_left` has: the caller is gone for sure.
  std::optional<core::Duration> gone_after = std::nullopt;
  TraceContext trace = {};
};

// What is kept of a request until it is answered; it outlives the message.
struct Ticket {
  Verb verb = Verb::kReserve;
  core::Key key;
  std::shared_ptr<const core::Policy> policy;
  // What the namespace has against the id, should the core find that it matters.
  std::optional<FieldError> new_key_error;
  // When the request came here, as keystore::ReadElapsed says.
  std::chrono::nanoseconds began{0};
};

struct Admitted {
  keystore::Request request;
  Ticket ticket;
};

using Admission = std::variant<Admitted, Failure>;

// How much of a stored response the answer to this will copy: large answers can be told, and
// refused, before they are made. Zero for every answer to a command that changed something.
size_t ShownResponseBytes(const keystore::Reply& reply);

// Thread safety: all methods may be called from any thread; none blocks.
class FrontDesk {
 public:
  // All must outlive it. Without an authenticator nobody has to prove who they are; without an
  // audit nothing is written of who does what. While records are moved (`transfer`) what would
  // change one is refused, and where the store is being filled, what would read one, too; and all
  // of it where the store was retired (`retirement`; null: it cannot be).
  FrontDesk(keystore::KeyStore* store, keystore::Clock* clock, const ConfigHolder* config,
            const AccessPolicy* access, Activity* activity,
            const Authenticator* authenticator = nullptr, AuditLog* audit = nullptr,
            TransferMode transfer = TransferMode::kOff, const RetirementWatch* retirement = nullptr)
      : store_(store),
        clock_(clock),
        config_(config),
        access_(access),
        activity_(activity),
        authenticator_(authenticator),
        audit_(audit),
        transfer_(transfer),
        retirement_(retirement) {}

  // Whether callers have to prove who they are, so that there is something to identify.
  bool identifies() const { return authenticator_ != nullptr && authenticator_->required(); }
  bool takes_tokens() const { return authenticator_->takes_tokens(); }
  // Who makes a call with these credentials.
  Authentication Identify(const Credentials& credentials) const {
    // By the clock that certificates and tokens are made by.
    return authenticator_->Authenticate(credentials, clock_->Read().wall);
  }
  // Nobody is known to: notes it, with the address that the call came from.
  Failure RefuseUnknown(Verb verb, const Caller& caller, const Authentication& who,
                        std::string_view peer) const;

  // Checks a request and makes its command. Takes the id, and what else the command needs, out of
  // the request.
  Admission Admit(const Caller& caller, v1::ReserveRequest* request) const;
  Admission Admit(const Caller& caller, v1::RenewRequest* request) const;
  Admission Admit(const Caller& caller, v1::CompleteRequest* request) const;
  Admission Admit(const Caller& caller, v1::ReleaseRequest* request) const;
  Admission Admit(const Caller& caller, v1::MarkUnresolvedRequest* request) const;
  Admission Admit(const Caller& caller, v1::GetOperationRequest* request) const;
  Admission Admit(const Caller& caller, v1::InspectOperationRequest* request) const;
  Admission Admit(const Caller& caller, v1::ResolveOperationRequest* request) const;
  Admission Admit(const Caller& caller, v1::DeleteOperationRequest* request) const;
  // Whichever of them the command holds.
  Admission Admit(const Caller& caller, v1::Command* command) const;

  // The response to an admitted request of the matching kind; `reply` must not be cancelled.
  template <typename Response>
  std::optional<Failure> Answer(const keystore::Reply& reply, const Ticket& ticket,
                                Response* out) const {
    NoteTook(ticket.verb, ticket.began, reply.has_waited);
    std::optional<Failure> failure =
        FillResponse(reply, AnswerContext{ticket.key, *ticket.policy}, out);
    if (failure) *failure = Explain(*std::move(failure), ticket, reply);
    return failure;
  }
  // As above, into the result that belongs to the command.
  void Answer(const keystore::Reply& reply, const Ticket& ticket, v1::Result* out) const;

  // Methods that read the configuration alone.
  std::optional<Failure> GetNamespace(const Caller& caller, const v1::GetNamespaceRequest& request,
                                      v1::GetNamespaceResponse* out) const;
  std::optional<Failure> ListNamespaces(const Caller& caller,
                                        const v1::ListNamespacesRequest& request,
                                        v1::ListNamespacesResponse* out) const;

  // Whether the caller may list what the request asks for, and what that is.
  std::variant<keystore::ListFilter, Failure> AdmitList(
      const Caller& caller, const v1::ListOperationsRequest& request) const;

  // An administrative act that may be carried out (with what the audit calls it, where there is
  // one), or why it must not.
  struct Begun {
    std::optional<Failure> failure;
    std::optional<AuditLog::Act> act;
  };
  // Writes the act's first line and calls `then`, here or on another thread. Who acts, what and by
  // which trace is filled in here.
  void BeginAct(const Caller& caller, Verb verb, AuditEntry entry,
                absl::AnyInvocable<void(Begun) &&> then) const;
  // Writes how it ended.
  void EndAct(const std::optional<AuditLog::Act>& act, std::string_view result = "OK",
              std::string_view detail = {}) const {
    if (act) audit_->End(*act, result, detail);
  }

  // Whether the caller may see to the store as a whole, which holds every namespace.
  std::optional<Failure> AdmitToStore(const Caller& caller, Verb verb) const;

  // Notes a refusal that no method above has made.
  Failure Refused(const Caller& caller, Verb verb, Failure failure,
                  std::string_view name_space = {}) const;
  // Notes that a call was answered that has no ticket, and how long it took.
  void NoteAnswered(Verb verb, std::chrono::nanoseconds began,
                    std::string_view name_space = {}) const;
  void NoteTook(Verb verb, std::chrono::nanoseconds began, bool has_waited = false) const {
    activity_->OnTook(verb, keystore::ReadElapsed() - began, has_waited);
  }

  keystore::KeyStore* store() const { return store_; }
  // Every call that comes here enters and leaves.
  keystore::Outstanding* calls() const { return &calls_; }
  // What those hold that only show what is stored.
  HeldAnswers* held_answers() const { return &held_answers_; }
  core::Time Now() const { return clock_->Read().latest; }
  std::shared_ptr<const core::Policy> PolicyFor(std::string_view name_space) const {
    return config_->Get()->PolicyFor(name_space);
  }

 private:
  template <typename Request>
  Admission AdmitAs(const Caller& caller, Verb verb, Permission permission, Request* request) const;

  // Why a verb that names an operation is not for now; nothing where it is.
  std::optional<Failure> RefuseMoved(Verb verb) const;
  Failure Explain(Failure failure, const Ticket& ticket, const keystore::Reply& reply) const;
  // Nobody may know more of it than that: tells log, metrics and audit.
  Failure Denied(const Caller& caller, Verb verb, std::string_view name_space,
                 std::string_view scope = {}, std::string_view key = {}) const;

  keystore::KeyStore* const store_;
  keystore::Clock* const clock_;
  const ConfigHolder* const config_;
  const AccessPolicy* const access_;
  Activity* const activity_;
  const Authenticator* const authenticator_;
  AuditLog* const audit_;
  const TransferMode transfer_;
  const RetirementWatch* const retirement_;
  mutable keystore::Outstanding calls_;
  mutable HeldAnswers held_answers_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_FRONT_DESK_H_
