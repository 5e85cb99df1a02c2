// Text of others, made safe to show on a terminal or to paste into a shell. Names, details and
// bodies come from callers and providers: an escape sequence in them must not act, and a
// direction mark must not make one key look like another.
#ifndef IDEMPOTENCY_CLIENT_CTL_PRINTABLE_H_
#define IDEMPOTENCY_CLIENT_CTL_PRINTABLE_H_

#include <string>
#include <string_view>

namespace idempotency::ctl {

bool IsUtf8(std::string_view text);

// Whether every character shows as itself: valid UTF-8, no control, format or direction characters.
bool IsPrintable(std::string_view text);

// The text with each byte of what is not printable as \xNN, and the backslash as itself.
std::string Printable(std::string_view text);

// Printable, and cut to `max_characters` (with "..." in their place) where longer.
std::string Preview(std::string_view text, size_t max_characters);

// Columns that the text takes, one a character. Printable text only.
size_t DisplayWidth(std::string_view text);

// One word of a shell command line that means exactly `text`: bare where that is safe, else
// 'quoted', else $'with escapes' (bash, zsh, ksh).
std::string ShellQuote(std::string_view text);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_PRINTABLE_H_
