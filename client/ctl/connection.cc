#include "client/ctl/connection.h"

#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>

#include "grpc/health/v1/health.grpc.pb.h"
#include "idempotency/backup/v1/backup_service.grpc.pb.h"
#include "idempotency/engine/v1/engine_service.grpc.pb.h"
#include "idempotency/transfer/v1/transfer_service.grpc.pb.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::ctl {
namespace {

constexpr char kReasonTrailer[] = "idempotency-reason";
// Replies stay under 4 MiB; room for a server that was told otherwise.
constexpr int kMaxReceiveMessageBytes = 16 * 1024 * 1024;
// How often a connection that is being made looks up whether Ctrl-C was pressed.
constexpr absl::Duration kConnectSlice = absl::Milliseconds(100);
// A server that vanished is noticed after the two together, while a call is under way: a backup has
// no other end. The server takes a ping every 10 s.
constexpr int kKeepaliveTimeMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// Only to hear why the connection failed.
constexpr absl::Duration kProbeTimeout = absl::Seconds(1);

// For what reads a whole store: nobody's takes longer.
constexpr absl::Duration kWholeStoreWait = absl::Hours(24);

// A span counted from when gRPC gets it: no clock is read here.
gpr_timespec FromNow(absl::Duration span) {
  return gpr_time_from_millis(absl::ToInt64Milliseconds(span), GPR_TIMESPAN);
}

std::shared_ptr<grpc::ChannelCredentials> Credentials(const Target& target,
                                                      const Secrets& secrets) {
  if (!target.encrypted()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = secrets.ca;
  ssl.pem_cert_chain = secrets.certificate;
  ssl.pem_private_key = secrets.key;
  return grpc::SslCredentials(ssl);
}

std::shared_ptr<grpc::Channel> MakeChannel(const Target& target, const Secrets& secrets) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceiveMessageBytes);
  arguments.SetUserAgentPrefix("idempotencyctl/" IDEMPOTENCY_VERSION);
  // The server is on this host or named outright; a proxy for the web has no part in it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  if (!target.server_name.empty()) arguments.SetSslTargetNameOverride(target.server_name);
  return grpc::CreateCustomChannel(target.server, Credentials(target, secrets), arguments);
}

// The end of one asynchronous call, as a file descriptor that poll can wait for.
class Finished {
 public:
  Finished() : fd_(eventfd(0, EFD_CLOEXEC)) {}
  ~Finished() { close(fd_); }
  Finished(const Finished&) = delete;
  Finished& operator=(const Finished&) = delete;

  void Signal() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
  }

  // Whether it ended by itself; false: the interrupt came first. Without one, waits for the end.
  bool Wait(const Interrupt* interrupt) const {
    pollfd fds[] = {{fd_, POLLIN, 0}, {interrupt == nullptr ? -1 : interrupt->fd(), POLLIN, 0}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR) {
    }
    return (fds[0].revents & POLLIN) != 0;
  }

 private:
  const int fd_;
};

std::string Trailer(const grpc::ClientContext& context, const char* name) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(name);
  return found == trailers.end() ? "" : std::string(found->second.data(), found->second.size());
}

CallError ErrorOf(const grpc::Status& status, const grpc::ClientContext& context) {
  return ErrorFromTrailers(status.error_code(), status.error_message(), status.error_details(),
                           Trailer(context, kReasonTrailer));
}

// Reads a stream to its end, or until somebody wants no more of it.
template <typename Response>
class StreamReader final : public grpc::ClientReadReactor<Response> {
 public:
  using Take = std::function<bool(Response*)>;

  StreamReader(grpc::ClientContext* context, Take take)
      : context_(*context), take_(std::move(take)) {}

  void Begin() {
    this->StartRead(&response_);
    this->StartCall();
  }
  Finished& finished() { return finished_; }
  // Once it has finished.
  const grpc::Status& status() const { return status_; }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (!take_(&response_)) context_.TryCancel();
    this->StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    finished_.Signal();
  }

  grpc::ClientContext& context_;
  const Take take_;
  Response response_;
  grpc::Status status_;
  Finished finished_;
};

