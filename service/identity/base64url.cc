#include "service/identity/base64url.h"

#include <cstddef>
#include <cstdint>

namespace idempotency::service {
namespace {

// The six bits of a character; -1 where it is not of the alphabet.
int SixBits(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '-') return 62;
  return c == '_' ? 63 : -1;
}

}  // namespace

std::optional<std::string> DecodeBase64Url(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t pending = 0;
  int pending_bits = 0;
  for (const char c : text) {
    const int six = SixBits(c);
    if (six < 0) return std::nullopt;
    pending = (pending << 6) | static_cast<uint32_t>(six);
    pending_bits += 6;
    if (pending_bits < 8) continue;
    pending_bits -= 8;
    bytes.push_back(static_cast<char>((pending >> pending_bits) & 0xFF));
    pending &= (1u << pending_bits) - 1;
  }
  if (pending != 0) return std::nullopt;
  return bytes;
}

}  // namespace idempotency::service
