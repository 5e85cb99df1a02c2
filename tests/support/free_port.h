// Ports for programs that cannot be told to choose one themselves, or that come back on the same.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_FREE_PORT_H_
#define IDEMPOTENCY_TESTS_SUPPORT_FREE_PORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace idempotency {

// Below those that Linux gives to outgoing connections (ip_local_port_range): of these any may be
// taken at any moment, also by whoever tries to reach a server that is down.
inline constexpr int kFirstFreePort = 10'000;
inline constexpr int kFreePorts = 22'000;
// Tests that run at the same time begin this far apart.
inline constexpr int kPortsOfOneProcess = 97;

inline bool IsFreePort(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return is_free;
}

// A port of 127.0.0.1 that nobody listened on a moment ago, and that this process has not been
// given before.
inline int FreePort() {
  static std::atomic<int> given{0};
  for (int i = 0; i < kFreePorts; ++i) {
    const int64_t place = int64_t{getpid()} * kPortsOfOneProcess + given++;
    const int port = kFirstFreePort + static_cast<int>(place % kFreePorts);
    if (IsFreePort(port)) return port;
  }
  std::fprintf(stderr, "no port of 127.0.0.1 is free\n");
  std::abort();
}

}  // namespace idempotency

#endif  // IDEMPOTENCY_TESTS_SUPPORT_FREE_PORT_H_
