#include "service/text.h"

#include <cstring>

namespace idempotency::service {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);

// `byte` in every byte of a word.
constexpr uint64_t Repeat(uint8_t byte) { return 0x0101010101010101u * byte; }

// Whether the first eight bytes of `text` are ASCII and none a control character. False where
// there are fewer, and now and then where it is so.
bool StartsPlain(std::string_view text) {
  if (text.size() < kWordBytes) return false;
  uint64_t word = 0;
  std::memcpy(&word, text.data(), kWordBytes);
  // The top bit of a byte tells that it is not ASCII, that taking 0x20 from it has borrowed, or
  // that adding one to 0x7F has carried.
  return ((word | (word - Repeat(0x20)) | (word + Repeat(0x01))) & Repeat(0x80)) == 0;
}

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// Bytes of the character that starts with `lead`; 0 where none does.
size_t CharacterBytes(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation, or an overlong form of ASCII
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

// The smallest code point that needs so many bytes.
constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};

bool IsCharacter(uint32_t code, size_t bytes) {
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code >= kSmallest[bytes] && code <= 0x10FFFF && !surrogate;
}

bool IsControl(uint32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

// How many bytes the first character of `text` has, with its code point in *code; 0 where `text`
// does not begin with one.
size_t ReadCharacter(std::string_view text, uint32_t* code) {
  const auto lead = static_cast<uint8_t>(text.front());
  const size_t bytes = CharacterBytes(lead);
  if (bytes == 0 || bytes > text.size()) return 0;
  *code = bytes == 1 ? lead : lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (!IsContinuation(text[i])) return 0;
    *code = *code << 6 | (static_cast<uint8_t>(text[i]) & 0x3F);
  }
  return IsCharacter(*code, bytes) ? bytes : 0;
}

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace

TextFault FindTextFault(std::string_view text) {
  while (!text.empty()) {
    // Most texts are nothing else.
    if (StartsPlain(text)) {
      text.remove_prefix(kWordBytes);
      continue;
    }
    uint32_t code = 0;
    const size_t bytes = ReadCharacter(text, &code);
    if (bytes == 0) return TextFault::kNotUtf8;
    if (IsControl(code)) return TextFault::kControlCharacter;
    text.remove_prefix(bytes);
  }
  return TextFault::kNone;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t bytes = ReadCharacter(text, &code);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string MendUtf8(std::string_view text) {
  std::string mended;
  mended.reserve(text.size() + kReplacementCharacter.size());
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t bytes = ReadCharacter(text, &code);
    mended.append(bytes == 0 ? kReplacementCharacter : text.substr(0, bytes));
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return mended;
}

std::string_view CutText(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && IsContinuation(text[end])) --end;
  return text.substr(0, end);
}

}  // namespace idempotency::service
