// Calls that are answered from the configuration at once.
#ifndef IDEMPOTENCY_SERVICE_FRONT_CONFIG_CALL_H_
#define IDEMPOTENCY_SERVICE_FRONT_CONFIG_CALL_H_

#include <optional>
#include <utility>

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
    Request request;
    Response response;
    std::optional<Failure> failure = Parse(in, &request);
    if (failure) {
      failure = desk->Refused(verb, *std::move(failure));
    } else {
      failure = (desk->*method)(CallerOf(*context), request, &response);
    }
    FinishWith(failure, response);
  }
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_CONFIG_CALL_H_
