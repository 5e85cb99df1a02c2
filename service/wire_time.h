// Times and spans of the API <-> those of the core.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_WIRE_TIME_H_
#define IDEMPOTENCY_SERVICE_WIRE_TIME_H_

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "keystore/core/time.h"

namespace idempotency::service {

// A span of the wire in milliseconds: rounded up, so that the shortest is not nothing, and
// saturated instead of overflowing.
struct Span {
  bool negative = false;
  core::Duration length{0};  // zero where negative

  friend bool operator==(const Span&, const Span&) = default;
};
Span ToSpan(const google::protobuf::Duration& duration);

// Whether google.protobuf.Duration allows it: nanos of less than a second, the sign of both the
// same, and no more than about 10,000 years.
bool IsWellFormed(const google::protobuf::Duration& duration);

void SetDuration(core::Duration span, google::protobuf::Duration* out);
void SetTimestamp(core::Time time, google::protobuf::Timestamp* out);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_WIRE_TIME_H_
