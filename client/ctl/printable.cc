#include "client/ctl/printable.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace idempotency::ctl {
namespace {

struct Character {
  // Bytes; 0: the text does not start with a valid UTF-8 sequence.
  size_t length = 0;
  uint32_t code_point = 0;
};

// Decodes the first character of `text`, which is not empty. Overlong forms, surrogates and
// anything past U+10FFFF are invalid.
Character Decode(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {1, lead};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  uint32_t code_point = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) != 0x80) return {};
    code_point = (code_point << 6) | (byte & 0x3F);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < kSmallest[length] || surrogate || code_point > 0x10FFFF) return {};
  return {length, code_point};
}

bool Shows(const Character& character) {
  const uint32_t c = character.code_point;
  if (character.length == 0 || c < 0x20 || (c >= 0x7F && c < 0xA0)) return false;
  const bool zero_width = (c >= 0x200B && c <= 0x200F) || c == 0xFEFF || c == 0x00AD;
  const bool direction = (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F);
  return !zero_width && !direction;
}

std::string HexEscape(char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return {'\\', 'x', kDigits[value >> 4], kDigits[value & 0xF]};
}

// Applies `shown` to each piece that shows as itself and `hidden` to each byte that does not.
template <typename Shown, typename Hidden>
void Walk(std::string_view text, Shown shown, Hidden hidden) {
  while (!text.empty()) {
    const Character character = Decode(text);
    const size_t length = std::max<size_t>(character.length, 1);
    if (Shows(character)) {
      shown(text.substr(0, length));
    } else {
      for (const char byte : text.substr(0, length)) hidden(byte);
    }
    text.remove_prefix(length);
  }
}

bool IsBare(std::string_view text) {
  constexpr std::string_view kSafe = "@%+=:,./-_";
  // =word and ~word are expanded by some shells, and an empty word vanishes.
  if (text.empty() || text[0] == '=' || text[0] == '~') return false;
  return std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || kSafe.find(static_cast<char>(c)) != kSafe.npos);
  });
}

std::string Escaped(std::string_view text) {
  std::string quoted = "$'";
  const auto shown = [&](std::string_view piece) {
    if (piece == "'" || piece == "\\") quoted += '\\';
    quoted += piece;
  };
  Walk(text, shown, [&](char byte) { quoted += HexEscape(byte); });
  return quoted + "'";
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const Character character = Decode(text);
    if (character.length == 0) return false;
    text.remove_prefix(character.length);
  }
  return true;
}

bool IsPrintable(std::string_view text) {
  bool printable = true;
  Walk(
      text, [](std::string_view) {}, [&](char) { printable = false; });
  return printable;
}

std::string Printable(std::string_view text) {
  std::string result;
  Walk(
      text, [&](std::string_view piece) { result += piece; },
      [&](char byte) { result += HexEscape(byte); });
  return result;
}

std::string Preview(std::string_view text, size_t max_characters) {
  std::string result;
  size_t characters = 0;
  const auto add = [&](std::string_view piece) {
    if (characters < max_characters) result += piece;
    ++characters;
  };
  Walk(text, add, [&](char byte) { add(HexEscape(byte)); });
  if (characters > max_characters) result += "...";
  return result;
}

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](unsigned char byte) { return (byte & 0xC0) != 0x80; }));
}

std::string ShellQuote(std::string_view text) {
  if (IsBare(text)) return std::string(text);
  if (!IsPrintable(text)) return Escaped(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace idempotency::ctl
