// base64url without padding (RFC 4648 section 5, as RFC 7515 uses it), read strictly.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_BASE64URL_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_BASE64URL_H_

#include <optional>
#include <string>
#include <string_view>

namespace idempotency::service {

// Nothing for padding, white space, other alphabets, a length that cannot be, and bits after the
// end that are not zero: two texts never mean the same bytes.
std::optional<std::string> DecodeBase64Url(std::string_view text);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_BASE64URL_H_
