#include "service/wire_time.h"

#include <cstdint>

namespace idempotency::service {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kNanosPerMilli = 1'000'000;
// What google.protobuf.Duration is defined for: about 10,000 years.
constexpr int64_t kMaxSeconds = 315'576'000'000;

}  // namespace

Span ToSpan(const google::protobuf::Duration& duration) {
  int64_t seconds = duration.seconds();
  int64_t nanos = duration.nanos();
  if (seconds > kMaxSeconds) return Span{false, std::chrono::seconds(kMaxSeconds)};
  if (seconds < -kMaxSeconds) return Span{true, core::Duration::zero()};
  // Signs that disagree, or nanos beyond a second, are malformed and yet mean something.
  seconds += nanos / kNanosPerSecond;
  nanos %= kNanosPerSecond;
  if (nanos < 0) {
    seconds -= 1;
    nanos += kNanosPerSecond;
  }
  if (seconds < 0) return Span{true, core::Duration::zero()};
  const int64_t millis = (nanos + kNanosPerMilli - 1) / kNanosPerMilli;
  return Span{false, std::chrono::seconds(seconds) + std::chrono::milliseconds(millis)};
}

bool IsWellFormed(const google::protobuf::Duration& duration) {
  const int64_t seconds = duration.seconds();
  const int64_t nanos = duration.nanos();
  const bool signs_agree = !(seconds > 0 && nanos < 0) && !(seconds < 0 && nanos > 0);
  return signs_agree && seconds >= -kMaxSeconds && seconds <= kMaxSeconds &&
         nanos > -kNanosPerSecond && nanos < kNanosPerSecond;
}

void SetDuration(core::Duration span, google::protobuf::Duration* out) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(span);
  out->set_seconds(seconds.count());
  out->set_nanos(static_cast<int32_t>(std::chrono::nanoseconds(span - seconds).count()));
}

void SetTimestamp(core::Time time, google::protobuf::Timestamp* out) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  out->set_seconds(seconds.time_since_epoch().count());
  out->set_nanos(static_cast<int32_t>(std::chrono::nanoseconds(time - seconds).count()));
}

}  // namespace idempotency::service
