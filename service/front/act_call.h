// A call that is one administrative act: it begins when the audit has written that it does.
#ifndef IDEMPOTENCY_SERVICE_FRONT_ACT_CALL_H_
#define IDEMPOTENCY_SERVICE_FRONT_ACT_CALL_H_

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "keystore/key_store.h"
#include "service/audit_log.h"
#include "service/front/unary_call.h"

namespace idempotency::service {

// What the caller says of who acts, and why; empty where the command has no place for it.
struct ActWords {
  std::string actor;
  std::string reason;
};
ActWords WordsOf(const core::Command& command);

// An act that was begun is applied though its caller has gone: its line says that it was.
template <typename Request, typename Response>
class ActCall final : public UnaryReactor {
 public:
  ActCall(const FrontDesk* desk, Verb verb, grpc::CallbackServerContext* context,
          const grpc::ByteBuffer& in, grpc::ByteBuffer* out)
      : UnaryReactor(desk, context, out) {
    Start(verb, in);
  }

 private:
  void Start(Verb verb, const grpc::ByteBuffer& in) {
    Caller caller;
    if (auto failure = IdentifyCaller(*context(), *desk(), verb, &caller)) {
      return FinishWith(*failure);
    }
    ShortLived<Request> request;
    if (auto failure = Parse(in, request.get())) {
      return FinishWith(desk()->Refused(caller, verb, *std::move(failure)));
    }
    Admission admission = desk()->Admit(caller, request.get());
    if (auto* failure = std::get_if<Failure>(&admission)) return FinishWith(*failure);
    auto& admitted = std::get<Admitted>(admission);
    ticket_ = std::move(admitted.ticket);
    Begin(caller, std::move(admitted.request));
  }

  void Begin(const Caller& caller, keystore::Request request) {
    // The request itself is moved before it is told.
    const ActWords words = WordsOf(request.command);
    const std::string peer = context()->peer();
    AuditEntry entry;
    entry.peer = peer;
    entry.name_space = ticket_.key.name_space;
    entry.scope = ticket_.key.scope;
    entry.key = ticket_.key.key;
    entry.actor = words.actor;
    entry.reason = words.reason;
    desk()->BeginAct(caller, ticket_.verb, entry,
                     [this, request = std::move(request)](FrontDesk::Begun begun) mutable {
                       if (begun.failure) return FinishWith(*begun.failure);
                       act_ = std::move(begun.act);
                       desk()->store()->Submit(std::move(request),
                                               [this](keystore::Reply reply) { OnReply(reply); });
                     });
  }

  void OnReply(const keystore::Reply& reply) {
    if (reply.cancelled) {
      desk()->EndAct(act_, "CANCELLED");
      return FinishCancelled();
    }
    if (!HoldAnswer(ShownResponseBytes(reply))) return EndWith(TooMuchHeld());
    ShortLived<Response> response;
    if (auto failure = desk()->Answer(reply, ticket_, response.get())) return EndWith(*failure);
    desk()->EndAct(act_);
    FinishWith(*response);
  }

  void EndWith(const Failure& failure) {
    desk()->EndAct(act_, ReasonName(failure.reason));
    FinishWith(failure);
  }

  Ticket ticket_;
  std::optional<AuditLog::Act> act_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_ACT_CALL_H_
