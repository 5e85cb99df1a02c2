#include "service/name_pattern.h"

#include <algorithm>
#include <cstddef>

namespace idempotency::service {
namespace {

bool IsSeparator(char c) { return c == '/' || c == ':'; }

// Where matching may have got to: ends[i] says that the first i characters are matched.
using Ends = std::vector<bool>;

Ends AfterText(const Ends& ends, std::string_view name, std::string_view text) {
  Ends after(ends.size(), false);
  for (size_t i = 0; i + text.size() < ends.size(); ++i) {
    if (ends[i] && name.substr(i, text.size()) == text) after[i + text.size()] = true;
  }
  return after;
}

// Any run of characters, also none; of those that `stops` none may be in it.
template <typename Stops>
Ends AfterRun(const Ends& ends, std::string_view name, Stops stops) {
  Ends after = ends;
  for (size_t i = 0; i + 1 < after.size(); ++i) {
    if (after[i] && !stops(name[i])) after[i + 1] = true;
  }
  return after;
}

// As above, but one character at least.
Ends AfterName(const Ends& ends, std::string_view name) {
  Ends begun(ends.size(), false);
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    if (ends[i] && !IsSeparator(name[i])) begun[i + 1] = true;
  }
  return AfterRun(begun, name, IsSeparator);
}

}  // namespace

NamePattern::NamePattern(std::string_view text) : text_(text) {
  while (!text.empty()) {
    if (text.substr(0, 2) == "**") {
      pieces_.push_back({Kind::kAnything, {}});
      text.remove_prefix(2);
    } else if (text.front() == '*') {
      pieces_.push_back({Kind::kPart, {}});
      text.remove_prefix(1);
    } else if (text.substr(0, kScopePlace.size()) == kScopePlace) {
      pieces_.push_back({Kind::kScope, {}});
      ++scope_places_;
      text.remove_prefix(kScopePlace.size());
    } else {
      const size_t end = std::min({text.find('*', 1), text.find(kScopePlace, 1), text.size()});
      pieces_.push_back({Kind::kText, std::string(text.substr(0, end))});
      text.remove_prefix(end);
    }
  }
}

bool NamePattern::Matches(std::string_view name, std::optional<std::string_view> scope) const {
  if (scope_places_ > 0 && scope &&
      (scope->empty() || std::any_of(scope->begin(), scope->end(), IsSeparator))) {
    return false;
  }
  // Most rules are about somebody else.
  if (!pieces_.empty() && pieces_.front().kind == Kind::kText &&
      name.substr(0, pieces_.front().text.size()) != pieces_.front().text) {
    return false;
  }
  Ends ends(name.size() + 1, false);
  ends[0] = true;
  for (const Piece& piece : pieces_) {
    switch (piece.kind) {
      case Kind::kText:
        ends = AfterText(ends, name, piece.text);
        break;
      case Kind::kPart:
        ends = AfterRun(ends, name, IsSeparator);
        break;
      case Kind::kAnything:
        ends = AfterRun(ends, name, [](char) { return false; });
        break;
      case Kind::kScope:
        ends = scope ? AfterText(ends, name, *scope) : AfterName(ends, name);
        break;
    }
  }
  return ends[name.size()];
}

}  // namespace idempotency::service
