// The sockets that an address stands for, bound and listening.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_LISTEN_SOCKETS_H_
#define IDEMPOTENCY_SERVICE_LISTENER_LISTEN_SOCKETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/listener/unique_fd.h"

namespace idempotency::service {

struct ListenSockets {
  // A name may stand for several addresses. Not blocking, closed in child processes.
  std::vector<UniqueFd> sockets;
  // The same for all; 0 for a Unix socket.
  int port = 0;
  // Of a Unix socket: the file to remove at the end. Empty: none.
  std::string path;
};

// `address` is host:port ([host]:port for IPv6; port 0 picks a free one) or unix:/path, and was
// checked before. UNAVAILABLE, with what the system says, where it cannot be listened on; also
// where only some of a name's addresses are taken, since two services would then share a name.
absl::StatusOr<ListenSockets> OpenListenSockets(const std::string& address);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_LISTEN_SOCKETS_H_
