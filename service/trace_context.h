// The W3C trace context of a call (https://www.w3.org/TR/trace-context/), as far as it is taken up:
// the metadata `traceparent`. Not `tracestate`: service/README.md says why.
#ifndef IDEMPOTENCY_SERVICE_TRACE_CONTEXT_H_
#define IDEMPOTENCY_SERVICE_TRACE_CONTEXT_H_

#include <string_view>

#include "keystore/key_store.h"

namespace idempotency::service {

inline constexpr char kTraceparent[] = "traceparent";

// Whether the text is one as the recommendation has it, also of a later version: what is none has
// to be ignored as if it were not there.
bool IsTraceparent(std::string_view text);

struct TraceContext {
  // Empty: there is none, or none that is valid. Lives as long as the call's metadata.
  std::string_view traceparent;

  // The trace's id; zeros where there is none.
  keystore::TraceId id() const;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_TRACE_CONTEXT_H_
