// Fingerprints of protobuf messages (sha256/proto-1), as fingerprint.h makes them of bytes and
// JSON. Serialized bytes are no basis for one: the order of fields and of map entries is free.
//
// The content that is hashed:
//
//   content = message, or the 'a' value below for a google.protobuf.Any
//   message = *field *unknown       by number; fields that are present, extensions among them
//   field   = number value          number: 4 bytes, big endian
//   value   = 'i' 8 bytes           int32, int64, sint*, sfixed*, enum: two's complement
//           | 'u' 8 bytes           uint32, uint64, fixed*
//           | 'b' 1 byte            bool
//           | 'f' 4 bytes           float: its bits, so that -0 and every NaN are themselves
//           | 'd' 8 bytes           double: its bits
//           | 's' frame             string, bytes
//           | 'm' frame(message)    a message or group
//           | 'a' frame(type URL) frame(message)    google.protobuf.Any: what is in it
//           | 'r' count *value      repeated, packed or not, at least one; count: 8 bytes
//           | 'p' count *(key value)   a map, at least one entry; key and value are values as
//                                      here, in the order of the bytes of the keys
//   unknown = number wire           what the schema does not know, in the order of one number
//   wire    = 'V' 8 bytes | 'W' 4 bytes | 'X' 8 bytes | 'L' frame | 'G' frame(*unknown)
//
// All numbers big endian; frame as in fingerprint.h. Presence counts: an optional field set to
// its default is not an unset one, an empty message not a missing one; without presence (plain
// proto3 scalars) the default and unset are the same. Widening a field's type (int32 to int64,
// string to bytes) and new fields that are not set leave a fingerprint as it was; a field that
// one side's schema does not know does not.
//
// Thread safety: pure function.
#ifndef IDEMPOTENCY_FINGERPRINT_PROTO_H_
#define IDEMPOTENCY_FINGERPRINT_PROTO_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "idempotency/fingerprint.h"

namespace idempotency {

// options.exclude: field paths such as "request_id" or "order.items.trace": through repeated
// fields and the values of maps they hold for every element. INVALID_ARGUMENT where a path names
// no field of the message's type, where an Any holds what this binary does not know or cannot
// read (exclude it, or send what is in it), and over 100 levels.
absl::StatusOr<Fingerprint> FingerprintMessage(std::string_view method, std::string_view resource,
                                               const google::protobuf::Message& message,
                                               const FingerprintOptions& options = {});

}  // namespace idempotency

#endif  // IDEMPOTENCY_FINGERPRINT_PROTO_H_
