// Where the service may listen without authenticating anybody.
#ifndef IDEMPOTENCY_SERVICE_LISTEN_ADDRESS_H_
#define IDEMPOTENCY_SERVICE_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace idempotency::service {

// The address as gRPC takes it. INVALID_ARGUMENT, with what to do, for anything but a loopback
// address with a port ("127.0.0.1:7420", "[::1]:0", "localhost:7420") or a Unix socket
// ("unix:/run/idempotencyd.sock"): whoever can connect may do everything, and nothing is
// encrypted.
absl::StatusOr<std::string> CheckListenAddress(std::string_view address);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTEN_ADDRESS_H_
