#include "client/ctl/duration_text.h"

#include <array>
#include <cctype>
#include <cstdint>

namespace idempotency::ctl {
namespace {

struct Unit {
  std::string_view name;
  absl::Duration size;
};

// Largest first.
const std::array<Unit, 7>& Units() {
  static const std::array<Unit, 7> units = {{{"d", absl::Hours(24)},
                                             {"h", absl::Hours(1)},
                                             {"m", absl::Minutes(1)},
                                             {"s", absl::Seconds(1)},
                                             {"ms", absl::Milliseconds(1)},
                                             {"us", absl::Microseconds(1)},
                                             {"ns", absl::Nanoseconds(1)}}};
  return units;
}

// More digits than any duration needs; keeps the arithmetic far from overflow.
constexpr size_t kMaxDigits = 15;

std::string_view TakeDigits(std::string_view* text) {
  size_t length = 0;
  while (length < text->size() && std::isdigit(static_cast<unsigned char>((*text)[length]))) {
    ++length;
  }
  const std::string_view digits = text->substr(0, length);
  text->remove_prefix(length);
  return digits;
}

std::string_view TakeLetters(std::string_view* text) {
  size_t length = 0;
  while (length < text->size() && std::isalpha(static_cast<unsigned char>((*text)[length]))) {
    ++length;
  }
  const std::string_view letters = text->substr(0, length);
  text->remove_prefix(length);
  return letters;
}

std::optional<absl::Duration> UnitSize(std::string_view name) {
  for (const Unit& unit : Units()) {
    if (unit.name == name) return unit.size;
  }
  return std::nullopt;
}

int64_t ToNumber(std::string_view digits) {
  int64_t number = 0;
  for (const char digit : digits) number = number * 10 + (digit - '0');
  return number;
}

// One number with its unit, off the front of `text`.
std::optional<absl::Duration> TakeTerm(std::string_view* text) {
  const std::string_view whole = TakeDigits(text);
  std::string_view fraction;
  if (!text->empty() && text->front() == '.') {
    text->remove_prefix(1);
    fraction = TakeDigits(text);
    if (fraction.empty()) return std::nullopt;
  }
  if (whole.empty() || whole.size() > kMaxDigits || fraction.size() > kMaxDigits) {
    return std::nullopt;
  }
  const std::optional<absl::Duration> unit = UnitSize(TakeLetters(text));
  if (!unit) return std::nullopt;
  absl::Duration part = *unit * ToNumber(fraction);
  for (size_t i = 0; i < fraction.size(); ++i) part /= 10;
  return *unit * ToNumber(whole) + part;
}

// The largest unit that fits at least `minimum` times, from `first` on.
size_t LargestUnit(absl::Duration duration, size_t first) {
  for (size_t i = first; i < Units().size(); ++i) {
    if (duration >= Units()[i].size) return i;
  }
  return Units().size() - 1;
}

std::string Term(int64_t count, size_t unit) {
  return std::to_string(count) + std::string(Units()[unit].name);
}

}  // namespace

std::optional<absl::Duration> ParseDuration(std::string_view text) {
  if (text == "0") return absl::ZeroDuration();
  if (text.empty()) return std::nullopt;
  absl::Duration total;
  while (!text.empty()) {
    const std::optional<absl::Duration> term = TakeTerm(&text);
    if (!term) return std::nullopt;
    total += *term;
  }
  if (total > kMaxDuration) return std::nullopt;
  return total;
}

std::string DurationText(absl::Duration duration) {
  if (duration == absl::ZeroDuration()) return "0s";
  if (duration < absl::ZeroDuration()) return std::string("-").append(DurationText(-duration));
  std::string text;
  // One day reads better as 24h, and 36h better than 1d12h.
  for (size_t unit = duration < absl::Hours(48) ? 1 : 0; unit < Units().size(); ++unit) {
    absl::Duration rest;
    const int64_t count = absl::IDivDuration(duration, Units()[unit].size, &rest);
    if (count != 0) text += Term(count, unit);
    duration = rest;
  }
  return text;
}

std::string SpanText(absl::Duration duration) {
  if (duration < absl::ZeroDuration()) return std::string("-").append(SpanText(-duration));
  const size_t unit = LargestUnit(duration, duration < absl::Hours(48) ? 1 : 0);
  absl::Duration rest;
  const int64_t count = absl::IDivDuration(duration, Units()[unit].size, &rest);
  std::string text = Term(count, unit);
  // A second unit only where it still says something: 3m12s, but 12m and 45s.
  constexpr size_t kSeconds = 3;
  if (count < 10 && unit < kSeconds) {
    const int64_t next = absl::IDivDuration(rest, Units()[unit + 1].size, &rest);
    if (next != 0) text += Term(next, unit + 1);
  }
  return text;
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%E4Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::string AgeText(absl::Time time, absl::Time now) {
  const absl::Duration age = now - time;
  const std::string moment = " (" + TimeText(time) + ")";
  if (absl::AbsDuration(age) < absl::Seconds(1)) return "now" + moment;
  if (age > absl::ZeroDuration()) return SpanText(age) + " ago" + moment;
  return "in " + SpanText(-age) + moment;
}

}  // namespace idempotency::ctl
