#include "service/listener/bytes_received.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

namespace idempotency::service {

std::optional<SocketBytes> CountBytes(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_notsent_bytes) + sizeof(info.tcpi_notsent_bytes)) {
    return std::nullopt;
  }
  // Asked afterwards: what comes in between makes it less, and nobody is blamed for it.
  int unread = 0;
  if (ioctl(socket, FIONREAD, &unread) != 0 || unread < 0) return std::nullopt;
  const uint64_t received = info.tcpi_bytes_received;
  return SocketBytes{.received = received - std::min(received, static_cast<uint64_t>(unread)),
                     .acknowledged = info.tcpi_bytes_acked,
                     .unsent = info.tcpi_notsent_bytes};
}

}  // namespace idempotency::service
