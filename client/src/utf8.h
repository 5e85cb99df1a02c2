// Well-formed UTF-8 and nothing else: no overlong forms, no surrogates, nothing above U+10FFFF.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_UTF8_H_
#define IDEMPOTENCY_CLIENT_SRC_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::internal {

// Bytes of the character that `text` begins with; 0 where it begins with none.
size_t Utf8Length(std::string_view text);

// code_point: a Unicode scalar value.
void AppendUtf8(uint32_t code_point, std::string* out);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_UTF8_H_
