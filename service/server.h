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

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"
#include "keystore/clock.h"
#include "keystore/engine/engine.h"
#include "keystore/key_store.h"
#include "service/access.h"
#include "service/activity.h"
#include "service/config.h"
#include "service/front/front_desk.h"
#include "service/front/pipeline_call.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/ticker.h"
#include "service/worker.h"

namespace idempotency::service {

struct ServerParts {
  std::unique_ptr<keystore::Engine> engine;
  // All must outlive the server.
  keystore::Clock* clock = nullptr;
  const ConfigHolder* config = nullptr;
  Log* log = nullptr;
  Metrics* metrics = nullptr;
  // Who may do what; null: whoever can connect, everything.
  const AccessPolicy* access = nullptr;
  // Called once where the engine has died: the process should exit. Must not block.
  std::function<void()> on_engine_dead;
};

struct ServerOptions {
  // As CheckListenAddress allows; port 0 picks a free one.
  std::string listen = "127.0.0.1:7420";
  // Where the high-water mark of the clock is kept; empty: nowhere.
  std::string clock_mark_path;
  // How long calls may take to leave when the service stops.
  absl::Duration shutdown_timeout = absl::Seconds(5);
};

// Thread safety: all methods may be called from any thread, Drain from one at a time.
class Server {
 public:
  // INVALID_ARGUMENT for an address that is not allowed; UNAVAILABLE where the store cannot be
  // read or the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerParts parts, ServerOptions options);

  // Drains, if nobody has yet.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // What it listens on; 0 for a Unix socket.
  int port() const { return port_; }

  // Something has changed that the timers cannot know, such as a test's clock.
  void WakeTimers() { ticker_->Wake(); }

  // Stops, in this order: health says NOT_SERVING, waiters are answered, what was accepted is
  // finished, pipelines end, connections close.
  void Drain();

  keystore::KeyStore* store() { return store_.get(); }

 private:
  Server(ServerParts parts, ServerOptions options);

  absl::Status StartStore();
  absl::Status StartListening();
  void SetServing(bool serving);
  void OnEngineDead();
  void OnSecond(core::Time now);

  ServerParts parts_;
  const ServerOptions options_;
  const AllowAll allow_all_;
  Activity activity_;
  std::unique_ptr<keystore::KeyStore> store_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Ticker> ticker_;
  std::unique_ptr<FrontDesk> desk_;
  PipelineRegistry pipelines_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Service> admin_service_;
  std::unique_ptr<grpc::Server> grpc_server_;
  // Of grpc_server_; null while there is none.
  std::atomic<grpc::HealthCheckServiceInterface*> health_{nullptr};
  int port_ = 0;
  bool drained_ = false;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_SERVER_H_
