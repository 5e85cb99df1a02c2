#include "service/duration_text.h"

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace idempotency::service {
namespace {

struct Unit {
  std::string_view name;
  core::Duration size;
};

// The largest first.
constexpr std::array<Unit, 5> kUnits = {{{"d", std::chrono::hours(24)},
                                         {"h", std::chrono::hours(1)},
                                         {"m", std::chrono::minutes(1)},
                                         {"s", std::chrono::seconds(1)},
                                         {"ms", std::chrono::milliseconds(1)}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

absl::Status NotADuration() {
  return absl::InvalidArgumentError(
      "is not a duration: write whole numbers with the units d, h, m, s or ms, the largest first, "
      "such as 24h, 1h30m or 500ms");
}

// Takes digits off the front of `rest`; false where there are none or too many.
bool TakeNumber(std::string_view* rest, int64_t* number) {
  constexpr size_t kMaxDigits = 18;
  size_t digits = 0;
  *number = 0;
  while (digits < rest->size() && IsDigit((*rest)[digits])) {
    if (digits == kMaxDigits) return false;
    *number = *number * 10 + ((*rest)[digits++] - '0');
  }
  rest->remove_prefix(digits);
  return digits > 0;
}

// Takes the unit off the front of `rest`: all letters up to the next number. Returns its place
// in kUnits, or that of none.
size_t TakeUnit(std::string_view* rest) {
  size_t end = 0;
  while (end < rest->size() && !IsDigit((*rest)[end])) ++end;
  size_t unit = 0;
  while (unit < kUnits.size() && kUnits[unit].name != rest->substr(0, end)) ++unit;
  rest->remove_prefix(end);
  return unit;
}

}  // namespace

absl::StatusOr<core::Duration> ParseDuration(std::string_view text) {
  if (text == "0") return core::Duration::zero();
  std::string_view rest = text;
  const bool negative = rest.substr(0, 1) == "-";
  if (negative) rest.remove_prefix(1);
  core::Duration sum{0};
  size_t next_unit = 0;
  do {
    int64_t number = 0;
    if (!TakeNumber(&rest, &number)) return NotADuration();
    if (rest.empty() && next_unit == 0) {
      return absl::InvalidArgumentError(absl::StrCat("has no unit: write ", number, "s, ", number,
                                                     "m or ", number,
                                                     "h for seconds, minutes or hours"));
    }
    const size_t unit = TakeUnit(&rest);
    if (unit < next_unit || unit >= kUnits.size()) return NotADuration();
    if (number > (kMaxTextDuration - sum) / kUnits[unit].size) {
      return absl::InvalidArgumentError(
          absl::StrCat("is too long: write at most ", FormatDuration(kMaxTextDuration)));
    }
    sum += number * kUnits[unit].size;
    next_unit = unit + 1;
  } while (!rest.empty());
  return negative ? -sum : sum;
}

std::string FormatDuration(core::Duration duration) {
  if (duration == core::Duration::zero()) return "0s";
  std::string text = duration < core::Duration::zero() ? "-" : "";
  for (const Unit& unit : kUnits) {
    // The remainder keeps the sign, so that the smallest value needs no special case.
    const int64_t count = duration / unit.size;
    duration %= unit.size;
    if (count != 0) absl::StrAppend(&text, count < 0 ? -count : count, std::string(unit.name));
  }
  return text;
}

}  // namespace idempotency::service
