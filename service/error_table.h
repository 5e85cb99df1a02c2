// The one place that says what a refusal looks like from outside: gRPC code, reason, sentence
// with the next step, and whether a time to try again belongs to it.
//
//   Failure failure{core::Reason::kLeaseLive};
//   failure.retry_after = ...;
//   reactor->Finish(ToStatus(failure));      // google.rpc.Status with ErrorInfo in the trailers
//   *result->mutable_error() = ToError(failure);  // the same as data, for Batch and Pipeline
//
// Sentences are fixed, or made from limits and field names: none repeats a key, a body or a
// credential.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_ERROR_TABLE_H_
#define IDEMPOTENCY_SERVICE_ERROR_TABLE_H_

#include <optional>
#include <string>
#include <string_view>

#include "grpcpp/support/status.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/core/outcome.h"
#include "keystore/core/time.h"
#include "service/validation.h"

namespace idempotency::service {

// ErrorInfo.domain of every error.
inline constexpr std::string_view kErrorDomain = "idempotency.v1";
// The trailer that names the reason in plain text.
inline constexpr char kReasonTrailer[] = "idempotency-reason";

// Why a call is refused. Made from a core refusal or at the edge.
struct Failure {
  core::Reason reason = core::Reason::kNone;
  // The field at fault, as a path; empty: none.
  std::string field;
  // Replaces the sentence of the table; empty: that one.
  std::string message;
  // Replaces the time of the table; unset: that one, if any.
  std::optional<core::Duration> retry_after;
  // Nobody is known to call: the code is UNAUTHENTICATED, whatever the reason's.
  bool unauthenticated = false;

  friend bool operator==(const Failure&, const Failure&) = default;
};

Failure ToFailure(const core::Refusal& refusal);
Failure ToFailure(const FieldError& error);

// The ErrorReason without its prefix, for example "LEASE_LAPSED".
std::string_view ReasonName(core::Reason reason);
grpc::StatusCode CodeOf(core::Reason reason);
grpc::StatusCode CodeOf(const Failure& failure);
// The sentence of the table.
std::string_view MessageOf(core::Reason reason);
// How long to wait before the same call may succeed; unset where waiting does not help.
std::optional<core::Duration> RetryAfter(const Failure& failure);

// With a google.rpc.Status in its details. The caller adds the trailer kReasonTrailer.
grpc::Status ToStatus(const Failure& failure);
v1::Error ToError(const Failure& failure);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_ERROR_TABLE_H_