// Sends what there is to send, and hears meanwhile how it goes.
class ImportStream final : public grpc::ClientBidiReactor<transfer::v1::ImportRecordsRequest,
                                                          transfer::v1::ImportRecordsResponse> {
 public:
  using Next = std::function<bool(transfer::v1::ImportRecordsRequest*)>;
  using Tell = std::function<void(const transfer::v1::ImportRecordsResponse&)>;

  ImportStream(const Next& next, const Tell& tell) : next_(next), tell_(tell) {}

  void Begin(const transfer::v1::ImportBegin& begin) {
    *request_.mutable_begin() = begin;
    StartRead(&response_);
    StartWrite(&request_);
    StartCall();
  }
  Finished& finished() { return finished_; }
  // Once it has finished.
  const grpc::Status& status() const { return status_; }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    tell_(response_);
    StartRead(&response_);
  }
  void OnWriteDone(bool ok) override {
    // Where it is not, the server has ended the call, and says why.
    if (!ok) return;
    if (next_(&request_)) {
      StartWrite(&request_);
    } else {
      StartWritesDone();
    }
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    finished_.Signal();
  }

  const Next& next_;
  const Tell& tell_;
  transfer::v1::ImportRecordsRequest request_;
  transfer::v1::ImportRecordsResponse response_;
  grpc::Status status_;
  Finished finished_;
};

CallError NotSent(std::string message, bool interrupted) {
  CallError error;
  error.delivery = Delivery::kNotSent;
  error.interrupted = interrupted;
  error.code = interrupted ? grpc::StatusCode::CANCELLED : grpc::StatusCode::UNAVAILABLE;
  error.message = std::move(message);
  return error;
}

}  // namespace

class Connection::Transport {
 public:
  using Service = v1::IdempotencyService::StubInterface::async_interface;
  using Admin = v1::IdempotencyAdminService::StubInterface::async_interface;
  using Backups = backup::v1::BackupService::StubInterface::async_interface;
  using EngineService = engine::v1::EngineService::StubInterface::async_interface;
  using Transfers = transfer::v1::TransferService::StubInterface::async_interface;
  using HealthService = grpc::health::v1::Health::StubInterface::async_interface;

  // A generated method that starts a call; the function runs once it has ended, on any thread.
  template <typename Stub, typename Request, typename Response>
  using Method = void (Stub::*)(grpc::ClientContext*, const Request*, Response*,
                                std::function<void(grpc::Status)>);

  Transport(const Target& target, Secrets secrets, absl::Duration timeout,
            const Interrupt* interrupt)
      : timeout_(timeout),
        interrupt_(interrupt),
        token_(std::move(secrets.token)),
        channel_(MakeChannel(target, secrets)),
        service_(v1::IdempotencyService::NewStub(channel_)),
        admin_(v1::IdempotencyAdminService::NewStub(channel_)),
        backups_(backup::v1::BackupService::NewStub(channel_)),
        engine_(engine::v1::EngineService::NewStub(channel_)),
        transfers_(transfer::v1::TransferService::NewStub(channel_)),
        health_(grpc::health::v1::Health::NewStub(channel_)) {}

  template <typename Stub, typename Request, typename Response>
  Error Call(Method<Stub, Request, Response> method, const Request& request, Response* response,
             const CallOptions& options = {}) {
    if (Error error = Connect()) return error;
    if (options.before_send) options.before_send();
    return Send(method, request, response, timeout_ + options.wait);
  }

  // As long as it takes: `take` is given each message on another thread.
  template <typename Stub, typename Request, typename Response>
  Error ReadStream(void (Stub::*method)(grpc::ClientContext*, const Request*,
                                        grpc::ClientReadReactor<Response>*),
                   const Request& request, std::function<bool(Response*)> take) {
    if (Error error = Connect()) return error;
    grpc::ClientContext context;
    AddToken(&context);
    StreamReader<Response> reader(&context, std::move(take));
    Stub* stub = nullptr;
    Find(&stub);
    (stub->*method)(&context, &request, &reader);
    reader.Begin();
    return Await(reader.finished(), reader.status(), &context);
  }

  Error ImportRecords(const transfer::v1::ImportBegin& begin, const ImportStream::Next& next,
                      const ImportStream::Tell& tell) {
    if (Error error = Connect()) return error;
    grpc::ClientContext context;
    AddToken(&context);
    ImportStream stream(next, tell);
    transfers_->async()->ImportRecords(&context, &stream);
    stream.Begin(begin);
    return Await(stream.finished(), stream.status(), &context);
  }

