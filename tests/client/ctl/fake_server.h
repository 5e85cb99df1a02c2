// A real gRPC server on loopback that answers what the test says, and the tool run against it in
// this process. One test, one server.
#ifndef IDEMPOTENCY_TESTS_CLIENT_CTL_FAKE_SERVER_H_
#define IDEMPOTENCY_TESTS_CLIENT_CTL_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/ctl/exit_code.h"
#include "client/ctl/interrupt.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "idempotency/backup/v1/backup_service.grpc.pb.h"
#include "idempotency/engine/v1/engine_service.grpc.pb.h"
#include "idempotency/transfer/v1/transfer_service.grpc.pb.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::ctl {

// What one method was last asked, how often, and what it answers.
template <typename Request, typename Response>
struct Method {
  using Answer = std::function<grpc::Status(grpc::ServerContext*, const Request&, Response*)>;
  Request request;
  int calls = 0;
  Response response;
  // Instead of `response`.
  Answer answer;

  grpc::Status Run(grpc::ServerContext* context, const Request* asked, Response* reply) {
    request = *asked;
    ++calls;
    if (answer) return answer(context, *asked, reply);
    *reply = response;
    return grpc::Status::OK;
  }
};

#define IDEMPOTENCY_FAKE_METHOD(name, member)                                       \
  Method<v1::name##Request, v1::name##Response> member;                             \
  grpc::Status name(grpc::ServerContext* context, const v1::name##Request* request, \
                    v1::name##Response* response) override {                        \
    return member.Run(context, request, response);                                  \
  }

struct FakeService : v1::IdempotencyService::Service {
  IDEMPOTENCY_FAKE_METHOD(Reserve, reserve)
  IDEMPOTENCY_FAKE_METHOD(Renew, renew)
  IDEMPOTENCY_FAKE_METHOD(Complete, complete)
  IDEMPOTENCY_FAKE_METHOD(Release, release)
  IDEMPOTENCY_FAKE_METHOD(MarkUnresolved, mark)
  IDEMPOTENCY_FAKE_METHOD(GetOperation, get)
  IDEMPOTENCY_FAKE_METHOD(GetNamespace, get_namespace)
};

struct FakeAdmin : v1::IdempotencyAdminService::Service {
  IDEMPOTENCY_FAKE_METHOD(InspectOperation, inspect)
  IDEMPOTENCY_FAKE_METHOD(ListOperations, list)
  IDEMPOTENCY_FAKE_METHOD(ResolveOperation, resolve)
  IDEMPOTENCY_FAKE_METHOD(DeleteOperation, erase)
  IDEMPOTENCY_FAKE_METHOD(ListNamespaces, list_namespaces)
};

#undef IDEMPOTENCY_FAKE_METHOD

struct FakeHealth : grpc::health::v1::Health::Service {
  Method<grpc::health::v1::HealthCheckRequest, grpc::health::v1::HealthCheckResponse> check;
  grpc::Status Check(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override {
    return check.Run(context, request, response);
  }
};

struct FakeBackups : backup::v1::BackupService::Service {
  std::function<grpc::Status(grpc::ServerWriter<backup::v1::CreateBackupResponse>*)> create;
  Method<backup::v1::ListBackupsRequest, backup::v1::ListBackupsResponse> list;

  grpc::Status CreateBackup(grpc::ServerContext*, const backup::v1::CreateBackupRequest*,
                            grpc::ServerWriter<backup::v1::CreateBackupResponse>* writer) override {
    return create(writer);
  }
  grpc::Status ListBackups(grpc::ServerContext* context,
                           const backup::v1::ListBackupsRequest* request,
                           backup::v1::ListBackupsResponse* response) override {
    return list.Run(context, request, response);
  }
};

struct FakeEngine : engine::v1::EngineService::Service {
  Method<engine::v1::CheckEngineRequest, engine::v1::CheckEngineResponse> check;
  grpc::Status CheckEngine(grpc::ServerContext* context,
                           const engine::v1::CheckEngineRequest* request,
                           engine::v1::CheckEngineResponse* response) override {
    return check.Run(context, request, response);
  }
};

struct FakeTransfers : transfer::v1::TransferService::Service {
  using Imports = grpc::ServerReaderWriter<transfer::v1::ImportRecordsResponse,
                                           transfer::v1::ImportRecordsRequest>;
  std::function<grpc::Status(grpc::ServerWriter<transfer::v1::ExportRecordsResponse>*)> give;
  std::function<grpc::Status(Imports*)> take;
  Method<transfer::v1::RetireStoreRequest, transfer::v1::RetireStoreResponse> retire;
  Method<transfer::v1::ReinstateStoreRequest, transfer::v1::ReinstateStoreResponse> reinstate;

  grpc::Status ExportRecords(
      grpc::ServerContext*, const transfer::v1::ExportRecordsRequest*,
      grpc::ServerWriter<transfer::v1::ExportRecordsResponse>* writer) override {
    return give(writer);
  }
  grpc::Status ImportRecords(grpc::ServerContext*, Imports* stream) override {
    return take(stream);
  }
  grpc::Status RetireStore(grpc::ServerContext* context,
                           const transfer::v1::RetireStoreRequest* request,
                           transfer::v1::RetireStoreResponse* response) override {
    return retire.Run(context, request, response);
  }
  grpc::Status ReinstateStore(grpc::ServerContext* context,
                              const transfer::v1::ReinstateStoreRequest* request,
                              transfer::v1::ReinstateStoreResponse* response) override {
    return reinstate.Run(context, request, response);
  }
};

// A refusal as the service makes it.
grpc::Status Refuse(grpc::ServerContext* context, grpc::StatusCode code, const std::string& reason,
                    const std::string& message);

struct RunResult {
  int code = 0;
  std::string out;
  std::string err;
};

class FakeServer {
 public:
  FakeServer() : FakeServer(grpc::InsecureServerCredentials()) {}
  explicit FakeServer(const std::shared_ptr<grpc::ServerCredentials>& credentials);
  ~FakeServer();

  // Runs the tool with the server in its environment.
  RunResult Run(const std::vector<std::string>& words, const std::string& standard_input = "");

  FakeService service;
  FakeAdmin admin;
  FakeBackups backups;
  FakeEngine engine;
  FakeTransfers transfers;
  FakeHealth health;
  // How long the tool has wanted to wait, each time; and what happens meanwhile.
  std::vector<absl::Duration> pauses;
  std::function<void()> on_pause;
  // Whether the tool takes standard error for a terminal.
  bool terminal = false;
  // And standard output.
  bool screen = false;
  // What the tool last wanted to go on as; it is told that this cannot be.
  std::vector<std::string> became;
  std::map<std::string, std::string> env;
  Interrupt interrupt;

 private:
  std::unique_ptr<grpc::Server> server_;
};

inline constexpr char kAttemptId[] = "attempt-0123456789abcdef";

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_TESTS_CLIENT_CTL_FAKE_SERVER_H_
