// One unary call, from its bytes to its end.
//
// The reactors hold themselves until gRPC says that the call is over. A reply may come on any
// thread, also before the method's handler has returned; gRPC puts off whatever a reactor does
// until then, so that nothing here has to lock.
#ifndef IDEMPOTENCY_SERVICE_FRONT_UNARY_CALL_H_
#define IDEMPOTENCY_SERVICE_FRONT_UNARY_CALL_H_

#include <atomic>
#include <cstddef>
#include <utility>
#include <variant>

#include "grpcpp/support/server_callback.h"
#include "keystore/core/limits.h"
#include "keystore/key_store.h"
#include "service/front/front_desk.h"
#include "service/front/short_lived.h"
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
  void FinishWith(const Failure& failure) { Finish(RefuseCall(failure, context_)); }
  void FinishWith(const google::protobuf::Message& response) {
    if (!Serialize(response, out_)) return FinishWith(Failure{});
    Finish(grpc::Status::OK);
  }
  void FinishCancelled() {
    Finish(grpc::Status(grpc::StatusCode::CANCELLED, "The caller has gone."));
  }

  // Makes room for a response that is stored, until the call is over. Where there is none it is to
  // be refused: whoever only reads can ask again.
  [[nodiscard]] bool HoldAnswer(size_t bytes) {
    if (bytes == 0) return true;
    if (!desk_->held_answers()->Hold(bytes)) return false;
    held_bytes_ += bytes;
    return true;
  }
  static Failure TooMuchHeld() {
    return Failure{core::Reason::kOverloaded,
                   {},
                   "Too many large answers are on their way to callers that have not taken them; "
                   "send the call again later.",
                   core::kOverloadRetryAfter};
  }

  const FrontDesk* desk() const { return desk_; }
  grpc::CallbackServerContext* context() const { return context_; }

 private:
  // Where gRPC calls OnDone and OnCancel: at once. Otherwise each end of a call goes by way of
  // another thread, which costs more than everything else that we do for a call.
  bool InternalInlineable() override { return true; }

  void OnDone() override {
    keystore::Outstanding* const calls = desk_->calls();
    if (const size_t held = held_bytes_) desk_->held_answers()->LetGo(held);
    delete this;
    calls->Leave();
  }

  const FrontDesk* const desk_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const out_;
  std::atomic<size_t> held_bytes_{0};
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
    Admission admission = ParseAndAdmit(verb, in);
    if (auto* failure = std::get_if<Failure>(&admission)) return FinishWith(*failure);
    auto& admitted = std::get<Admitted>(admission);
    // Nothing is begun for a caller that has gone; what it had to report still counts.
    if (IsForTheCallerAlone(verb) && context()->IsCancelled()) return FinishCancelled();
    ticket_ = std::move(admitted.ticket);
    handle_ = desk()->store()->Submit(std::move(admitted.request),
                                      [this](keystore::Reply reply) { OnReply(reply); });
  }

  Admission ParseAndAdmit(Verb verb, const grpc::ByteBuffer& in) const {
    Caller caller;
    if (auto failure = IdentifyCaller(*context(), *desk(), verb, &caller)) {
      return *std::move(failure);
    }
    ShortLived<Request> request;
    if (auto failure = Parse(in, request.get())) {
      return desk()->Refused(caller, verb, *std::move(failure));
    }
    return desk()->Admit(caller, request.get());
  }

  static bool IsForTheCallerAlone(Verb verb) {
    return verb == Verb::kReserve || verb == Verb::kGet;
  }

  void OnReply(const keystore::Reply& reply) {
    if (reply.cancelled) return FinishCancelled();
    if (!HoldAnswer(ShownResponseBytes(reply))) return FinishWith(TooMuchHeld());
    ShortLived<Response> response;
    if (auto failure = desk()->Answer(reply, ticket_, response.get())) return FinishWith(*failure);
    FinishWith(*response);
  }

  // A waiter is let go; what was accepted of the other verbs is applied all the same.
  void OnCancel() override { desk()->store()->Cancel(handle_); }

  Ticket ticket_;
  keystore::CancelHandle handle_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_UNARY_CALL_H_