 private:
  template <typename Stub, typename Request, typename Response>
  Error Send(Method<Stub, Request, Response> method, const Request& request, Response* response,
             absl::Duration timeout) {
    grpc::ClientContext context;
    context.set_deadline(FromNow(timeout));
    AddToken(&context);
    grpc::Status status;
    Finished finished;
    Stub* stub = nullptr;
    Find(&stub);
    (stub->*method)(&context, &request, response, [&](grpc::Status end) {
      status = std::move(end);
      finished.Signal();
    });
    return Await(finished, status, &context);
  }

  void AddToken(grpc::ClientContext* context) const {
    if (!token_.empty()) context->AddMetadata("authorization", "Bearer " + token_);
  }

  // `status` is the call's once it has finished.
  Error Await(const Finished& finished, const grpc::Status& status, grpc::ClientContext* context) {
    const bool answered = finished.Wait(interrupt_);
    if (!answered) {
      context->TryCancel();
      finished.Wait(nullptr);
    }
    // An answer that crossed with the interrupt is an answer all the same.
    if (status.ok()) return std::nullopt;
    CallError error = ErrorOf(status, *context);
    error.interrupted = !answered && error.delivery == Delivery::kUnknown;
    return error;
  }

  // Waits for a connection, so that "nothing was sent" can be said where it is so.
  Error Connect() {
    for (absl::Duration waited; waited < timeout_; waited += kConnectSlice) {
      if (interrupt_->triggered()) {
        return NotSent("interrupted before anything was sent", true);
      }
      const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
      if (state == GRPC_CHANNEL_READY) return std::nullopt;
      if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) {
        return NotSent(WhyNotConnected(), false);
      }
      channel_->WaitForStateChange(state, FromNow(kConnectSlice));
    }
    return NotSent("no connection within the timeout", false);
  }

  // A channel's state has no text; a call that fails on it has. Health checks change nothing.
  std::string WhyNotConnected() {
    const grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
    const Error error = Send(&HealthService::Check, request, &response, kProbeTimeout);
    return error ? error->message : "the connection was lost";
  }

  void Find(Service** stub) { *stub = service_->async(); }
  void Find(Admin** stub) { *stub = admin_->async(); }
  void Find(Backups** stub) { *stub = backups_->async(); }
  void Find(EngineService** stub) { *stub = engine_->async(); }
  void Find(Transfers** stub) { *stub = transfers_->async(); }
  void Find(HealthService** stub) { *stub = health_->async(); }

  const absl::Duration timeout_;
  const Interrupt* const interrupt_;
  const std::string token_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::IdempotencyService::Stub> service_;
  const std::unique_ptr<v1::IdempotencyAdminService::Stub> admin_;
  const std::unique_ptr<backup::v1::BackupService::Stub> backups_;
  const std::unique_ptr<engine::v1::EngineService::Stub> engine_;
  const std::unique_ptr<transfer::v1::TransferService::Stub> transfers_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

Connection::Connection(const Target& target, Secrets secrets, absl::Duration timeout,
                       const Interrupt* interrupt)
    : transport_(std::make_unique<Transport>(target, std::move(secrets), timeout, interrupt)) {}

Connection::~Connection() = default;

Connection::Error Connection::Reserve(const v1::ReserveRequest& request,
                                      v1::ReserveResponse* response, const CallOptions& options) {
  return transport_->Call(&Transport::Service::Reserve, request, response, options);
}

Connection::Error Connection::Renew(const v1::RenewRequest& request, v1::RenewResponse* response) {
  return transport_->Call(&Transport::Service::Renew, request, response);
}

Connection::Error Connection::Complete(const v1::CompleteRequest& request,
                                       v1::CompleteResponse* response) {
  return transport_->Call(&Transport::Service::Complete, request, response);
}

Connection::Error Connection::Release(const v1::ReleaseRequest& request,
                                      v1::ReleaseResponse* response) {
  return transport_->Call(&Transport::Service::Release, request, response);
}

