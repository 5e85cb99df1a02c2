// Takes members out of a JSON value by JSON pointer (RFC 6901).
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_JSON_POINTER_H_
#define IDEMPOTENCY_CLIENT_SRC_JSON_POINTER_H_

#include <string_view>

#include "absl/status/status.h"
#include "client/src/json.h"

namespace idempotency::internal {

// Removes the member of an object that `pointer` selects; its path may lead through elements of
// arrays. Nothing to select is fine. INVALID_ARGUMENT where the pointer is malformed, selects
// the whole document, or selects an element of an array: without it the others would move.
absl::Status RemoveJsonMember(std::string_view pointer, JsonValue* document);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_JSON_POINTER_H_
