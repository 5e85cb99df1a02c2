// Durations as people write them: `24h`, `30s`, `500ms`, `1h30m`, `7d`.
//
//   duration = "0" | ["-"] part {part}      part = digits unit
//   unit     = "d" | "h" | "m" | "s" | "ms"; each at most once, the largest first
//
// A day is 24 hours. Whole numbers only; nothing below a millisecond; no spaces.
#ifndef IDEMPOTENCY_SERVICE_DURATION_TEXT_H_
#define IDEMPOTENCY_SERVICE_DURATION_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "keystore/core/time.h"

namespace idempotency::service {

// The longest duration that can be written, either way: what google.protobuf.Duration holds.
inline constexpr core::Duration kMaxTextDuration = std::chrono::hours(24) * 3'652'500;

// INVALID_ARGUMENT where `text` is none; the message goes on from the quoted text, as in
// "'24' has no unit: write 24s ...". A negative duration is one: whether it may stand where it
// does is the caller's to say.
absl::StatusOr<core::Duration> ParseDuration(std::string_view text);

// What ParseDuration reads back as the same duration: `36h` is `1d12h`, nothing is `0s`.
std::string FormatDuration(core::Duration duration);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_DURATION_TEXT_H_