Connection::Error Connection::MarkUnresolved(const v1::MarkUnresolvedRequest& request,
                                             v1::MarkUnresolvedResponse* response) {
  return transport_->Call(&Transport::Service::MarkUnresolved, request, response);
}

Connection::Error Connection::GetOperation(const v1::GetOperationRequest& request,
                                           v1::GetOperationResponse* response,
                                           const CallOptions& options) {
  return transport_->Call(&Transport::Service::GetOperation, request, response, options);
}

Connection::Error Connection::GetNamespace(const v1::GetNamespaceRequest& request,
                                           v1::GetNamespaceResponse* response) {
  return transport_->Call(&Transport::Service::GetNamespace, request, response);
}

Connection::Error Connection::InspectOperation(const v1::InspectOperationRequest& request,
                                               v1::InspectOperationResponse* response) {
  return transport_->Call(&Transport::Admin::InspectOperation, request, response);
}

Connection::Error Connection::ListOperations(const v1::ListOperationsRequest& request,
                                             v1::ListOperationsResponse* response) {
  return transport_->Call(&Transport::Admin::ListOperations, request, response);
}

Connection::Error Connection::ResolveOperation(const v1::ResolveOperationRequest& request,
                                               v1::ResolveOperationResponse* response) {
  return transport_->Call(&Transport::Admin::ResolveOperation, request, response);
}

Connection::Error Connection::DeleteOperation(const v1::DeleteOperationRequest& request,
                                              v1::DeleteOperationResponse* response) {
  return transport_->Call(&Transport::Admin::DeleteOperation, request, response);
}

Connection::Error Connection::ListNamespaces(const v1::ListNamespacesRequest& request,
                                             v1::ListNamespacesResponse* response) {
  return transport_->Call(&Transport::Admin::ListNamespaces, request, response);
}

Connection::Error Connection::CreateBackup(
    const std::function<void(const backup::v1::BackupProgress&)>& tell,
    backup::v1::Backup* backup) {
  return transport_->ReadStream(&Transport::Backups::CreateBackup, {},
                                std::function([&](backup::v1::CreateBackupResponse* response) {
                                  if (response->has_backup()) {
                                    backup->Swap(response->mutable_backup());
                                  } else {
                                    tell(response->progress());
                                  }
                                  return true;
                                }));
}

Connection::Error Connection::ExportRecords(
    const std::function<bool(const transfer::v1::ExportRecordsResponse&)>& take) {
  return transport_->ReadStream(
      &Transport::Transfers::ExportRecords, {},
      std::function([&](transfer::v1::ExportRecordsResponse* part) { return take(*part); }));
}

Connection::Error Connection::ImportRecords(
    const transfer::v1::ImportBegin& begin,
    const std::function<bool(transfer::v1::ImportRecordsRequest*)>& next,
    const std::function<void(const transfer::v1::ImportRecordsResponse&)>& tell) {
  return transport_->ImportRecords(begin, next, tell);
}

Connection::Error Connection::ListBackups(const backup::v1::ListBackupsRequest& request,
                                          backup::v1::ListBackupsResponse* response) {
  return transport_->Call(&Transport::Backups::ListBackups, request, response);
}

Connection::Error Connection::CheckEngine(const engine::v1::CheckEngineRequest& request,
                                          engine::v1::CheckEngineResponse* response,
                                          const CallOptions& options) {
  return transport_->Call(&Transport::EngineService::CheckEngine, request, response, options);
}

Connection::Error Connection::RetireStore(const transfer::v1::RetireStoreRequest& request,
                                          transfer::v1::RetireStoreResponse* response) {
  return transport_->Call(&Transport::Transfers::RetireStore, request, response,
                          {.wait = kWholeStoreWait, .before_send = nullptr});
}

Connection::Error Connection::ReinstateStore(const transfer::v1::ReinstateStoreRequest& request,
                                             transfer::v1::ReinstateStoreResponse* response) {
  return transport_->Call(&Transport::Transfers::ReinstateStore, request, response);
}

Connection::Error Connection::CheckHealth(const grpc::health::v1::HealthCheckRequest& request,
                                          grpc::health::v1::HealthCheckResponse* response) {
  return transport_->Call(&Transport::HealthService::Check, request, response);
}

}  // namespace idempotency::ctl
