#include "keystore/engine/checked_text.h"

#include <zlib.h>

#include <charconv>
#include <cstddef>
#include <system_error>

#include "absl/strings/str_format.h"

namespace idempotency::keystore {

uint32_t Crc32(std::string_view bytes, uint32_t before) {
  return static_cast<uint32_t>(
      crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

void AppendCrcLine(std::string& text) { absl::StrAppendFormat(&text, "crc32 %08x\n", Crc32(text)); }

bool TakeText(std::string_view text, std::string_view& rest) {
  if (rest.substr(0, text.size()) != text) return false;
  rest.remove_prefix(text.size());
  return true;
}

bool TakeNumber(uint64_t& number, std::string_view& rest) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return true;
}

bool TakeWord(char end, std::string& word, std::string_view& rest) {
  const size_t length = rest.find(end);
  if (length == std::string_view::npos) return false;
  word = std::string(rest.substr(0, length));
  rest.remove_prefix(length);
  return true;
}

}  // namespace idempotency::keystore
