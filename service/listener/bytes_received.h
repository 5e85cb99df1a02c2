// What the kernel counts of a connection. By itself, since its header and the C library's exclude
// each other.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_BYTES_RECEIVED_H_
#define IDEMPOTENCY_SERVICE_LISTENER_BYTES_RECEIVED_H_

#include <cstdint>
#include <optional>

namespace idempotency::service {

// Of a TCP connection, since it began.
struct SocketBytes {
  // What gRPC has taken of it; at times a little less, so that it may fall.
  uint64_t received = 0;
  uint64_t acknowledged = 0;  // of what was sent: the peer has it
  uint64_t unsent = 0;        // what is to be sent, and the peer has no room for yet

  friend bool operator==(const SocketBytes&, const SocketBytes&) = default;
};

// Nothing for other sockets.
std::optional<SocketBytes> CountBytes(int socket);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_BYTES_RECEIVED_H_
