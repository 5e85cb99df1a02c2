#include "service/listener/bytes_received.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace idempotency::service {

std::optional<SocketBytes> CountBytes(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_notsent_bytes) + sizeof(info.tcpi_notsent_bytes)) {
    return std::nullopt;
  }
  return SocketBytes{.received = info.tcpi_bytes_received,
                     .acknowledged = info.tcpi_bytes_acked,
                     .unsent = info.tcpi_notsent_bytes};
}

}  // namespace idempotency::service
