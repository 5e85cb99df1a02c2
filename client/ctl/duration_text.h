// Durations and moments as people write and read them.
#ifndef IDEMPOTENCY_CLIENT_CTL_DURATION_TEXT_H_
#define IDEMPOTENCY_CLIENT_CTL_DURATION_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace idempotency::ctl {

// The most that a google.protobuf.Duration can hold: about 10,000 years.
inline constexpr absl::Duration kMaxDuration = absl::Seconds(315'576'000'000);

// Numbers with a unit, one after the other: "30s", "500ms", "24h", "1h30m", "1.5s", "30d".
// Units: ns, us, ms, s, m, h, d. A plain "0" needs none. Nothing where the text is anything
// else, negative, or over kMaxDuration.
std::optional<absl::Duration> ParseDuration(std::string_view text);

// Exact, and good for ParseDuration: "1m30s", "24h", "30d" (days from two on).
std::string DurationText(absl::Duration duration);

// Rough, the largest unit or two: "450ms", "45s", "3m", "3m12s", "5h20m", "12d".
std::string SpanText(absl::Duration duration);

// "2026-01-02T03:04:05Z"
std::string TimeText(absl::Time time);

// "3m ago (2026-01-02T03:04:05Z)", "in 29s (...)", "now (...)" within a second.
std::string AgeText(absl::Time time, absl::Time now);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_DURATION_TEXT_H_
