// The first half of a Run: reserves until the lease is held, or until it is clear how the Run ends
// without it.
#ifndef IDEMPOTENCY_CLIENT_SRC_ACQUIRE_H_
#define IDEMPOTENCY_CLIENT_SRC_ACQUIRE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/src/held_attempt.h"
#include "client/src/run_context.h"
#include "idempotency/client.h"

namespace idempotency::internal {

// An answer that took longer than this may have waited for another attempt to end.
inline constexpr Duration kPromptAnswer = std::chrono::milliseconds(250);
// How long a Run that was cancelled goes on asking what its Reserve has got.
inline constexpr Duration kAskAfterCancel = std::chrono::seconds(5);
// How often look_up is asked before a Run gives up settling what others keep changing.
inline constexpr uint32_t kMaxLookUps = 10;

// Exactly one of the three.
struct Acquisition {
  std::shared_ptr<HeldAttempt> held;
  std::optional<RunResult> ended;
  bool unprotected = false;
};

// Thread safety: used by one thread. The context must outlive it.
class Acquirer {
 public:
  explicit Acquirer(const RunContext& context);

  Acquisition Acquire();

 private:
  // nullopt: ask again.
  using Step = std::optional<Acquisition>;

  absl::StatusOr<ReserveResponse> Reserve();
  ReserveRequest MakeReserve() const;
  Step OnFailed(const absl::Status& failure);
  Step OnReserved(const ReserveResponse& response);

  Step Hold(const ReserveResponse& response);
  // Whether the lease is renewed before anything starts: one that was waited for may be as good as
  // over, and one that is not the first answer's has run for a while.
  bool IsInDoubt(const ReserveResponse& response, const HeldAttempt& held) const;
  Step Confirm(std::shared_ptr<HeldAttempt> held);
  // This attempt's own lease lapsed before its answer came: nothing has been started.
  Step GiveBackLapsed(const ReserveResponse& response);
  Step AskAgain(const ReserveResponse& response);

  Step LookUpAnswer(const ReserveResponse& response);
  Step Reconcile(const ReserveResponse& response);
  Step SettleFound(const Operation& operation, const LookUp& found);
  Step SettleNotThere(const ReserveResponse& response, const LookUp& found);

  // What is left of the caller's wait.
  Duration WaitLeft() const;
  bool Release(uint64_t fencing_token, std::string detail) const;

  const RunContext& context_;
  const std::chrono::nanoseconds wait_end_;
  // Of the Reserve that was answered last.
  std::string attempt_id_;
  std::chrono::nanoseconds sent_at_{0};
  bool waited_ = false;

  bool start_over_;
  uint32_t asked_again_ = 0;
  uint32_t look_ups_ = 0;
  uint32_t lost_attempts_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_ACQUIRE_H_
