// Points and spans of time as the core sees them: milliseconds since the Unix epoch.
// The core never asks for the time; whoever calls it says what time it is (`Now`).
#ifndef IDEMPOTENCY_KEYSTORE_CORE_TIME_H_
#define IDEMPOTENCY_KEYSTORE_CORE_TIME_H_

#include <algorithm>
#include <chrono>

namespace idempotency::core {

using Duration = std::chrono::milliseconds;
// A default-constructed Time (the epoch) means "not set"; no record is that old.
using Time = std::chrono::sys_time<Duration>;

// The last millisecond that google.protobuf.Timestamp can hold (9999-12-31T23:59:59.999Z).
inline constexpr Time kMaxTime{Duration{253'402'300'799'999}};

constexpr bool IsSet(Time time) { return time != Time{}; }

// time + span, held within (epoch, kMaxTime]. Negative spans are taken as zero.
constexpr Time Add(Time time, Duration span) {
  if (span <= Duration::zero()) return time;
  return span >= kMaxTime - time ? kMaxTime : time + span;
}

// What is left from `now` until `end`; never negative.
constexpr Duration Remaining(Time end, Time now) {
  return end > now ? end - now : Duration::zero();
}

// What the clock says, with its doubt. On one machine earliest == latest; where several
// replicas decide, they are the clock skew apart. A holder of a lease is dead when
// `latest` has reached its end; others may act when `earliest` has.
struct Now {
  Time earliest;
  Time latest;
  // The wall clock as the kernel gives it. It may be ahead of the guarded clock after a
  // jump; the provider's protection is judged by the later of the two.
  Time wall;
  // The wall clock has jumped and nobody has confirmed it: nothing expires, nothing is
  // forgotten and no attempt is granted from UNRESOLVED. Leases go on by elapsed time.
  bool in_doubt = false;

  friend bool operator==(const Now&, const Now&) = default;
};

// One clock that is certain: the usual case, and the one in most tests.
constexpr Now At(Time time) { return Now{time, time, time, false}; }

// The same moment, never before `floor`: a record's own last change holds time up, so that
// time never runs backwards for a record, not even across a restart or on another replica.
// The doubt stays as wide as it was: a change is stamped with `latest`, and others may not
// act on it as if that were certain.
constexpr Now NotBefore(Now now, Time floor) {
  const Duration behind = Remaining(floor, now.latest);
  now.earliest += behind;
  now.latest += behind;
  now.wall = std::max(now.wall, floor);
  return now;
}

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_TIME_H_
