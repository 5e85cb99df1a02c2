// The API's times and durations as absl's, and back.
#ifndef IDEMPOTENCY_CLIENT_CTL_TIME_PROTO_H_
#define IDEMPOTENCY_CLIENT_CTL_TIME_PROTO_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include "absl/time/time.h"

namespace idempotency::ctl {

absl::Duration FromProto(const google::protobuf::Duration& proto);
absl::Time FromProto(const google::protobuf::Timestamp& proto);
// The duration must be within kMaxDuration (duration_text.h).
google::protobuf::Duration ToProto(absl::Duration duration);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_TIME_PROTO_H_
