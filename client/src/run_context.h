// What the parts of one Run share: the wires, and what the caller asked for.
#ifndef IDEMPOTENCY_CLIENT_SRC_RUN_CONTEXT_H_
#define IDEMPOTENCY_CLIENT_SRC_RUN_CONTEXT_H_

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/src/renewal_timer.h"
#include "client/src/retry.h"
#include "idempotency/client.h"

namespace idempotency::internal {

// Thread safety: used by the thread of Run alone.
struct RunContext {
  std::shared_ptr<Connection> connection;
  std::shared_ptr<Environment> environment;
  RenewalTimer& timer;
  // All of the caller's; they outlive Run.
  const RunRequest& request;
  const EffectFunction& fn;
  const RunOptions& options;

  std::stop_token CancelToken() const {
    return options.cancellation.has_value() ? options.cancellation->token() : std::stop_token();
  }
  bool IsCancelled() const { return CancelToken().stop_requested(); }

  // Reports something that must be recorded, as patiently as settle_retry says, whether the caller
  // still waits for it or not.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Settle(
      absl::StatusOr<Response> (Connection::*method)(const Request&, const CallOptions&),
      const Request& what) const {
    return Retry<Response>(
        *environment, options.settle_retry, options.backoff, IsWorthPersisting,
        [&](const CallOptions& call) { return ((*connection).*method)(what, call); });
  }
};

// How a Run ends without an answer.
inline RunResult Stopped(StopReason reason, NextStep next_step, std::string detail) {
  RunResult result;
  result.stop = reason;
  result.next_step = next_step;
  result.detail = std::move(detail);
  return result;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_RUN_CONTEXT_H_
