// Why a call failed: from what gRPC says to a status that Refused (idempotency/connection.h)
// understands.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_STATUS_H_
#define IDEMPOTENCY_CLIENT_SRC_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// code: a google.rpc.Code number, not 0. details: the trailer grpc-status-details-bin; reason: the
// trailer idempotency-reason. Both may be empty, and details may be anything. A reason that this
// library does not know counts as none: the code says enough.
absl::Status ToStatus(int code, std::string_view message, std::string_view details,
                      std::string_view reason);

// What a command of a pipeline failed with.
absl::Status ToStatus(const v1::Error& error);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_STATUS_H_
