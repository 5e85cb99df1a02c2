#include "service/server.h"

#include <utility>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "keystore/engine/transfer/import_mark.h"
#include "keystore/engine/transfer/retirement.h"
#include "service/front/services.h"
#include "service/listen_address.h"

namespace idempotency::service {
namespace {

constexpr char kServiceName[] = "idempotency.v1.IdempotencyService";
constexpr char kAdminServiceName[] = "idempotency.v1.IdempotencyAdminService";
constexpr char kBackupServiceName[] = "idempotency.backup.v1.BackupService";
constexpr char kEngineServiceName[] = "idempotency.engine.v1.EngineService";
constexpr char kTransferServiceName[] = "idempotency.transfer.v1.TransferService";

// Lists that wait for their turn; more are told to come back.
constexpr size_t kMaxQueuedWork = 64;

keystore::KeyStoreOptions StoreOptions(const ConfigHolder* config, bool moves,
                                       const RetirementWatch* retirement) {
  const ServerLimits& limits = config->Get()->limits();
  keystore::KeyStoreOptions options;
  options.max_queued_commands = limits.max_queued_commands;
  options.max_waiters = limits.max_waiters;
  options.max_waiters_per_key = limits.max_waiters_per_key;
  options.may_reclaim = [config, moves, retirement](std::string_view name_space) {
    const bool stays = moves || (retirement != nullptr && retirement->retired());
    return !stays && config->Get()->Accepts(name_space);
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

// gRPC's reflection cannot ask who calls: it is there only where nobody has to prove it.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    const std::string name = grpc::reflection::ProtoServerReflectionPlugin().name();
    std::erase_if(*plugins, [&](const auto& plugin) { return plugin->name() == name; });
  }
};

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
      ruled_access_(parts_.config, parts_.authenticator),
      activity_(parts_.log, parts_.metrics, [this] { OnEngineDead(); }) {}

Server::~Server() { Drain(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerParts parts, ServerOptions options) {
  const absl::StatusOr<std::string> address =
      CheckListenAddress(options.listen, options.protection);
  if (!address.ok()) return address.status();
  PrepareGrpc();
  std::unique_ptr<Server> server(new Server(std::move(parts), std::move(options)));
  if (absl::Status status = server->StartStore(); !status.ok()) return status;
  if (absl::Status status = server->StartListening(); !status.ok()) return status;
  return server;
}

absl::Status Server::StartStore() {
  const bool moves = options_.transfer != TransferMode::kOff;
  if (!moves) retirement_ = std::make_unique<RetirementWatch>(parts_.engine.get(), parts_.log);
  keystore::KeyStoreOptions store_options = StoreOptions(parts_.config, moves, retirement_.get());
  // Whoever only reads may open what was moved away.
  if (options_.transfer != TransferMode::kExport) {
    absl::Status status = keystore::CheckNotRetired(parts_.engine.get());
    if (!status.ok()) return status;
  }
  // Only an import may open what is not whole: a read, too, would say that what is missing is
  // unknown.
  if (options_.transfer != TransferMode::kImport) {
    const absl::StatusOr<core::Time> lost_before = keystore::CheckImported(parts_.engine.get());
    if (!lost_before.ok()) return lost_before.status();
    store_options.lost_before = *lost_before;
  }
  if (parts_.on_admitted) parts_.on_admitted();
  store_ = std::make_unique<keystore::KeyStore>(parts_.engine.get(), parts_.clock, &activity_,
                                                std::move(store_options));
  worker_ = std::make_unique<Worker>(kMaxQueuedWork);
  backups_ = std::make_unique<BackupKeeper>(parts_.engine.get(), parts_.metrics,
                                            options_.backup_dir, options_.backups_kept);
  checker_ = std::make_unique<EngineChecker>(parts_.engine.get(), parts_.clock);
  transfers_ = std::make_unique<TransferKeeper>(parts_.engine.get(), parts_.clock,
                                                options_.transfer, options_.engine_name);
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
  const AccessPolicy* const access = parts_.access != nullptr ? parts_.access : &ruled_access_;
  desk_ = std::make_unique<FrontDesk>(store_.get(), parts_.clock, parts_.config, access, &activity_,
                                      parts_.authenticator, parts_.audit, options_.transfer,
                                      retirement_.get());
  service_ = MakeIdempotencyService(desk_.get(), &pipelines_);
  admin_service_ = MakeAdminService(desk_.get(), worker_.get());
  backup_service_ = MakeBackupService(desk_.get(), backups_.get(), worker_.get());
  engine_service_ = MakeEngineService(desk_.get(), checker_.get());
  transfer_service_ = MakeTransferService(desk_.get(), transfers_.get());
  auto listener = Listener::Open(options_.listen, options_.connections, parts_.log);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(*listener);
  grpc::ServerBuilder builder;
  SetTransportLimits(options_.transport, &builder);
  builder.RegisterService(service_.get());
  builder.RegisterService(admin_service_.get());
  builder.RegisterService(backup_service_.get());
  builder.RegisterService(engine_service_.get());
  builder.RegisterService(transfer_service_.get());
  if (desk_->identifies()) builder.SetOption(std::make_unique<WithoutReflection>());
  listener_->AddTo(&builder, parts_.credentials != nullptr ? parts_.credentials
                                                           : grpc::InsecureServerCredentials());
  grpc_server_ = builder.BuildAndStart();
  if (grpc_server_ == nullptr) {
    return absl::UnavailableError("gRPC does not start; its log says why.");
  }
  health_ = grpc_server_->GetHealthCheckService();
  SetServing(parts_.engine->pressure().alive);
  listener_->Start();
  return absl::OkStatus();
}

ServerReading Server::Read() const {
  return ServerReading{.queued = store_->queued(),
                       .waiters = store_->waiters(),
                       .pending = store_->pending(),
                       .unresolved = store_->unresolved(),
                       .pressure = parts_.engine->pressure(),
                       .store = parts_.engine->stats(),
                       .now = parts_.clock->Read()};
}

void Server::SetServing(bool alive) {
  absl::MutexLock lock(&standing_mutex_);
  alive_ = alive;
  TellHealth();
}

void Server::LookForRetirement() {
  if (retirement_ == nullptr) return;
  const bool was_retired = retirement_->retired();
  retirement_->Look();
  if (retirement_->untold()) (void)worker_->Run([this] { retirement_->Tell(); });
  if (retirement_->retired() == was_retired) return;
  absl::MutexLock lock(&standing_mutex_);
  TellHealth();
}

void Server::TellHealth() {
  // Callers are to go elsewhere, or to wait, while records are moved, and once they were.
  const bool serving = alive_ && retirement_ != nullptr && !retirement_->retired();
  serving_ = serving;
  grpc::HealthCheckServiceInterface* const health = health_.load();
  if (health == nullptr) return;
  for (const char* name :
       {"", kServiceName, kAdminServiceName, kBackupServiceName, kEngineServiceName}) {
    health->SetServingStatus(name, serving);
  }
  health->SetServingStatus(kTransferServiceName, alive_);
}

void Server::OnEngineDead() {
  SetServing(false);
  if (parts_.on_engine_dead) parts_.on_engine_dead();
}

void Server::OnSecond(core::Time now) {
  if (!parts_.engine->pressure().alive) activity_.OnEngineDead();
  LookForRetirement();
  if (parts_.audit != nullptr) parts_.audit->TellUntold();
  // A slow disk must not hold up the timers. What is skipped comes again soon.
  if (parts_.every_second) (void)worker_->Run(parts_.every_second);
  if (options_.clock_mark_path.empty()) return;
  (void)worker_->Run([this, now] {
    const absl::Status status = keystore::ClockMark(options_.clock_mark_path).Store(now);
    if (!status.ok()) activity_.OnClockMarkFailed(std::string(status.message()));
  });
}

void Server::Drain() {
  if (std::exchange(drained_, true)) return;
  SetServing(false);
  if (backups_ != nullptr) backups_->Stop();
  if (checker_ != nullptr) checker_->Stop();
  if (transfers_ != nullptr) transfers_->Stop();
  if (store_ != nullptr) store_->Drain();
  pipelines_.Drain();
  if (desk_ != nullptr) desk_->calls()->AwaitNone(options_.shutdown_timeout);
  if (listener_ != nullptr) listener_->Stop();
  // All that is left are idle connections and those who watch health.
  if (grpc_server_ != nullptr) grpc_server_->Shutdown(After(kCloseTimeout));
  // By now nobody but the timers can find that the engine has died.
  if (ticker_ != nullptr) ticker_->Stop();
  worker_.reset();
  checker_.reset();
  health_ = nullptr;
  grpc_server_.reset();
}

}  // namespace idempotency::service
