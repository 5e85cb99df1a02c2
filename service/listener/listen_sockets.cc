#include "service/listener/listen_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace idempotency::service {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
// What the kernel takes in for gRPC before it is read. gRPC 1.51 answers nobody on a thread as long
// as there is more to read on its connection: so much may pile up, and no more.
constexpr int kReceiveBufferBytes = 64 * 1024;
// Connections that the kernel keeps until they are accepted; it has a bound of its own.
constexpr int kBacklog = 4096;
// A peer that takes nothing for so long while something is on its way to it has gone.
constexpr int kUserTimeoutMs = 20'000;

std::string SystemSays(int error) { return std::strerror(error); }

absl::Status CannotListen(const std::string& address, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, " (", why,
                   "); stop what listens there, or choose another --listen."));
}

UniqueFd NewSocket(int family) {
  return UniqueFd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void Set(const UniqueFd& socket, int level, int option, int value) {
  // What cannot be set is a convenience less: nothing that depends on it would be wrong.
  (void)setsockopt(socket.get(), level, option, &value, sizeof(value));
}

int PortOf(const UniqueFd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const bool is_v6 = address.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                     : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

void SetPort(addrinfo* info, int port) {
  if (info->ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(info->ai_addr)->sin6_port = htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in*>(info->ai_addr)->sin_port = htons(static_cast<uint16_t>(port));
  }
}

// Accepted connections inherit what is set here.
void SetTcpOptions(const UniqueFd& socket, int family) {
  Set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  Set(socket, SOL_SOCKET, SO_RCVBUF, kReceiveBufferBytes);
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  // [::] is everything, as gRPC's own listeners take it.
  if (family == AF_INET6) Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
}

std::optional<int> Listen(UniqueFd socket, const sockaddr* address, socklen_t size,
                          ListenSockets* out) {
  if (!socket.ok() || bind(socket.get(), address, size) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return errno;
  }
  out->sockets.push_back(std::move(socket));
  return std::nullopt;
}

// A machine without IPv6 still has names that stand for IPv6 addresses.
bool IsAbsentHere(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

absl::StatusOr<ListenSockets> OpenTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return CannotListen(address, "it names no port");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  ListenSockets out;
  int last_error = EADDRNOTAVAIL;
  for (addrinfo* info = found; info != nullptr; info = info->ai_next) {
    // All addresses of a name have one port.
    if (out.port != 0) SetPort(info, out.port);
    UniqueFd socket = NewSocket(info->ai_family);
    SetTcpOptions(socket, info->ai_family);
    const auto failed = Listen(std::move(socket), info->ai_addr, info->ai_addrlen, &out);
    if (failed) last_error = *failed;
    if (failed && !IsAbsentHere(*failed)) return CannotListen(address, SystemSays(*failed));
    if (!failed) out.port = PortOf(out.sockets.back());
  }
  if (out.sockets.empty()) return CannotListen(address, SystemSays(last_error));
  return out;
}

// A socket that nobody listens on any more is what a killed process leaves.
bool IsAbandoned(const sockaddr_un& address) {
  struct stat status {};
  if (lstat(address.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const UniqueFd socket = NewSocket(AF_UNIX);
  return connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno == ECONNREFUSED;
}

absl::StatusOr<ListenSockets> OpenUnix(const std::string& address) {
  const std::string path = address.substr(kUnixPrefix.size());
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) {
    return CannotListen(address, absl::StrCat("a path of a Unix socket has at most ",
                                              sizeof(name.sun_path) - 1, " bytes"));
  }
  std::copy(path.begin(), path.end(), name.sun_path);
  if (IsAbandoned(name)) unlink(name.sun_path);
  ListenSockets out;
  const auto failed =
      Listen(NewSocket(AF_UNIX), reinterpret_cast<const sockaddr*>(&name), sizeof(name), &out);
  if (failed) return CannotListen(address, SystemSays(*failed));
  out.path = path;
  return out;
}

}  // namespace

absl::StatusOr<ListenSockets> OpenListenSockets(const std::string& address) {
  const bool is_unix = address.compare(0, kUnixPrefix.size(), kUnixPrefix) == 0;
  return is_unix ? OpenUnix(address) : OpenTcp(address);
}

}  // namespace idempotency::service
