// The text of client/service_config.json, compiled in (run.cmake makes the source).
#ifndef IDEMPOTENCY_CLIENT_SRC_SERVICE_CONFIG_H_
#define IDEMPOTENCY_CLIENT_SRC_SERVICE_CONFIG_H_

#include <string_view>

namespace idempotency::internal {

// Which calls gRPC itself repeats, how long a call may take that was given no shorter time, and how
// large messages may be: the same in every language.
std::string_view ServiceConfig();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_SERVICE_CONFIG_H_
