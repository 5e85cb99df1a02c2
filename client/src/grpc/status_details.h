// google.rpc.Status in the details of a grpc::Status: making it, and reading when to come back.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_GRPC_STATUS_DETAILS_H_
#define IDEMPOTENCY_CLIENT_SRC_GRPC_STATUS_DETAILS_H_

#include <optional>
#include <string>
#include <string_view>

#include "grpcpp/grpcpp.h"
#include "idempotency/types.h"

namespace idempotency::internal {

// The trailer that carries the details.
inline constexpr std::string_view kDetailsMetadata = "grpc-status-details-bin";

grpc::Status MakeStatus(grpc::StatusCode code, std::string_view reason, const std::string& message,
                        std::optional<Duration> retry_after);

// The reason of MakeStatus; empty where the status was made by somebody else.
std::string ReasonOf(const grpc::Status& status);

// RetryInfo, whoever sent it.
std::optional<Duration> RetryAfterOf(const grpc::Status& status);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_GRPC_STATUS_DETAILS_H_
