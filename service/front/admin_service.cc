#include <memory>
#include <variant>

#include "idempotency/v1/admin_service.grpc.pb.h"
#include "service/front/act_call.h"
#include "service/front/config_call.h"
#include "service/front/list_call.h"
#include "service/front/services.h"

namespace idempotency::service {
namespace {

using Api = v1::IdempotencyAdminService;
// Every method in its raw form.
using RawService =
    Api::WithRawCallbackMethod_InspectOperation<Api::WithRawCallbackMethod_ListOperations<
        Api::WithRawCallbackMethod_ResolveOperation<Api::WithRawCallbackMethod_DeleteOperation<
            Api::WithRawCallbackMethod_ListNamespaces<Api::Service>>>>>;

class AdminServiceImpl final : public RawService {
 public:
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;

  AdminServiceImpl(const FrontDesk* desk, Worker* worker) : desk_(desk), worker_(worker) {}

  Unary* InspectOperation(Context* context, const Bytes* in, Bytes* out) override {
    return Command<v1::InspectOperationRequest, v1::InspectOperationResponse>(Verb::kInspect,
                                                                              context, in, out);
  }
  Unary* ListOperations(Context* context, const Bytes* in, Bytes* out) override {
    return new ListCall(desk_, worker_, context, *in, out);
  }
  Unary* ResolveOperation(Context* context, const Bytes* in, Bytes* out) override {
    return Command<v1::ResolveOperationRequest, v1::ResolveOperationResponse>(Verb::kResolve,
                                                                              context, in, out);
  }
  Unary* DeleteOperation(Context* context, const Bytes* in, Bytes* out) override {
    return Command<v1::DeleteOperationRequest, v1::DeleteOperationResponse>(Verb::kDelete, context,
                                                                            in, out);
  }
  Unary* ListNamespaces(Context* context, const Bytes* in, Bytes* out) override {
    return new ConfigCall<v1::ListNamespacesRequest, v1::ListNamespacesResponse>(
        desk_, Verb::kListNamespaces, &FrontDesk::ListNamespaces, context, *in, out);
  }

 private:
  template <typename Request, typename Response>
  Unary* Command(Verb verb, Context* context, const Bytes* in, Bytes* out) {
    return new ActCall<Request, Response>(desk_, verb, context, *in, out);
  }

  const FrontDesk* const desk_;
  Worker* const worker_;
};

}  // namespace

ActWords WordsOf(const core::Command& command) {
  if (const auto* resolve = std::get_if<core::ResolveCommand>(&command)) {
    return {resolve->actor, resolve->reason};
  }
  if (const auto* remove = std::get_if<core::DeleteCommand>(&command)) {
    return {remove->actor, remove->reason};
  }
  return {};
}

std::unique_ptr<grpc::Service> MakeAdminService(const FrontDesk* desk, Worker* worker) {
  return std::make_unique<AdminServiceImpl>(desk, worker);
}

}  // namespace idempotency::service
