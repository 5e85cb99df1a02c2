#include <memory>

#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "service/front/batch_call.h"
#include "service/front/config_call.h"
#include "service/front/services.h"
#include "service/front/unary_call.h"

namespace idempotency::service {
namespace {

using Api = v1::IdempotencyService;
// Every method in its raw form.
using RawService = Api::WithRawCallbackMethod_Reserve<Api::WithRawCallbackMethod_Renew<
    Api::WithRawCallbackMethod_Complete<Api::WithRawCallbackMethod_Release<
        Api::WithRawCallbackMethod_MarkUnresolved<Api::WithRawCallbackMethod_GetOperation<
            Api::WithRawCallbackMethod_GetNamespace<Api::WithRawCallbackMethod_Batch<
                Api::WithRawCallbackMethod_Pipeline<Api::Service>>>>>>>>>;

class IdempotencyServiceImpl final : public RawService {
 public:
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;

  IdempotencyServiceImpl(const FrontDesk* desk, PipelineRegistry* pipelines)
      : desk_(desk), pipelines_(pipelines) {}

  Unary* Reserve(Context* context, const Bytes* in, Bytes* out) override {
    return Command<v1::ReserveRequest, v1::ReserveResponse>(Verb::kReserve, context, in, out);
  }
  Unary* Renew(Context* context, const Bytes* in, Bytes* out) override {
    return Command<v1::RenewRequest, v1::RenewResponse>(Verb::kRenew, context, in, out);
  }
  Unary* Complete(Context* context, const Bytes* in, Bytes* out) override {
    return Command<v1::CompleteRequest, v1::CompleteResponse>(Verb::kComplete, context, in, out);
  }
  Unary* Release(Context* context, const Bytes* in, Bytes* out) override {
    return Command<v1::ReleaseRequest, v1::ReleaseResponse>(Verb::kRelease, context, in, out);
  }
  Unary* MarkUnresolved(Context* context, const Bytes* in, Bytes* out) override {
    return Command<v1::MarkUnresolvedRequest, v1::MarkUnresolvedResponse>(Verb::kMarkUnresolved,
                                                                          context, in, out);
  }
  Unary* GetOperation(Context* context, const Bytes* in, Bytes* out) override {
    return Command<v1::GetOperationRequest, v1::GetOperationResponse>(Verb::kGet, context, in, out);
  }
  Unary* GetNamespace(Context* context, const Bytes* in, Bytes* out) override {
    return new ConfigCall<v1::GetNamespaceRequest, v1::GetNamespaceResponse>(
        desk_, Verb::kGetNamespace, &FrontDesk::GetNamespace, context, *in, out);
  }
  Unary* Batch(Context* context, const Bytes* in, Bytes* out) override {
    return new BatchCall(desk_, context, *in, out);
  }
  grpc::ServerBidiReactor<Bytes, Bytes>* Pipeline(Context* context) override {
    return PipelineCall::Start(desk_, pipelines_, context);
  }

 private:
  template <typename Request, typename Response>
  Unary* Command(Verb verb, Context* context, const Bytes* in, Bytes* out) {
    return new CommandCall<Request, Response>(desk_, verb, context, *in, out);
  }

  const FrontDesk* const desk_;
  PipelineRegistry* const pipelines_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeIdempotencyService(const FrontDesk* desk,
                                                      PipelineRegistry* pipelines) {
  return std::make_unique<IdempotencyServiceImpl>(desk, pipelines);
}

}  // namespace idempotency::service
