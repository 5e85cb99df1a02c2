#include "client/ctl/color.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"

namespace idempotency::ctl {
namespace {

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kYellow = "\x1b[1;33m";
constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kCyan = "\x1b[36m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kFaint = "\x1b[2m";

// As enum_text.h writes them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kColors = {{
    {"UNRESOLVED", kYellow},
    {"FINGERPRINT_MISMATCH", kRed},
    {"TOO_OLD", kRed},
    {"PENDING", kCyan},
    {"IN_PROGRESS", kCyan},
    {"ACQUIRED", kGreen},
    {"ALREADY_HELD", kGreen},
    {"COMPLETE", kGreen},
    {"COMPLETED", kGreen},
    {"EXPIRED", kFaint},
    {"FREED", kFaint},
}};

// A key such as order-PENDING is one word.
bool InWord(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '/'; }

}  // namespace

std::string Colored(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const bool word = InWord(text.front());
    const auto end =
        std::find_if(text.begin(), text.end(), [word](char c) { return InWord(c) != word; });
    const std::string_view run = text.substr(0, static_cast<size_t>(end - text.begin()));
    const auto* const color = std::find_if(kColors.begin(), kColors.end(),
                                           [run](const auto& named) { return named.first == run; });
    if (color == kColors.end()) {
      all += run;
    } else {
      all.append(color->second).append(run).append(kReset);
    }
    text.remove_prefix(run.size());
  }
  return all;
}

}  // namespace idempotency::ctl
