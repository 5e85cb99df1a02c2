// The whole service inside the test: a real server on a free loopback port, real clients, a
// manual clock, and the engine that the suite is run on (suite_store.h) unless the test brings
// another.
//
//   ServiceFixture service;
//   auto reserved = service.Call(&Api::Reserve, request);
//   EXPECT_TRUE(reserved.status.ok());
//   service.Advance(seconds(30));          // time passes, and what is due happens
//
// Thread safety: Call, Advance and the accessors may be used from any thread.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_SERVICE_FIXTURE_H_
#define IDEMPOTENCY_TESTS_SUPPORT_SERVICE_FIXTURE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "keystore/clock.h"
#include "keystore/engine/engine.h"
#include "service/access.h"
#include "service/config.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/server.h"
#include "tests/support/server_process.h"
#include "tests/support/suite_store.h"

namespace idempotency::testing {

using Api = v1::IdempotencyService::Stub;
using AdminApi = v1::IdempotencyAdminService::Stub;

// How a call ended, with what its trailers say.
template <typename Response>
struct CallResult {
  grpc::Status status;
  Response response;
  std::string reason;           // the trailer idempotency-reason
  google::rpc::Status details;  // of the trailer grpc-status-details-bin

  // The detail of this kind, or an empty one.
  template <typename Detail>
  Detail Find() const {
    Detail detail;
    for (const auto& any : details.details()) {
      if (any.template Is<Detail>()) any.UnpackTo(&detail);
    }
    return detail;
  }
};

template <typename Response>
CallResult<Response> ReadResult(const grpc::Status& status, const grpc::ClientContext& context,
                                Response response) {
  CallResult<Response> result{status, std::move(response), {}, {}};
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto reason = trailers.find("idempotency-reason"); reason != trailers.end()) {
    result.reason = std::string(reason->second.data(), reason->second.size());
  }
  result.details.ParseFromString(status.error_details());
  return result;
}

class ServiceFixture {
 public:
  struct Options {
    std::string config;    // YAML; empty: the built-in configuration
    std::string data_dir;  // not empty: RocksDB in this directory, which survives Restart
    // What is stored survives Restart, whatever the suite is run on: RocksDB in place of memory.
    bool durable = false;
    // Not empty: in memory, whatever the suite is run on, since no other engine does what the test
    // is about. Says what that is.
    std::string in_memory_because;
    // Makes the engine, instead of all of the above.
    std::function<std::unique_ptr<keystore::Engine>()> engine;
    const service::AccessPolicy* access = nullptr;
    // Changes what the service is made of, such as who has to prove who they are.
    std::function<void(service::ServerParts*)> adjust;
    service::TransferMode transfer = service::TransferMode::kOff;
    // unix:/path, or a loopback address.
    std::string listen = "127.0.0.1:0";
    // Of the fixture's own calls; null: plaintext.
    std::shared_ptr<grpc::ChannelCredentials> channel_credentials;
    int log_fd = 2;
    service::LogLevel log_level = service::LogLevel::kError;
  };

  ServiceFixture() : ServiceFixture(Options{}) {}
  explicit ServiceFixture(Options options);
  ~ServiceFixture();

  // A new server, and a new engine on the same directory.
  void Restart();
  void Stop();

  // Time passes, and the timers look at it.
  void Advance(core::Duration span);

  template <typename Stub, typename Request, typename Response>
  CallResult<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                         Response*),
                            const Request& request) {
    grpc::ClientContext context;
    Response response;
    const grpc::Status status = (StubOf<Stub>().*method)(&context, request, &response);
    return ReadResult(status, context, std::move(response));
  }

  Api* api() { return api_.get(); }
  AdminApi* admin() { return admin_.get(); }
  std::shared_ptr<grpc::Channel> NewChannel() const;
  std::shared_ptr<grpc::Channel> NewChannel(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const;

  keystore::ManualClock* clock() { return &clock_; }
  service::Server* server() { return server_.get(); }
  const service::CountingMetrics& metrics() const { return metrics_; }
  service::ConfigHolder* config() { return config_.get(); }
  // Rewrites the configuration file and reloads it.
  absl::Status Reconfigure(const std::string& yaml);
  bool engine_dead() const { return engine_dead_; }
  // What the engine says of itself.
  const keystore::Traits& traits() const { return traits_; }

 private:
  template <typename Stub>
  Stub& StubOf() {
    if constexpr (std::is_same_v<Stub, Api>) {
      return *api_;
    } else {
      return *admin_;
    }
  }
  void Start();
  // As --engine would name it. That of an engine which the test brings is nobody's concern.
  std::string EngineName() const;
  std::unique_ptr<keystore::Engine> MakeEngine();

  const Options options_;
  TempDirectory directory_;
  std::optional<SuiteStore> store_;
  keystore::Traits traits_;
  keystore::ManualClock clock_;
  service::Log log_;
  service::CountingMetrics metrics_;
  std::atomic<bool> engine_dead_{false};
  std::unique_ptr<service::ConfigHolder> config_;
  std::unique_ptr<service::Server> server_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<AdminApi> admin_;
};

// Returns when the condition holds; it is to become so by what other threads do.
inline void AwaitTrue(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::yield();
}

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_SERVICE_FIXTURE_H_
