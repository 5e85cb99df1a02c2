// Calls about the store as a whole: administrative acts that need the role for every namespace,
// have a line in the audit when they begin and one when they end, and may take a while.
#ifndef IDEMPOTENCY_SERVICE_FRONT_STORE_CALL_H_
#define IDEMPOTENCY_SERVICE_FRONT_STORE_CALL_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "service/audit_log.h"
#include "service/front/front_desk.h"
#include "service/front/transport.h"

namespace idempotency::service {

// The codes of both have the same numbers.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message())};
}

// What the audit says that the act came to.
inline std::string ResultOf(const absl::Status& status) {
  return absl::StatusCodeToString(status.code());
}

// Looks whether the call may be made, writes the first line of its act, and calls `then`, here or
// on another thread: with why it is refused, or with the act.
inline void BeginStoreAct(const FrontDesk& desk, Verb verb,
                          const grpc::CallbackServerContext& context,
                          absl::AnyInvocable<void(FrontDesk::Begun) &&> then) {
  Caller caller;
  std::optional<Failure> failure = IdentifyCaller(context, desk, verb, &caller);
  if (!failure) failure = desk.AdmitToStore(caller, verb);
  if (failure) return std::move(then)({std::move(failure), std::nullopt});
  const std::string peer = context.peer();
  AuditEntry entry;
  entry.peer = peer;
  desk.BeginAct(caller, verb, entry, std::move(then));
}

// One that is answered once, and lives until gRPC says that it is over:
//
//   class Call final : public StoreCall { void Act() override { ...; End(status); } };
//   return StoreCall::Begun(new Call(...));
class StoreCall : public grpc::ServerUnaryReactor {
 public:
  static StoreCall* Begun(StoreCall* call) {
    call->Begin();
    return call;
  }

 protected:
  // `desk` must outlive it; so must the context, as gRPC sees to.
  StoreCall(const FrontDesk* desk, Verb verb, grpc::CallbackServerContext* context)
      : desk_(desk), verb_(verb), context_(context) {
    desk_->calls()->Enter();
  }

  // Carries the act out, or has that done on another thread. Must not block; ends with End.
  virtual void Act() = 0;
  // Nothing may be done with the call afterwards.
  void End(const absl::Status& status) {
    desk_->EndAct(act_, ResultOf(status));
    Finish(ToGrpc(status));
  }

 private:
  void Begin() {
    BeginStoreAct(*desk_, verb_, *context_, [this](FrontDesk::Begun begun) {
      if (begun.failure) return Finish(RefuseCall(*begun.failure, context_));
      act_ = std::move(begun.act);
      Act();
    });
  }

  void OnDone() override {
    keystore::Outstanding* const calls = desk_->calls();
    delete this;
    calls->Leave();
  }

  const FrontDesk* const desk_;
  const Verb verb_;
  grpc::CallbackServerContext* const context_;
  std::optional<AuditLog::Act> act_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_STORE_CALL_H_
