#include "service/listener/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace idempotency::service {
namespace {

PeerAddress OfV4(const in_addr& host, in_port_t port) {
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &host, text, sizeof(text));
  return PeerAddress{text, absl::StrCat("ipv4:", text, ":", ntohs(port))};
}

PeerAddress OfV6(const sockaddr_in6& address) {
  // A socket for both families shows IPv4 peers in IPv6 clothes.
  if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
    in_addr v4{};
    std::memcpy(&v4, &address.sin6_addr.s6_addr[12], sizeof(v4));
    return OfV4(v4, address.sin6_port);
  }
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof(text));
  in6_addr network = address.sin6_addr;
  std::memset(&network.s6_addr[8], 0, 8);
  char network_text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, &network, network_text, sizeof(network_text));
  return PeerAddress{absl::StrCat(network_text, "/64"),
                     absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(address.sin6_port))};
}

}  // namespace

PeerAddress PeerAddressOf(int socket, const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return OfV4(v4.sin_addr, v4.sin_port);
  }
  if (address.ss_family == AF_INET6) return OfV6(reinterpret_cast<const sockaddr_in6&>(address));
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {"unix", {}};
  return PeerAddress{absl::StrCat("user ", credentials.uid), {}};
}

}  // namespace idempotency::service
