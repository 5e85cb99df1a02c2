// Where the service may listen, as far as connections are protected.
#ifndef IDEMPOTENCY_SERVICE_LISTEN_ADDRESS_H_
#define IDEMPOTENCY_SERVICE_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace idempotency::service {

// What protects those who connect, and what an operator has said in so many words.
struct Protection {
  bool tls = false;
  bool identity = false;         // callers have to prove who they are
  bool allow_plaintext = false;  // for development
  bool allow_anonymous = false;
};

// The address as gRPC takes it: host and port ("127.0.0.1:7420", "[::1]:0", "localhost:7420",
// "0.0.0.0:7420") or a Unix socket ("unix:/run/idempotencyd.sock"). INVALID_ARGUMENT, with what to
// do, for anything else; and where other machines can reach it, unless connections are encrypted
// and callers prove who they are, or the operator has said that it may be without.
absl::StatusOr<std::string> CheckListenAddress(std::string_view address,
                                               const Protection& protection = {});

// Whether only this machine can reach it; the address is one that CheckListenAddress takes.
bool IsLocalAddress(std::string_view address);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTEN_ADDRESS_H_
