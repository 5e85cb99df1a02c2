// Calls that are answered from the configuration: at once, or, where that is an administrative act,
// as soon as the audit has written that it is.
#ifndef IDEMPOTENCY_SERVICE_FRONT_CONFIG_CALL_H_
#define IDEMPOTENCY_SERVICE_FRONT_CONFIG_CALL_H_

#include <optional>
#include <string>
#include <utility>

#include "service/audit_log.h"
#include "service/front/unary_call.h"

namespace idempotency::service {

template <typename Request, typename Response>
class ConfigCall final : public UnaryReactor {
 public:
  using Method = std::optional<Failure> (FrontDesk::*)(const Caller&, const Request&,
                                                       Response*) const;

  ConfigCall(const FrontDesk* desk, Verb verb, Method method, grpc::CallbackServerContext* context,
             const grpc::ByteBuffer& in, grpc::ByteBuffer* out)
      : UnaryReactor(desk, context, out) {
    Start(verb, method, in);
  }

 private:
  void Start(Verb verb, Method method, const grpc::ByteBuffer& in) {
    Caller caller;
    if (auto failure = Answer(verb, method, in, &caller)) return FinishWith(*failure);
    if (verb != Verb::kListNamespaces) return FinishWith(response_);
    const std::string peer = context()->peer();
    AuditEntry entry;
    entry.peer = peer;
    desk()->BeginAct(caller, verb, entry, [this](FrontDesk::Begun begun) {
      if (begun.failure) return FinishWith(*begun.failure);
      desk()->EndAct(begun.act);
      FinishWith(response_);
    });
  }

  std::optional<Failure> Answer(Verb verb, Method method, const grpc::ByteBuffer& in,
                                Caller* caller) {
    const std::chrono::nanoseconds began = keystore::ReadElapsed();
    if (auto failure = IdentifyCaller(*context(), *desk(), verb, caller)) return failure;
    Request request;
    if (auto failure = Parse(in, &request)) {
      return desk()->Refused(*caller, verb, *std::move(failure));
    }
    std::optional<Failure> failure = (desk()->*method)(*caller, request, &response_);
    if (!failure) desk()->NoteAnswered(verb, began);
    return failure;
  }

  Response response_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_CONFIG_CALL_H_
