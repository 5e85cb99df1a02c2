#include "service/server.h"

#include <utility>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "keystore/core/limits.h"
#include "service/front/services.h"
#include "service/listen_address.h"

namespace idempotency::service {
namespace {

constexpr char kServiceName[] = "idempotency.v1.IdempotencyService";
constexpr char kAdminServiceName[] = "idempotency.v1.IdempotencyAdminService";

// Lists that wait for their turn; more are told to come back.
constexpr size_t kMaxQueuedWork = 64;
// What all connections together may hold in buffers.
constexpr size_t kTransportMemoryBytes = size_t{512} * 1024 * 1024;
// Calls and streams at once: more than may wait in all, so that the waiting calls of a client
// never keep out the Complete that they wait for.
constexpr int kMaxStreamsPerConnection = int{core::kMaxWaiters} + 2'000;
constexpr int kMaxRequestMetadataBytes = 8 * 1024;
constexpr int kHandshakeTimeoutMs = 10'000;
// Clients may ping an idle connection this often.
constexpr int kMinPingIntervalMs = 10'000;

keystore::KeyStoreOptions StoreOptions(const ConfigHolder* config) {
  const ServerLimits& limits = config->Get()->limits();
  keystore::KeyStoreOptions options;
  options.max_queued_commands = limits.max_queued_commands;
  options.max_waiters = limits.max_waiters;
  options.max_waiters_per_key = limits.max_waiters_per_key;
  options.may_reclaim = [config](std::string_view name_space) {
    return config->Get()->Accepts(name_space);
  };
  return options;
}

// protobuf writes to stderr by itself, a line for every text that is not UTF-8; such a request
// is repaired, or refused with a reason, and that is logged.
void SilenceProtobuf() { google::protobuf::SetLogHandler(nullptr); }

// Once a process: they hold for every server in it.
void PrepareGrpc() {
  static const bool kPrepared = [] {
    SilenceProtobuf();
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  (void)kPrepared;
}

void SetLimits(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(core::kMaxReceiveMessageBytes));
  builder->SetMaxSendMessageSize(static_cast<int>(core::kMaxSendMessageBytes));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxRequestMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kMinPingIntervalMs);
  // Two servers that share a port would each see half of the calls.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  grpc::ResourceQuota quota("idempotencyd");
  quota.Resize(kTransportMemoryBytes);
  builder->SetResourceQuota(quota);
}

// For connections that have nothing in flight to be told that they are closed.
constexpr absl::Duration kCloseTimeout = absl::Milliseconds(200);

gpr_timespec After(absl::Duration span) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(absl::ToInt64Milliseconds(span), GPR_TIMESPAN));
}

}  // namespace

Server::Server(ServerParts parts, ServerOptions options)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      activity_(parts_.log, parts_.metrics, [this] { OnEngineDead(); }) {}

Server::~Server() { Drain(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerParts parts, ServerOptions options) {
  const absl::StatusOr<std::string> address = CheckListenAddress(options.listen);
  if (!address.ok()) return address.status();
  PrepareGrpc();
  std::unique_ptr<Server> server(new Server(std::move(parts), std::move(options)));
  if (absl::Status status = server->StartStore(); !status.ok()) return status;
  if (absl::Status status = server->StartListening(); !status.ok()) return status;
  return server;
}

absl::Status Server::StartStore() {
  store_ = std::make_unique<keystore::KeyStore>(parts_.engine.get(), parts_.clock, &activity_,
                                                StoreOptions(parts_.config));
  worker_ = std::make_unique<Worker>(kMaxQueuedWork);
  ticker_ = std::make_unique<Ticker>(
      store_.get(), parts_.clock,
      Ticker::Hooks{[this](core::Time now) { OnSecond(now); },
                    [this](bool in_doubt) { activity_.OnClockDoubt(in_doubt); }});
  store_->OnEarlierTimer([this] { ticker_->Wake(); });
  if (absl::Status status = store_->LoadOpen(); !status.ok()) return status;
  ticker_->Start();
  return absl::OkStatus();
}

absl::Status Server::StartListening() {
  const AccessPolicy* const access = parts_.access != nullptr ? parts_.access : &allow_all_;
  desk_ =
      std::make_unique<FrontDesk>(store_.get(), parts_.clock, parts_.config, access, &activity_);
  service_ = MakeIdempotencyService(desk_.get(), &pipelines_);
  admin_service_ = MakeAdminService(desk_.get(), worker_.get());
  grpc::ServerBuilder builder;
  SetLimits(&builder);
  builder.RegisterService(service_.get());
  builder.RegisterService(admin_service_.get());
  int port = 0;
  builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(), &port);
  grpc_server_ = builder.BuildAndStart();
  if (grpc_server_ == nullptr) {
    return absl::UnavailableError("cannot listen on " + options_.listen +
                                  "; stop what listens there, or choose another --listen.");
  }
  // gRPC gives Unix sockets a port of 1.
  const bool has_port = options_.listen.rfind("unix:", 0) != 0;
  port_ = has_port ? port : 0;
  health_ = grpc_server_->GetHealthCheckService();
  SetServing(parts_.engine->pressure().alive);
  return absl::OkStatus();
}

void Server::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* const health = health_.load();
  if (health == nullptr) return;
  for (const char* name : {"", kServiceName, kAdminServiceName}) {
    health->SetServingStatus(name, serving);
  }
}

void Server::OnEngineDead() {
  SetServing(false);
  if (parts_.on_engine_dead) parts_.on_engine_dead();
}

void Server::OnSecond(core::Time now) {
  if (!parts_.engine->pressure().alive) activity_.OnEngineDead();
  if (options_.clock_mark_path.empty()) return;
  // A slow disk must not hold up the timers. Where the mark is skipped, the next one comes soon.
  (void)worker_->Run([this, now] {
    const absl::Status status = keystore::ClockMark(options_.clock_mark_path).Store(now);
    if (!status.ok()) activity_.OnClockMarkFailed(std::string(status.message()));
  });
}

void Server::Drain() {
  if (std::exchange(drained_, true)) return;
  SetServing(false);
  if (store_ != nullptr) store_->Drain();
  pipelines_.Drain();
  if (desk_ != nullptr) desk_->calls()->AwaitNone(options_.shutdown_timeout);
  // All that is left are idle connections and those who watch health.
  if (grpc_server_ != nullptr) grpc_server_->Shutdown(After(kCloseTimeout));
  // By now nobody but the timers can find that the engine has died.
  if (ticker_ != nullptr) ticker_->Stop();
  worker_.reset();
  health_ = nullptr;
  grpc_server_.reset();
}

}  // namespace idempotency::service
