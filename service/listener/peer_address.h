// Who is at the other end of a connection, as far as the kernel knows.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_PEER_ADDRESS_H_
#define IDEMPOTENCY_SERVICE_LISTENER_PEER_ADDRESS_H_

#include <sys/socket.h>

#include <string>

namespace idempotency::service {

struct PeerAddress {
  // Whose connections are counted together: the address; of IPv6 the first 64 bits, which is what
  // one machine may have; of a Unix socket the user.
  std::string peer;
  // What gRPC calls the connection, such as "ipv4:127.0.0.1:34567". Empty where gRPC has the same
  // name for all, as on Unix sockets.
  std::string connection;
};

// `socket` is the accepted connection, `address` what accept said.
PeerAddress PeerAddressOf(int socket, const sockaddr_storage& address);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_PEER_ADDRESS_H_
