#include "service/listen_address.h"

#include <arpa/inet.h>

#include <cstdint>
#include <optional>

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

absl::Status Unencrypted(std::string_view address) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen=", std::string(address),
      " can be reached from other machines, and nothing would be encrypted: set up TLS by "
      "tls.certificate_file and tls.private_key_file in the file of --config, or listen on "
      "127.0.0.1, [::1] or unix:/path. For development, --allow_plaintext goes without."));
}

absl::Status Anonymous(std::string_view address) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen=", std::string(address),
      " can be reached from other machines, and whoever can connect could do everything: set "
      "tls.client_ca_file, identity.tokens_file or identity.jwt_issuers in the file of --config, "
      "or listen on 127.0.0.1, [::1] or unix:/path. Where the network alone decides who may, "
      "--allow_anonymous goes without."));
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

// Of host:port; nothing where it is not that.
std::optional<std::string> HostOf(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || !IsPort(address.substr(colon + 1))) return std::nullopt;
  std::string host(address.substr(0, colon));
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) return host.substr(1, host.size() - 2);
  // A bare IPv6 address does not say where its port begins.
  if (host.find(':') != std::string::npos) return std::nullopt;
  return host;
}

}  // namespace

absl::StatusOr<std::string> CheckListenAddress(std::string_view address,
                                               const Protection& protection) {
  if (address.substr(0, kUnixPrefix.size()) == kUnixPrefix) {
    if (address.size() == kUnixPrefix.size()) return Malformed(address);
    return std::string(address);
  }
  const std::optional<std::string> host = HostOf(address);
  if (!host) return Malformed(address);
  if (IsLoopback(*host)) return std::string(address);
  if (!protection.tls && !protection.allow_plaintext) return Unencrypted(address);
  if (!protection.identity && !protection.allow_anonymous && !protection.allow_plaintext) {
    return Anonymous(address);
  }
  return std::string(address);
}

bool IsLocalAddress(std::string_view address) {
  if (address.substr(0, kUnixPrefix.size()) == kUnixPrefix) return true;
  const std::optional<std::string> host = HostOf(address);
  return host && IsLoopback(*host);
}

}  // namespace idempotency::service
