#include "service/listen_address.h"

#include <arpa/inet.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace idempotency::service {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr uint32_t kMaxPort = 65535;

absl::Status Malformed(std::string_view address) {
  return absl::InvalidArgumentError(
      absl::StrCat("--listen=", std::string(address),
                   " is not an address; use host:port, such as 127.0.0.1:7420, or unix:/path."));
}

absl::Status NotLoopback(std::string_view address) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen=", std::string(address),
      " can be reached from other machines, and this version speaks plaintext and authenticates "
      "nobody; listen on 127.0.0.1, [::1] or unix:/path, and put a proxy with TLS in front to "
      "serve others."));
}

bool IsPort(std::string_view text) {
  uint32_t port = 0;
  return absl::SimpleAtoi(std::string(text), &port) && port <= kMaxPort;
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace

absl::StatusOr<std::string> CheckListenAddress(std::string_view address) {
  if (address.substr(0, kUnixPrefix.size()) == kUnixPrefix) {
    if (address.size() == kUnixPrefix.size()) return Malformed(address);
    return std::string(address);
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || !IsPort(address.substr(colon + 1))) {
    return Malformed(address);
  }
  std::string host(address.substr(0, colon));
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  // A bare IPv6 address does not say where its port begins.
  if (!bracketed && host.find(':') != std::string::npos) return Malformed(address);
  if (!IsLoopback(host)) return NotLoopback(address);
  return std::string(address);
}

}  // namespace idempotency::service
