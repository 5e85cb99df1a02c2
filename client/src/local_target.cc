#include "client/src/local_target.h"

namespace idempotency::internal {
namespace {

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

}  // namespace

bool IsLocalTarget(std::string_view target) {
  if (StartsWith(target, "unix:") || StartsWith(target, "unix-abstract:")) return true;
  // A list of addresses, of which any may be elsewhere.
  if (target.find(',') != std::string_view::npos) return false;
  for (const std::string_view scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (StartsWith(target, scheme)) target.remove_prefix(scheme.size());
  }
  if (target == "localhost" || StartsWith(target, "localhost:")) return true;
  if (target == "::1" || StartsWith(target, "[::1]")) return true;
  // 127.0.0.1, and not a name such as 127.example.org.
  const std::string_view host = target.substr(0, target.find(':'));
  return StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace idempotency::internal
