// A strict JSON reader that keeps numbers exact, and the canonical form of RFC 8785 over it.
//
// Strict: one value and nothing behind it, no byte order mark, no comments, valid UTF-8, no lone
// surrogates, no name twice in one object. What two readers could understand differently is
// refused, because a fingerprint of it would mean nothing.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_JSON_H_
#define IDEMPOTENCY_CLIENT_SRC_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace idempotency::internal {

inline constexpr size_t kMaxJsonDepth = 128;
inline constexpr size_t kMaxJsonBytes = 16 * 1024 * 1024;

struct JsonMember;

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;             // kBool
  std::string text;                 // kString: unescaped. kNumber: canonical (json_number.h)
  std::vector<JsonValue> items;     // kArray
  std::vector<JsonMember> members;  // kObject, in the order of the text

  // Null where there is no such member, and where this is no object.
  const JsonValue* Find(std::string_view name) const;
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

// INVALID_ARGUMENT where `text` is no such JSON; the message says where and why, and repeats
// nothing of it.
absl::StatusOr<JsonValue> ParseJson(std::string_view text);

// RFC 8785, but for numbers (json_number.h).
std::string WriteCanonicalJson(const JsonValue& value);

// Whether `a` sorts before `b` by UTF-16 code units; both are valid UTF-8.
bool Utf16Less(std::string_view a, std::string_view b);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_JSON_H_
