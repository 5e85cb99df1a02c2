// A running service: key store, engine, timers and the gRPC server that is in front of them.
//
//   auto server = Server::Start(std::move(parts), options);
//   ...
//   (*server)->Drain();   // at SIGTERM; then it may be destroyed
//
// What it is made of comes from outside, so that a test runs the very same service on a manual
// clock and an engine of its own.
#ifndef IDEMPOTENCY_SERVICE_SERVER_H_
#define IDEMPOTENCY_SERVICE_SERVER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "keystore/clock.h"
#include "keystore/engine/engine.h"
#include "keystore/key_store.h"
#include "service/access.h"
#include "service/activity.h"
#include "service/audit_log.h"
#include "service/backup_keeper.h"
#include "service/config.h"
#include "service/engine_checker.h"
#include "service/front/front_desk.h"
#include "service/front/pipeline_call.h"
#include "service/identity/authenticator.h"
#include "service/listen_address.h"
#include "service/listener/listener.h"
#include "service/listener/transport_limits.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/retirement_watch.h"
#include "service/ruled_access.h"
#include "service/ticker.h"
#include "service/transfer_keeper.h"
#include "service/transfer_mode.h"
#include "service/worker.h"

namespace idempotency::service {

struct ServerParts {
  std::unique_ptr<keystore::Engine> engine;
  // All must outlive the server.
  keystore::Clock* clock = nullptr;
  const ConfigHolder* config = nullptr;
  Log* log = nullptr;
  Metrics* metrics = nullptr;
  // Who may do what; null: by the rules of the configuration, where callers have to prove who they
  // are, and everybody everything where not.
  const AccessPolicy* access = nullptr;
  // Who calls; null: nobody has to prove who they are.
  const Authenticator* authenticator = nullptr;
  // Where administrative acts and denials are written; null: nowhere.
  AuditLog* audit = nullptr;
  // How connections are protected; null: plaintext.
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // Called once the store was found fit to be opened so, before anything is asked of it: what has
  // expired may go from now on. Whoever is refused before must have changed nothing.
  std::function<void()> on_admitted;
  // Called about once a second, on a thread that may block for a while; null: not at all.
  std::function<void()> every_second;
  // Called once where the engine has died: the process should exit. Must not block.
  std::function<void()> on_engine_dead;
};

struct ServerOptions {
  // As CheckListenAddress allows; port 0 picks a free one.
  std::string listen = "127.0.0.1:7420";
  Protection protection;
  ConnectionLimits connections;
  TransportLimits transport;
  // Where the high-water mark of the clock is kept; empty: nowhere.
  std::string clock_mark_path;
  // Where backups are taken to, and how many are kept; empty: none are taken.
  std::string backup_dir;
  size_t backups_kept = 7;
  // Not off: callers are told to come back later, and health says so.
  TransferMode transfer = TransferMode::kOff;
  // What --engine calls the engine; told with what is exported.
  std::string engine_name;
  // How long calls may take to leave when the service stops.
  absl::Duration shutdown_timeout = absl::Seconds(5);
};

// How it stands at one moment.
struct ServerReading {
  size_t queued = 0;
  size_t waiters = 0;
  size_t pending = 0;
  std::vector<keystore::UnresolvedCount> unresolved;
  keystore::Pressure pressure;
  keystore::StoreStats store;
  core::Now now;
};

// Thread safety: all methods may be called from any thread, Drain from one at a time.
class Server {
 public:
  // INVALID_ARGUMENT for an address that is not allowed; UNAVAILABLE where the store cannot be
  // read or the address cannot be listened on; FAILED_PRECONDITION where it is to be served and is
  // only a part of what was being imported.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerParts parts, ServerOptions options);

  // Drains, if nobody has yet.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // What it listens on; 0 for a Unix socket.
  int port() const { return listener_->port(); }
  // Connections, those that were refused among them.
  Listener::Counts connections() const { return listener_->counts(); }

  // Something has changed that the timers cannot know, such as a test's clock.
  void WakeTimers() { ticker_->Wake(); }

  // Stops, in this order: health says NOT_SERVING, waiters are answered, what was accepted is
  // finished, pipelines end, connections close.
  void Drain();

  keystore::KeyStore* store() { return store_.get(); }

  // What gRPC's health service says: not while records are moved, nor where the store was retired.
  bool serving() const { return serving_; }
  // For metrics: about as often as they are scraped.
  ServerReading Read() const;

 private:
  Server(ServerParts parts, ServerOptions options);

  absl::Status StartStore();
  absl::Status StartListening();
  void SetServing(bool alive) ABSL_LOCKS_EXCLUDED(standing_mutex_);
  void LookForRetirement() ABSL_LOCKS_EXCLUDED(standing_mutex_);
  // Tells health how it stands.
  void TellHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(standing_mutex_);
  void OnEngineDead();
  void OnSecond(core::Time now);

  ServerParts parts_;
  const ServerOptions options_;
  const RuledAccess ruled_access_;
  Activity activity_;
  std::unique_ptr<keystore::KeyStore> store_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<BackupKeeper> backups_;
  std::unique_ptr<EngineChecker> checker_;
  std::unique_ptr<TransferKeeper> transfers_;
  // Null while records are moved: then the store may be a retired one.
  std::unique_ptr<RetirementWatch> retirement_;
  std::unique_ptr<Ticker> ticker_;
  std::unique_ptr<FrontDesk> desk_;
  PipelineRegistry pipelines_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Service> admin_service_;
  std::unique_ptr<grpc::Service> backup_service_;
  std::unique_ptr<grpc::Service> engine_service_;
  std::unique_ptr<grpc::Service> transfer_service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<grpc::Server> grpc_server_;
  // Of grpc_server_; null while there is none.
  std::atomic<grpc::HealthCheckServiceInterface*> health_{nullptr};
  std::atomic<bool> serving_{false};
  // So that what is told last is what is so.
  absl::Mutex standing_mutex_;
  bool alive_ ABSL_GUARDED_BY(standing_mutex_) = false;
  bool drained_ = false;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_SERVER_H_
