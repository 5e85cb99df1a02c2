#include <algorithm>
#include <cstddef>

#include "client/src/json.h"

namespace idempotency::internal {
namespace {

void WriteString(std::string_view text, std::string* out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kEscaped = "\b\t\n\f\r\"\\";
  constexpr std::string_view kLetters = "btnfr\"\\";
  out->push_back('"');
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const size_t short_form = kEscaped.find(c);
    if (short_form != std::string_view::npos) {
      out->push_back('\\');
      out->push_back(kLetters[short_form]);
    } else if (byte < 0x20) {
      *out += "\\u00";
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 0x0f]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

void WriteValue(const JsonValue& value, std::string* out);

void WriteArray(const JsonValue& array, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < array.items.size(); ++i) {
    if (i > 0) out->push_back(',');
    WriteValue(array.items[i], out);
  }
  out->push_back(']');
}

void WriteObject(const JsonValue& object, std::string* out) {
  std::vector<const JsonMember*> sorted;
  sorted.reserve(object.members.size());
  for (const JsonMember& member : object.members) sorted.push_back(&member);
  std::sort(sorted.begin(), sorted.end(),
            [](const JsonMember* a, const JsonMember* b) { return Utf16Less(a->name, b->name); });
  out->push_back('{');
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0) out->push_back(',');
    WriteString(sorted[i]->name, out);
    out->push_back(':');
    WriteValue(sorted[i]->value, out);
  }
  out->push_back('}');
}

void WriteValue(const JsonValue& value, std::string* out) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      *out += "null";
      return;
    case JsonValue::Kind::kBool:
      *out += value.boolean ? "true" : "false";
      return;
    case JsonValue::Kind::kNumber:
      *out += value.text;
      return;
    case JsonValue::Kind::kString:
      WriteString(value.text, out);
      return;
    case JsonValue::Kind::kArray:
      WriteArray(value, out);
      return;
    case JsonValue::Kind::kObject:
      WriteObject(value, out);
      return;
  }
}

// UTF-8 sorts as UTF-16 does, but for U+E000-U+FFFF (lead bytes EE and EF), which UTF-16 puts
// behind the surrogate pairs of what needs four bytes (F0-F4).
int Rank(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == 0xee || byte == 0xef ? byte + 0x10 : byte;
}

}  // namespace

const JsonValue* JsonValue::Find(std::string_view name) const {
  for (const JsonMember& member : members) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

std::string WriteCanonicalJson(const JsonValue& value) {
  std::string out;
  WriteValue(value, &out);
  return out;
}

bool Utf16Less(std::string_view a, std::string_view b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a == a.end() || in_b == b.end()) return in_a == a.end() && in_b != b.end();
  return Rank(*in_a) < Rank(*in_b);
}

}  // namespace idempotency::internal
