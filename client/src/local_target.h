// Which addresses only this machine can have.
#ifndef IDEMPOTENCY_CLIENT_SRC_LOCAL_TARGET_H_
#define IDEMPOTENCY_CLIENT_SRC_LOCAL_TARGET_H_

#include <string_view>

namespace idempotency::internal {

// Whether a target of gRPC's can only be on this machine.
bool IsLocalTarget(std::string_view target);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_LOCAL_TARGET_H_
