// What gRPC itself bounds on each connection, and in all.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_TRANSPORT_LIMITS_H_
#define IDEMPOTENCY_SERVICE_LISTENER_TRANSPORT_LIMITS_H_

#include "absl/time/time.h"
#include "grpcpp/server_builder.h"
#include "service/listener/peer_limits.h"

namespace idempotency::service {

struct TransportLimits {
  int max_streams_per_connection = int{kMaxStreamsPerConnection};
  int max_metadata_bytes = int{kMaxHeaderListBytes};
  // For TLS and HTTP/2 to be set up.
  absl::Duration handshake_timeout = absl::Seconds(10);
  // A connection without calls is closed after this; zero: never.
  absl::Duration max_connection_idle = absl::Minutes(30);
  // Every connection is told to go after this, more or less a tenth; zero: never. Its calls may
  // go on for max_connection_age_grace.
  absl::Duration max_connection_age = absl::Hours(2);
  absl::Duration max_connection_age_grace = absl::Minutes(2);
  // A peer that says nothing for so long is asked, and closed where it does not answer.
  absl::Duration keepalive = absl::Minutes(2);
  // Who pings oftener than this, three times, is closed.
  absl::Duration min_ping_interval = absl::Seconds(10);
};

void SetTransportLimits(const TransportLimits& limits, grpc::ServerBuilder* builder);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_TRANSPORT_LIMITS_H_
