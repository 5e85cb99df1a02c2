#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/src/json.h"
#include "client/src/json_number.h"
#include "client/src/utf8.h"

namespace idempotency::internal {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Every method moves on behind what it read and returns true, or notes what is wrong.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<JsonValue> Parse() {
    JsonValue value;
    const bool read = ParseValue(0, &value) && AtEnd();
    if (!read) return absl::InvalidArgumentError(absl::StrCat("JSON, byte ", at_, ": ", problem_));
    return value;
  }

 private:
  bool Fail(const char* problem) {
    problem_ = problem;
    return false;
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool Take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void SkipSpace() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }

  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size() || Fail("something follows the value; send one value");
  }

  bool ParseValue(size_t depth, JsonValue* value) {
    SkipSpace();
    if (at_ == text_.size()) return Fail("the text ends where a value should be");
    switch (Peek()) {
      case '{':
        return depth < kMaxJsonDepth ? ParseObject(depth, value) : Fail("nested too deeply");
      case '[':
        return depth < kMaxJsonDepth ? ParseArray(depth, value) : Fail("nested too deeply");
      case '"':
        value->kind = JsonValue::Kind::kString;
        return ParseString(&value->text);
      case 't':
        return ParseWord("true", JsonValue::Kind::kBool, value);
      case 'f':
        return ParseWord("false", JsonValue::Kind::kBool, value);
      case 'n':
        return ParseWord("null", JsonValue::Kind::kNull, value);
      default:
        return ParseNumber(value);
    }
  }

  bool ParseWord(std::string_view word, JsonValue::Kind kind, JsonValue* value) {
    if (text_.substr(at_, word.size()) != word) return Fail("no JSON value begins so");
    at_ += word.size();
    value->kind = kind;
    value->boolean = word == "true";
    return true;
  }

  bool ParseArray(size_t depth, JsonValue* value) {
    value->kind = JsonValue::Kind::kArray;
    Take('[');
    SkipSpace();
    if (Take(']')) return true;
    while (true) {
      if (!ParseValue(depth + 1, &value->items.emplace_back())) return false;
      SkipSpace();
      if (Take(']')) return true;
      if (!Take(',')) return Fail("',' or ']' should be here");
    }
  }

  bool ParseObject(size_t depth, JsonValue* value) {
    value->kind = JsonValue::Kind::kObject;
    const size_t start = at_;
    Take('{');
    SkipSpace();
    if (Take('}')) return true;
    while (true) {
      JsonMember& member = value->members.emplace_back();
      SkipSpace();
      if (Peek() != '"') return Fail("a member's name in quotes should be here");
      if (!ParseString(&member.name)) return false;
      SkipSpace();
      if (!Take(':')) return Fail("':' should be here");
      if (!ParseValue(depth + 1, &member.value)) return false;
      SkipSpace();
      if (Take('}')) return NamesDiffer(*value, start);
      if (!Take(',')) return Fail("',' or '}' should be here");
    }
  }

  bool NamesDiffer(const JsonValue& object, size_t start) {
    std::vector<std::string_view> names;
    names.reserve(object.members.size());
    for (const JsonMember& member : object.members) names.push_back(member.name);
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) == names.end()) return true;
    at_ = start;
    return Fail("this object has two members of one name; send each once");
  }

  std::string_view TakeDigits() {
    const size_t start = at_;
    while (IsDigit(Peek())) ++at_;
    return text_.substr(start, at_ - start);
  }

  bool ParseNumber(JsonValue* value) {
    JsonNumberParts parts;
    parts.negative = Take('-');
    parts.integer = TakeDigits();
    if (parts.integer.empty()) return Fail("no JSON value begins so");
    if (parts.integer.size() > 1 && parts.integer[0] == '0') return Fail("a number begins with 0");
    if (Take('.')) {
      parts.fraction = TakeDigits();
      if (parts.fraction.empty()) return Fail("digits should follow the point");
    }
    if (Take('e') || Take('E')) {
      parts.exponent_negative = Take('-');
      if (!parts.exponent_negative) Take('+');
      parts.exponent = TakeDigits();
      if (parts.exponent.empty()) return Fail("digits should follow the exponent's sign");
    }
    std::optional<std::string> canonical = CanonicalNumber(parts);
    if (!canonical) return Fail("this exponent is out of all range");
    value->kind = JsonValue::Kind::kNumber;
    value->text = *std::move(canonical);
    return true;
  }

  bool ParseString(std::string* out) {
    Take('"');
    while (at_ < text_.size()) {
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte == '"') {
        ++at_;
        return true;
      }
      if (byte < 0x20) return Fail("a control character must be escaped");
      if (byte == '\\') {
        if (!ParseEscape(out)) return false;
        continue;
      }
      const size_t length = Utf8Length(text_.substr(at_));
      if (length == 0) return Fail("this is not UTF-8");
      out->append(text_, at_, length);
      at_ += length;
    }
    return Fail("the text ends within a string");
  }

  bool ParseEscape(std::string* out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    ++at_;
    if (Take('u')) return ParseUnicodeEscape(out);
    const size_t letter = at_ < text_.size() ? kLetters.find(text_[at_]) : std::string_view::npos;
    if (letter == std::string_view::npos) return Fail("there is no such escape");
    ++at_;
    out->push_back(kMeanings[letter]);
    return true;
  }

  bool ParseUnicodeEscape(std::string* out) {
    uint32_t unit = 0;
    if (!ParseHex4(&unit)) return false;
    if (unit >= 0xdc00 && unit <= 0xdfff) return Fail("half of a surrogate pair is missing");
    if (unit >= 0xd800 && unit <= 0xdbff) {
      uint32_t low = 0;
      if (!Take('\\') || !Take('u')) return Fail("half of a surrogate pair is missing");
      if (!ParseHex4(&low)) return false;
      if (low < 0xdc00 || low > 0xdfff) return Fail("half of a surrogate pair is missing");
      unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    AppendUtf8(unit, out);
    return true;
  }

  bool ParseHex4(uint32_t* unit) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    *unit = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = Peek();
      const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
      const size_t digit = kDigits.find(lower);
      if (digit == std::string_view::npos) return Fail("four hexadecimal digits should follow \\u");
      *unit = *unit << 4 | static_cast<uint32_t>(digit);
      ++at_;
    }
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
  const char* problem_ = "";
};

}  // namespace

absl::StatusOr<JsonValue> ParseJson(std::string_view text) {
  if (text.size() > kMaxJsonBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON of ", text.size(), " bytes; at most ", kMaxJsonBytes, " are read"));
  }
  return Parser(text).Parse();
}

}  // namespace idempotency::internal
