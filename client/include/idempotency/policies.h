// How often and how patiently the client repeats its own calls to the service (never the
// caller's effect: that is the namespace's policy). Values: copy and change them.
//
//   RetryPolicy retry = RetryPolicy::UpTo(std::chrono::seconds(30));
//   BackoffPolicy backoff{.initial = 50ms, .maximum = 5s};
#ifndef IDEMPOTENCY_POLICIES_H_
#define IDEMPOTENCY_POLICIES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "idempotency/types.h"

namespace idempotency {

// When to stop repeating one call. Every call of the service may be repeated safely.
struct RetryPolicy {
  Duration total = std::chrono::seconds(30);
  uint32_t max_attempts = UINT32_MAX;

  static RetryPolicy UpTo(Duration total) { return RetryPolicy{.total = total}; }
  static RetryPolicy Never() { return RetryPolicy{.max_attempts = 1}; }

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

// Whether repeating may help: UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED by the network, and
// RESOURCE_EXHAUSTED with a reason that passes. A refusal for anything else is final.
bool IsTransient(const absl::Status& status);

// initial, initial * factor ... at most maximum, each reduced by up to `jitter` of itself. A
// retry_after that the service sends wins where it is longer.
struct BackoffPolicy {
  Duration initial = std::chrono::milliseconds(50);
  Duration maximum = std::chrono::seconds(5);
  double factor = 2.0;
  double jitter = 0.5;

  // before_attempt: 2 for the first repetition. random: in [0, 1).
  Duration Delay(uint32_t before_attempt, double random) const;

  friend bool operator==(const BackoffPolicy&, const BackoffPolicy&) = default;
};

// Time and chance, so that tests decide both.
//
// Thread safety: may be used from any thread.
class Environment {
 public:
  virtual ~Environment() = default;
  // Monotonic, counting suspend where the system can.
  virtual std::chrono::nanoseconds MonotonicNow() = 0;
  // For the age of an operation; nothing else is decided by it.
  virtual SystemTime WallNow() = 0;
  virtual void Sleep(Duration span) = 0;
  // Sleeps, but not much longer than until `stop` is requested: looks 10 times a second.
  virtual void SleepUnless(std::stop_token stop, Duration span);
  // In [0, 1).
  virtual double Random() = 0;
  // 16 random bytes as 32 hexadecimal digits, unguessable.
  virtual std::string RandomId() = 0;
};

// The system's.
std::shared_ptr<Environment> SystemEnvironment();

}  // namespace idempotency

#endif  // IDEMPOTENCY_POLICIES_H_
