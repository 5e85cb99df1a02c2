#include "service/listener/transport_limits.h"

#include <cstddef>

#include "grpc/grpc.h"
#include "grpcpp/resource_quota.h"
#include "keystore/core/limits.h"

namespace idempotency::service {
namespace {

// What all connections together may hold in buffers.
constexpr size_t kTransportMemoryBytes = size_t{512} * 1024 * 1024;
// Taken from a connection at once. Every call in it is begun before anything else is done for that
// connection, and a call may be 24 bytes and take 20 KiB: 13 MiB. gRPC would take 4 MiB at once.
constexpr int kMaxReadBytes = 16 * 1024;
// For the answer to a keepalive.
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(20);
// Pings that come too soon before the connection is closed.
constexpr int kMaxPingStrikes = 2;

void Set(grpc::ServerBuilder* builder, const char* name, absl::Duration span) {
  builder->AddChannelArgument(name, static_cast<int>(absl::ToInt64Milliseconds(span)));
}

}  // namespace

void SetTransportLimits(const TransportLimits& limits, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(core::kMaxReceiveMessageBytes));
  builder->SetMaxSendMessageSize(static_cast<int>(core::kMaxSendMessageBytes));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.max_streams_per_connection);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, limits.max_metadata_bytes);
  builder->AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMaxReadBytes);
  // Windows stay small, so that little is left unfinished. Over long distances the receive buffer
  // (listen_sockets.cc) bounds what is on its way all the same.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  Set(builder, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, limits.handshake_timeout);
  if (limits.max_connection_idle > absl::ZeroDuration()) {
    Set(builder, GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits.max_connection_idle);
  }
  if (limits.max_connection_age > absl::ZeroDuration()) {
    Set(builder, GRPC_ARG_MAX_CONNECTION_AGE_MS, limits.max_connection_age);
    Set(builder, GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, limits.max_connection_age_grace);
  }
  Set(builder, GRPC_ARG_KEEPALIVE_TIME_MS, limits.keepalive);
  Set(builder, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeout);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kMaxPingStrikes);
  Set(builder, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, limits.min_ping_interval);
  // What gRPC needs to count for each connection (call_counter.h).
  builder->AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);
  grpc::ResourceQuota quota("idempotencyd");
  quota.Resize(kTransportMemoryBytes);
  builder->SetResourceQuota(quota);
}

}  // namespace idempotency::service
