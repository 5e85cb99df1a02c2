// From what the client saw to lines of the trace (tests/vectors/README.md).
#ifndef IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_TRACE_H_
#define IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_TRACE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "idempotency/client.h"
#include "idempotency/types.h"
#include "tests/client/conformance/script.h"

namespace idempotency::testing {

// Null for UNSPECIFIED.
template <typename Enum>
Json ShowName(Enum value) {
  return value == Enum{} ? Json() : Json(std::string(Name(value)));
}

Json ShowHex(const std::optional<std::string>& bytes);
// `step` asked for the lease.
Json ShowLease(const Json& step, const std::optional<Lease>& lease);
Json ShowResponse(const std::optional<CachedResponse>& response);
Json ShowOperation(const std::optional<Operation>& operation);
Json ShowError(const absl::Status& error);
Json ShowResult(const RunResult& result);

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_TRACE_H_
