// One unary call, from its bytes to its end.
//
// The reactors hold themselves until gRPC says that the call is over. A reply may come on any
// thread, also before the method's handler has returned; gRPC puts off whatever a reactor does
// until then, so that nothing here has to lock.
#ifndef IDEMPOTENCY_SERVICE_FRONT_UNARY_CALL_H_
#define IDEMPOTENCY_SERVICE_FRONT_UNARY_CALL_H_

#include <optional>
#include <utility>
#include <variant>

#include "grpcpp/support/server_callback.h"
#include "keystore/key_store.h"
#include "service/front/front_desk.h"
#include "service/front/transport.h"

namespace idempotency::service {

// Common to all unary calls: how they end.
class UnaryReactor : public grpc::ServerUnaryReactor {
 protected:
  UnaryReactor(const FrontDesk* desk, grpc::CallbackServerContext* context, grpc::ByteBuffer* out)
      : desk_(desk), context_(context), out_(out) {
    desk_->calls()->Enter();
  }

  // Ends the call, once. Nothing may be done with the reactor afterwards.
  void FinishWith(const std::optional<Failure>& failure,
                  const google::protobuf::Message& response) {
    if (failure) return Finish(RefuseCall(*failure, context_));
    if (!Serialize(response, out_)) return Finish(RefuseCall(Failure{}, context_));
    Finish(grpc::Status::OK);
  }
  void FinishCancelled() {
    Finish(grpc::Status(grpc::StatusCode::CANCELLED, "The caller has gone."));
  }

  const FrontDesk* desk() const { return desk_; }
  grpc::CallbackServerContext* context() const { return context_; }

 private:
  void OnDone() override {
    ActiveCalls* const calls = desk_->calls();
    delete this;
    calls->Leave();
  }

  const FrontDesk* const desk_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const out_;
};

// A call that is one command.
template <typename Request, typename Response>
class CommandCall final : public UnaryReactor {
 public:
  CommandCall(const FrontDesk* desk, Verb verb, grpc::CallbackServerContext* context,
              const grpc::ByteBuffer& in, grpc::ByteBuffer* out)
      : UnaryReactor(desk, context, out) {
    Start(verb, in);
  }

 private:
  void Start(Verb verb, const grpc::ByteBuffer& in) {
    Request request;
    if (auto failure = Parse(in, &request)) {
      return FinishWith(desk()->Refused(verb, *std::move(failure)), response_);
    }
    Admission admission = desk()->Admit(CallerOf(*context()), &request);
    if (auto* failure = std::get_if<Failure>(&admission)) return FinishWith(*failure, response_);
    auto& admitted = std::get<Admitted>(admission);
    // Nothing is begun for a caller that has gone; what it had to report still counts.
    if (IsForTheCallerAlone(verb) && context()->IsCancelled()) return FinishCancelled();
    ticket_ = std::move(admitted.ticket);
    handle_ = desk()->store()->Submit(std::move(admitted.request),
                                      [this](keystore::Reply reply) { OnReply(reply); });
  }

  static bool IsForTheCallerAlone(Verb verb) {
    return verb == Verb::kReserve || verb == Verb::kGet || verb == Verb::kInspect;
  }

  void OnReply(const keystore::Reply& reply) {
    if (reply.cancelled) return FinishCancelled();
    FinishWith(desk()->Answer(reply, ticket_, &response_), response_);
  }

  // A waiter is let go; what was accepted of the other verbs is applied all the same.
  void OnCancel() override { desk()->store()->Cancel(handle_); }

  Ticket ticket_;
  keystore::CancelHandle handle_;
  Response response_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_UNARY_CALL_H_
