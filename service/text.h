// What callers write: characters and lengths.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_TEXT_H_
#define IDEMPOTENCY_SERVICE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::service {

enum class TextFault : uint8_t {
  kNone,
  kNotUtf8,
  // U+0000-U+001F or U+007F-U+009F.
  kControlCharacter,
};

// The first fault of `text` as UTF-8 (no overlong forms, no surrogates).
TextFault FindTextFault(std::string_view text);

// No overlong forms, no surrogates; control characters are allowed.
bool IsUtf8(std::string_view text);

// `text` with U+FFFD for every byte that is part of no character.
std::string MendUtf8(std::string_view text);

// The longest beginning of `text` that has at most `max_bytes` and does not end inside a
// character.
std::string_view CutText(std::string_view text, size_t max_bytes);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_TEXT_H_
