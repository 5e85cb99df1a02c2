// The calls of the API, one method each, as plain functions that wait: connect, send, wait for the
// answer or for Ctrl-C. What went wrong comes back as a CallError that keeps apart what was never
// sent from what may have been applied.
#ifndef IDEMPOTENCY_CLIENT_CTL_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_CTL_CONNECTION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/ctl/call_error.h"
#include "client/ctl/interrupt.h"
#include "client/ctl/target.h"
#include "grpc/health/v1/health.pb.h"
#include "idempotency/backup/v1/backup_service.pb.h"
#include "idempotency/engine/v1/engine_service.pb.h"
#include "idempotency/transfer/v1/transfer_service.pb.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::ctl {

struct CallOptions {
  // How long the server was asked to wait; comes on top of the timeout.
  absl::Duration wait = absl::ZeroDuration();
  // Runs when there is a connection, right before the request is sent.
  std::function<void()> before_send;
};

// Thread safety: one call at a time.
class Connection {
 public:
  // Any gRPC target: host:port, unix:/path; `secrets` are what its files hold. `timeout` bounds
  // connecting, and then the answer. The interrupt must outlive the connection.
  Connection(const Target& target, Secrets secrets, absl::Duration timeout,
             const Interrupt* interrupt);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  using Error = std::optional<CallError>;

  Error Reserve(const v1::ReserveRequest& request, v1::ReserveResponse* response,
                const CallOptions& options = {});
  Error Renew(const v1::RenewRequest& request, v1::RenewResponse* response);
  Error Complete(const v1::CompleteRequest& request, v1::CompleteResponse* response);
  Error Release(const v1::ReleaseRequest& request, v1::ReleaseResponse* response);
  Error MarkUnresolved(const v1::MarkUnresolvedRequest& request,
                       v1::MarkUnresolvedResponse* response);
  Error GetOperation(const v1::GetOperationRequest& request, v1::GetOperationResponse* response,
                     const CallOptions& options = {});
  Error GetNamespace(const v1::GetNamespaceRequest& request, v1::GetNamespaceResponse* response);

  Error InspectOperation(const v1::InspectOperationRequest& request,
                         v1::InspectOperationResponse* response);
  Error ListOperations(const v1::ListOperationsRequest& request,
                       v1::ListOperationsResponse* response);
  Error ResolveOperation(const v1::ResolveOperationRequest& request,
                         v1::ResolveOperationResponse* response);
  Error DeleteOperation(const v1::DeleteOperationRequest& request,
                        v1::DeleteOperationResponse* response);
  Error ListNamespaces(const v1::ListNamespacesRequest& request,
                       v1::ListNamespacesResponse* response);

  // Waits for as long as it takes, also beyond the timeout; `tell` runs for each report, on another
  // thread, while this one waits.
  Error CreateBackup(const std::function<void(const backup::v1::BackupProgress&)>& tell,
                     backup::v1::Backup* backup);
  Error ListBackups(const backup::v1::ListBackupsRequest& request,
                    backup::v1::ListBackupsResponse* response);

  Error CheckEngine(const engine::v1::CheckEngineRequest& request,
                    engine::v1::CheckEngineResponse* response, const CallOptions& options = {});
  // As CreateBackup. `take` is given each part; false: it wants no more, and the call is given up.
  Error ExportRecords(const std::function<bool(const transfer::v1::ExportRecordsResponse&)>& take);
  // As above. `next` is asked for each message behind `begin`, on any thread; false: there is none.
  Error ImportRecords(const transfer::v1::ImportBegin& begin,
                      const std::function<bool(transfer::v1::ImportRecordsRequest*)>& next,
                      const std::function<void(const transfer::v1::ImportRecordsResponse&)>& tell);
  // As long as it takes to read the store, also beyond the timeout.
  Error RetireStore(const transfer::v1::RetireStoreRequest& request,
                    transfer::v1::RetireStoreResponse* response);
  Error ReinstateStore(const transfer::v1::ReinstateStoreRequest& request,
                       transfer::v1::ReinstateStoreResponse* response);

  Error CheckHealth(const grpc::health::v1::HealthCheckRequest& request,
                    grpc::health::v1::HealthCheckResponse* response);

 private:
  class Transport;
  std::unique_ptr<Transport> transport_;
};

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_CONNECTION_H_
