#include "service/config_problems.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace idempotency::service {
namespace {

// Longer texts are quoted only in part.
constexpr size_t kMaxQuotedBytes = 64;

}  // namespace

void ConfigProblems::Add(int line, std::string_view path, std::string sentence) {
  ++count_;
  paths_.emplace(path);
  if (problems_.size() == kMaxTold) return;
  if (!path.empty()) sentence = absl::StrCat(std::string(path), ": ", sentence);
  problems_.push_back({line, std::move(sentence)});
}

std::string ConfigProblems::Tell(std::string_view file_name) const {
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  const std::string file(file_name);
  std::string told;
  for (const Problem& problem : sorted) {
    if (!told.empty()) told += '\n';
    absl::StrAppend(&told, file, ":");
    if (problem.line > 0) absl::StrAppend(&told, problem.line, ":");
    absl::StrAppend(&told, " ", problem.text);
  }
  if (count_ > problems_.size()) {
    absl::StrAppend(&told, "\n", file, ": ", count_ - problems_.size(),
                    " more problems are not told: mend these first");
  }
  return told;
}

std::string Quoted(std::string_view text) {
  // Cut between characters, not within one.
  size_t end = std::min(text.size(), kMaxQuotedBytes);
  while (end < text.size() && end > 0 && (text[end] & 0xC0) == 0x80) --end;
  std::string quoted = absl::StrCat("'", absl::Utf8SafeCEscape({text.data(), end}));
  return quoted += end < text.size() ? "...'" : "'";
}

}  // namespace idempotency::service
