// Why a call brought no answer, in terms of what the person at the keyboard has to know: was it
// refused, was it never sent, or is it unknown whether it was applied?
#ifndef IDEMPOTENCY_CLIENT_CTL_CALL_ERROR_H_
#define IDEMPOTENCY_CLIENT_CTL_CALL_ERROR_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::ctl {

enum class Delivery {
  // The server answered with a refusal: nothing was changed.
  kRefused,
  // No connection was made: nothing left this machine.
  kNotSent,
  // It was sent, and no answer came back: it may have been applied.
  kUnknown,
};

struct CallError {
  Delivery delivery = Delivery::kUnknown;
  // By Ctrl-C or SIGTERM.
  bool interrupted = false;
  // A google.rpc.Code number.
  int code = 0;
  // The ErrorReason without its prefix; empty where the answer carries none. Kept as text, so
  // that a reason newer than this tool is still shown.
  std::string reason;
  std::string message;
  // The field at fault, as a path; empty: none was named.
  std::string field;
  std::optional<absl::Duration> retry_after;
};

// What came back with a call that failed. `details` is the trailer grpc-status-details-bin,
// `reason` the trailer idempotency-reason; both may be empty, and details may be anything.
CallError ErrorFromTrailers(int code, std::string_view message, std::string_view details,
                            std::string_view reason);

// UNSPECIFIED where the reason is missing or newer than this tool.
v1::ErrorReason ReasonOf(const CallError& error);

// The same as the API's own message, for --output=json.
v1::Error ToProto(const CallError& error);

// "FAILED_PRECONDITION" for 9; the number itself where it is no gRPC code.
std::string StatusCodeName(int code);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_CALL_ERROR_H_
