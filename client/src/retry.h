// Repeats one call of the service until it is answered, refused for good, or the policy ends.
//
// Thread safety: functions; the environment is shared.
#ifndef IDEMPOTENCY_CLIENT_SRC_RETRY_H_
#define IDEMPOTENCY_CLIENT_SRC_RETRY_H_

#include <chrono>
#include <cstdint>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "idempotency/connection.h"
#include "idempotency/policies.h"

namespace idempotency::internal {

// No try gets less: one that cannot succeed is none. So the last may end this much late.
inline constexpr Duration kShortestCallTimeout = std::chrono::seconds(1);

// What is left of a policy, from now on, by the environment's monotonic clock.
class RetryClock {
 public:
  RetryClock(Environment& environment, const RetryPolicy& policy, const BackoffPolicy& backoff);

  // Of the next try.
  Duration Timeout() const;
  // Lets it end earlier than the policy says.
  void EndWithin(Duration span);
  // Whether there is another try after this failure; sleeps until it is due, or until `stop` is
  // requested. `may_pass`: whether repeating can help.
  bool Again(const absl::Status& failure, bool may_pass, const std::stop_token& stop = {});

 private:
  Duration Left() const;

  Environment& environment_;
  const RetryPolicy policy_;
  const BackoffPolicy backoff_;
  std::chrono::nanoseconds end_;
  uint32_t attempts_ = 0;
};

// Whether the service itself has refused in a way that does not pass. What anything on the way to
// it says (UNKNOWN, INTERNAL, UNAUTHENTICATED ...) may be different the next time.
bool IsFinalRefusal(const absl::Status& status);

// Whether repeating can help where something has happened that must be recorded: whatever is not
// a final refusal. Before that, IsTransient says.
inline bool IsWorthPersisting(const absl::Status& status) { return !IsFinalRefusal(status); }

// call(options) -> StatusOr<Response>. The last answer is returned, whatever it is.
template <typename Response, typename Call>
absl::StatusOr<Response> Retry(Environment& environment, const RetryPolicy& policy,
                               const BackoffPolicy& backoff, bool (*may_pass)(const absl::Status&),
                               Call call) {
  RetryClock clock(environment, policy, backoff);
  for (;;) {
    absl::StatusOr<Response> response = call(CallOptions{.timeout = clock.Timeout()});
    if (response.ok() || !clock.Again(response.status(), may_pass(response.status()))) {
      return response;
    }
  }
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_RETRY_H_
