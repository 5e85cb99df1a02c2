#include <algorithm>

#include "idempotency/http_edge.h"

namespace idempotency {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsAlpha(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }
bool IsVisible(char c) { return c >= 0x21 && c <= 0x7e; }
bool IsOneOf(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The parts of an Item of RFC 9651, each taken off the front of the text.
class ItemReader {
 public:
  explicit ItemReader(std::string_view text) : text_(text) {}

  bool AtEnd() const { return text_.empty(); }
  bool Next(char c) const { return !text_.empty() && text_[0] == c; }

  bool TakeString(std::string* out) {
    if (!Take('"')) return false;
    while (!text_.empty()) {
      const char c = text_[0];
      text_.remove_prefix(1);
      if (c == '"') return true;
      if (c == '\\') {
        if (!Next('"') && !Next('\\')) return false;
        out->push_back(text_[0]);
        text_.remove_prefix(1);
      } else if (c == ' ' || IsVisible(c)) {
        out->push_back(c);
      } else {
        return false;
      }
    }
    return false;
  }

  // *( ";" *SP key [ "=" bare-item ] )
  bool SkipParameters() {
    while (Take(';')) {
      while (Take(' ')) {
      }
      if (text_.empty() || !(IsLower(text_[0]) || text_[0] == '*')) return false;
      SkipWhile([](char c) { return IsLower(c) || IsDigit(c) || IsOneOf(c, "_-.*"); });
      if (Take('=') && !SkipBareItem()) return false;
    }
    return true;
  }

 private:
  bool Take(char c) {
    if (!Next(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  template <typename Predicate>
  size_t SkipWhile(Predicate predicate) {
    const auto end = std::find_if_not(text_.begin(), text_.end(), predicate);
    const auto length = static_cast<size_t>(end - text_.begin());
    text_.remove_prefix(length);
    return length;
  }

  bool SkipBareItem() {
    if (Next('"')) {
      std::string ignored;
      return TakeString(&ignored);
    }
    if (Take('?')) return Take('0') || Take('1');
    if (Take(':')) {
      SkipWhile([](char c) { return IsAlpha(c) || IsDigit(c) || IsOneOf(c, "+/="); });
      return Take(':');
    }
    if (!text_.empty() && (IsAlpha(text_[0]) || text_[0] == '*')) {
      SkipWhile([](char c) { return IsAlpha(c) || IsDigit(c) || IsOneOf(c, "!#$%&'*+-.^_`|~:/"); });
      return true;
    }
    return SkipNumber();
  }

  bool SkipNumber() {
    Take('-');
    const size_t whole = SkipWhile(IsDigit);
    if (whole == 0 || whole > 15) return false;
    if (!Take('.')) return true;
    const size_t fraction = SkipWhile(IsDigit);
    return whole <= 12 && fraction >= 1 && fraction <= 3;
  }

  std::string_view text_;
};

KeyField Problem(KeyProblem problem) { return KeyField{.problem = problem}; }

KeyField ParseStructured(std::string_view value) {
  KeyField field;
  ItemReader reader(value);
  if (!reader.TakeString(&field.key) || !reader.SkipParameters()) {
    return Problem(KeyProblem::kMalformed);
  }
  // Field lines that were joined on the way look like a list.
  if (reader.Next(',')) return Problem(KeyProblem::kRepeated);
  return reader.AtEnd() ? field : Problem(KeyProblem::kMalformed);
}

KeyField ParseRaw(std::string_view value) {
  if (value.find(',') != std::string_view::npos) return Problem(KeyProblem::kRepeated);
  const bool plain = std::all_of(value.begin(), value.end(),
                                 [](char c) { return IsVisible(c) && !IsOneOf(c, "\"\\;"); });
  return plain ? KeyField{.key = std::string(value)} : Problem(KeyProblem::kMalformed);
}

}  // namespace

KeyField ParseKeyField(const std::vector<std::string_view>& values,
                       const KeyFieldOptions& options) {
  if (values.empty()) return Problem(KeyProblem::kMissing);
  if (values.size() > 1) return Problem(KeyProblem::kRepeated);
  const std::string_view value = Trim(values[0]);
  if (value.empty()) return Problem(KeyProblem::kMissing);
  const bool structured = value[0] == '"';
  if (!structured && !options.allow_raw) return Problem(KeyProblem::kMalformed);
  KeyField field = structured ? ParseStructured(value) : ParseRaw(value);
  if (field.problem != KeyProblem::kNone) return field;
  if (field.key.empty()) return Problem(KeyProblem::kMissing);
  return field.key.size() > options.max_bytes ? Problem(KeyProblem::kTooLong) : field;
}

}  // namespace idempotency
