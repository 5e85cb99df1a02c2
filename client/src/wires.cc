#include "client/src/wires.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "client/src/service_config.h"
#include "client/src/status.h"

namespace idempotency::internal {
namespace {

constexpr char kReasonTrailer[] = "idempotency-reason";

// The service takes a ping every 10 s. A connection that was cut without a word is noticed after
// the two together, while calls are on it.
constexpr int kKeepaliveTimeMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// A service that was away for long is found again soon.
constexpr int kFirstReconnectMs = 100;
constexpr int kLastReconnectMs = 5'000;

thread_local bool in_reaction = false;

// Far enough, and far from overflow.
constexpr Duration kLongestSpan = std::chrono::hours(24 * 365);

std::shared_ptr<grpc::ChannelCredentials> Credentials(const ConnectionOptions& options) {
  if (!options.tls.has_value()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = options.tls->root_certificates;
  ssl.pem_cert_chain = options.tls->client_certificate_chain;
  ssl.pem_private_key = options.tls->client_private_key;
  return grpc::SslCredentials(ssl);
}

std::shared_ptr<grpc::Channel> MakeChannel(const ConnectionOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(std::string(ServiceConfig()));
  // Nobody else's, by way of the resolver.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetUserAgentPrefix("idempotency-cpp/" IDEMPOTENCY_VERSION);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastReconnectMs);
  // The service is named outright; a proxy for the web has no part in it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.tls.has_value() && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  return grpc::CreateCustomChannel(options.target, Credentials(options), arguments);
}

std::string_view Trailer(const grpc::ClientContext& context, const char* name) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(name);
  if (found == trailers.end()) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace

gpr_timespec FromNow(Duration span) {
  return gpr_time_from_millis(std::clamp(span, Duration(0), kLongestSpan).count(), GPR_TIMESPAN);
}

gpr_timespec MonotonicDeadline(Duration span) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), FromNow(span));
}

Duration Until(gpr_timespec monotonic_deadline) {
  const gpr_timespec left = gpr_time_sub(monotonic_deadline, gpr_now(GPR_CLOCK_MONOTONIC));
  return Duration(gpr_time_to_millis(left));
}

InReaction::InReaction() : before_(std::exchange(in_reaction, true)) {}
InReaction::~InReaction() { in_reaction = before_; }
bool InReaction::Here() { return in_reaction; }

std::shared_ptr<const Wires> Wires::Make(ConnectionOptions options) {
  return std::shared_ptr<const Wires>(new Wires(std::move(options)), &Wires::Delete);
}

void Wires::Delete(const Wires* wires) {
  if (!InReaction::Here()) {
    delete wires;
    return;
  }
  std::thread([wires] { delete wires; }).detach();
}

Wires::Wires(ConnectionOptions options)
    : bearer_token_(std::move(options.bearer_token)),
      exposed_(!options.tls.has_value() && !IsLocalTarget(options.target)) {
  const std::shared_ptr<grpc::Channel> channel = MakeChannel(options);
  service_ = v1::IdempotencyService::NewStub(channel);
  admin_ = v1::IdempotencyAdminService::NewStub(channel);
}

absl::Status Wires::Prepare(grpc::ClientContext* context) const {
  if (!bearer_token_) return absl::OkStatus();
  if (exposed_) {
    return absl::FailedPreconditionError(
        "a bearer token is not sent in plain text over a network: set ConnectionOptions::tls, or "
        "connect to a loopback address or a Unix socket");
  }
  context->AddMetadata("authorization", "Bearer " + bearer_token_());
  return absl::OkStatus();
}

absl::Status Wires::Prepare(grpc::ClientContext* context, Duration timeout) const {
  context->set_deadline(FromNow(timeout));
  return Prepare(context);
}

absl::Status StatusOf(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  return ToStatus(status.error_code(), status.error_message(), status.error_details(),
                  Trailer(context, kReasonTrailer));
}

}  // namespace idempotency::internal
