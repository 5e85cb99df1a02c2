// The gRPC services, as something a server can register. How calls are run is decided here
// and in the reactors beside, and can change without touching anything else.
#ifndef IDEMPOTENCY_SERVICE_FRONT_SERVICES_H_
#define IDEMPOTENCY_SERVICE_FRONT_SERVICES_H_

#include <memory>

#include "grpcpp/impl/service_type.h"
#include "service/backup_keeper.h"
#include "service/engine_checker.h"
#include "service/front/front_desk.h"
#include "service/front/pipeline_call.h"
#include "service/transfer_keeper.h"
#include "service/worker.h"

namespace idempotency::service {

// All arguments must outlive the service, and the server it is registered with.
std::unique_ptr<grpc::Service> MakeIdempotencyService(const FrontDesk* desk,
                                                      PipelineRegistry* pipelines);
std::unique_ptr<grpc::Service> MakeAdminService(const FrontDesk* desk, Worker* worker);
// `worker` reads what is listed.
std::unique_ptr<grpc::Service> MakeBackupService(const FrontDesk* desk, BackupKeeper* keeper,
                                                 Worker* worker);
std::unique_ptr<grpc::Service> MakeEngineService(const FrontDesk* desk, EngineChecker* checker);
std::unique_ptr<grpc::Service> MakeTransferService(const FrontDesk* desk, TransferKeeper* keeper);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_SERVICES_H_
