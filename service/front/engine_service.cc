// EngineService: a look at what the store is kept in, as an administrative act.
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/server_callback.h"
#include "idempotency/engine/v1/engine_service.grpc.pb.h"
#include "service/engine_checker.h"
#include "service/front/front_desk.h"
#include "service/front/services.h"
#include "service/front/store_call.h"
#include "service/text.h"
#include "service/wire_time.h"

namespace idempotency::service {
namespace {

namespace wire = idempotency::engine::v1;

wire::Severity ToWire(keystore::Severity severity) {
  switch (severity) {
    case keystore::Severity::kOk:
      return wire::SEVERITY_OK;
    case keystore::Severity::kNotChecked:
      return wire::SEVERITY_NOT_CHECKED;
    case keystore::Severity::kWarning:
      return wire::SEVERITY_WARNING;
    case keystore::Severity::kGuaranteeFails:
      return wire::SEVERITY_GUARANTEE_FAILS;
  }
  return wire::SEVERITY_GUARANTEE_FAILS;
}

void Fill(const EngineChecker::Result& result, wire::CheckEngineResponse* out) {
  out->set_engine(result.check.engine);
  // Engines quote what other programs say, in whatever bytes.
  out->set_version(MendUtf8(result.check.version));
  SetTimestamp(result.time, out->mutable_check_time());
  for (const keystore::Finding& finding : result.check.findings) {
    wire::Finding* const to = out->add_findings();
    to->set_id(finding.id);
    to->set_severity(ToWire(finding.severity));
    to->set_seen(MendUtf8(finding.seen));
    to->set_why(finding.why);
    to->set_next_step(MendUtf8(finding.next_step));
  }
}

class CheckEngineCall final : public StoreCall {
 public:
  CheckEngineCall(const FrontDesk* desk, EngineChecker* checker,
                  grpc::CallbackServerContext* context, wire::CheckEngineResponse* response)
      : StoreCall(desk, Verb::kCheckEngine, context), checker_(checker), response_(response) {}

 private:
  void Act() override {
    const bool begun = checker_->Start([this](const absl::StatusOr<EngineChecker::Result>& result) {
      if (result.ok()) Fill(*result, response_);
      End(result.status());
    });
    if (begun) return;
    End(absl::ResourceExhaustedError(
        "Several others look at the engine already; send the call again later."));
  }

  EngineChecker* const checker_;
  wire::CheckEngineResponse* const response_;
};

class EngineServiceImpl final : public wire::EngineService::CallbackService {
 public:
  EngineServiceImpl(const FrontDesk* desk, EngineChecker* checker)
      : desk_(desk), checker_(checker) {}

  grpc::ServerUnaryReactor* CheckEngine(grpc::CallbackServerContext* context,
                                        const wire::CheckEngineRequest*,
                                        wire::CheckEngineResponse* response) override {
    return StoreCall::Begun(new CheckEngineCall(desk_, checker_, context, response));
  }

 private:
  const FrontDesk* const desk_;
  EngineChecker* const checker_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeEngineService(const FrontDesk* desk, EngineChecker* checker) {
  return std::make_unique<EngineServiceImpl>(desk, checker);
}

}  // namespace idempotency::service
