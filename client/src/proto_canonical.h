// The content of a message that is hashed (grammar: idempotency/fingerprint_proto.h).
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_PROTO_CANONICAL_H_
#define IDEMPOTENCY_CLIENT_SRC_PROTO_CANONICAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"

namespace idempotency::internal {

inline constexpr int kMaxMessageDepth = 100;

// exclude: field paths. Errors as FingerprintMessage.
absl::StatusOr<std::string> CanonicalMessage(const google::protobuf::Message& message,
                                             const std::vector<std::string>& exclude);

void AppendFieldNumber(int number, std::string* out);

// *unknown, by number.
void AppendUnknownFields(const google::protobuf::UnknownFieldSet& fields, std::string* out);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_PROTO_CANONICAL_H_
