// JSON from strangers: an object or nothing.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_STRICT_JSON_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_STRICT_JSON_H_

#include <optional>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace idempotency::service {

// Nothing unless the whole of `text` is one object (RFC 8259) in which no member stands twice, at
// any depth, and which is nested at most 16 deep.
std::optional<nlohmann::json> ParseStrictObject(std::string_view text);

// The member as a text; nothing where there is none or it is none.
std::optional<std::string> TextMember(const nlohmann::json& object, const char* name);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_STRICT_JSON_H_
