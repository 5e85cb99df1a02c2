#include "service/config_section.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::service {

Section::Section(std::string path, const FieldLines& lines, ConfigProblems* problems)
    : path_(std::move(path)), lines_(lines), problems_(problems) {}

void Section::Add(std::string_view field, std::string sentence) {
  const std::string path = Path(field);
  // Where the reader has found something already, that is the one mistake.
  if (problems_->Has(path)) return;
  problems_->Add(LineOf(lines_, path, LineOf(lines_, path_)), path, std::move(sentence));
}

std::string Section::Required(std::string_view field, bool is_set, const std::string& text,
                              size_t max_bytes, std::string_view next_step) {
  if (!is_set) {
    Add(field, absl::StrCat("missing: ", std::string(next_step)));
  } else if (text.empty()) {
    Add(field, absl::StrCat("is empty: ", std::string(next_step)));
  } else if (text.size() > max_bytes) {
    Add(field, absl::StrCat(text.size(), " bytes are too long: write at most ", max_bytes));
  }
  return text;
}

std::string Section::OptionalFile(std::string_view field, bool is_set, const std::string& text) {
  return is_set ? Required(field, is_set, text, kMaxPathBytes, "name a file, or remove the line")
                : std::string();
}

std::string Section::Path(std::string_view field) const {
  return absl::StrCat(path_, ".", std::string(field));
}

}  // namespace idempotency::service
