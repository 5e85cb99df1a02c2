// The way of one command from a request message to the key store and back, the same for every
// method and for Batch and Pipeline:
//
//   may the caller do this? -> is the id well-formed? -> which policy? -> is the rest valid?
//   -> keystore::Request -> (key store) -> response message, or why there is none
//
// Nothing here knows how a call travels; the reactors beside this file do.
#ifndef IDEMPOTENCY_SERVICE_FRONT_FRONT_DESK_H_
#define IDEMPOTENCY_SERVICE_FRONT_FRONT_DESK_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/clock.h"
#include "keystore/key_store.h"
#include "service/access.h"
#include "service/activity.h"
#include "service/config.h"
#include "service/conversion.h"
#include "service/error_table.h"
#include "service/front/active_calls.h"
#include "service/validation.h"
#include "service/verb.h"

namespace idempotency::service {

// Who calls, and how long the caller will listen.
struct Caller {
  Principal principal;
  // Until the caller's own deadline; unset: it has none.
  std::optional<core::Duration> time_left;
};

// What is kept of a request until it is answered; it outlives the message.
struct Ticket {
  Verb verb = Verb::kReserve;
  v1::OperationId id;
  std::shared_ptr<const core::Policy> policy;
  // What the namespace has against the id, should the core find that it matters.
  std::optional<FieldError> new_key_error;
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
  // All must outlive it.
  FrontDesk(keystore::KeyStore* store, keystore::Clock* clock, const ConfigHolder* config,
            const AccessPolicy* access, Activity* activity)
      : store_(store), clock_(clock), config_(config), access_(access), activity_(activity) {}

  // Checks a request and makes its command. Takes the id out of the request.
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
    std::optional<Failure> failure =
        FillResponse(reply, AnswerContext{ticket.id, *ticket.policy}, out);
    if (failure) *failure = Explain(*std::move(failure), ticket);
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

  // Notes a refusal that no method above has made.
  Failure Refused(Verb verb, Failure failure, std::string_view name_space = {}) const;

  keystore::KeyStore* store() const { return store_; }
  // Every call that comes here enters and leaves.
  ActiveCalls* calls() const { return &calls_; }
  core::Time Now() const { return clock_->Read().latest; }
  std::shared_ptr<const core::Policy> PolicyFor(std::string_view name_space) const {
    return config_->Get()->PolicyFor(name_space);
  }

 private:
  template <typename Request>
  Admission AdmitAs(const Caller& caller, Verb verb, Permission permission, Request* request) const;

  Failure Explain(Failure failure, const Ticket& ticket) const;

  keystore::KeyStore* const store_;
  keystore::Clock* const clock_;
  const ConfigHolder* const config_;
  const AccessPolicy* const access_;
  Activity* const activity_;
  mutable ActiveCalls calls_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_FRONT_DESK_H_
