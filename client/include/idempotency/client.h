// Wraps one outbound effect in the whole protocol:
//
//   reserve -> (replay | wait | look up | stop with what to do) -> renew in the background
//           -> call fn(attempt) -> classify its result -> complete | release | mark unresolved
//
//   auto client = idempotency::Client(idempotency::MakeConnection({.target = "127.0.0.1:7420"}));
//   idempotency::RunResult result = client.Run(
//       {.id = {"payments", account, order_key},            // made and saved before the first try
//        .fingerprint = idempotency::FingerprintBytes("POST", "/v1/charges", body)},
//       [&](idempotency::Attempt& attempt) {
//         return Charge(body, attempt.provider_key());       // -> EffectResult
//       });
//   if (result.has_answer()) return result.response;
//   return Explain(result.stop, result.next_step, result.detail);
//
// What it does not do: it never makes a key, never repeats fn inside one Run, and cannot stop
// a paused process from acting after its lease. Hand fencing_token() or provider_key() to the
// other side.
//
// Thread safety: a Client may be used from any thread and copied; copies share everything.
#ifndef IDEMPOTENCY_CLIENT_H_
#define IDEMPOTENCY_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "idempotency/classification.h"
#include "idempotency/connection.h"
#include "idempotency/policies.h"
#include "idempotency/types.h"

namespace idempotency {

// Ends a Run from outside (a caller that has gone, a process that shuts down; one for any number
// of Runs): before the effect is dispatched the key is freed, after that it is held and settled
// all the same.
//
// Thread safety: may be used from any thread; copies share one state.
class Cancellation {
 public:
  Cancellation();
  void Cancel();
  bool cancelled() const;
  // For std::stop_callback, which ends a subscription where it leaves its scope.
  std::stop_token token() const;
  // Called once, at once where it is cancelled already; on the cancelling thread. Kept for as
  // long as the last copy lives.
  void OnCancel(std::function<void()> callback);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// What fn is given: one attempt that holds the lease. Lives as long as fn runs.
//
// Thread safety: may be used from any thread while fn runs.
class Attempt {
 public:
  virtual ~Attempt() = default;

  virtual const OperationId& id() const = 0;
  // From 1. Above 1 an earlier attempt may have had its effect.
  virtual uint32_t number() const = 0;
  // For downstream systems that can refuse an older one.
  virtual uint64_t fencing_token() const = 0;
  // The key to send to the provider: the same for every attempt of this operation (keys.h).
  virtual const std::string& provider_key() const = 0;
  // What an earlier attempt saved.
  virtual const std::optional<std::string>& progress() const = 0;

  // True as soon as the lease is lost, was not renewed in time, call_timeout has passed, or the
  // caller cancelled: begin nothing irreversible any more.
  virtual bool should_stop() const = 0;
  // The same to subscribe to; right for a callback that refers to what fn has on its stack:
  //
  //   grpc::ClientContext context;
  //   std::stop_callback on_stop(attempt.stop_token(), [&] { context.TryCancel(); });
  //
  // Callbacks run on any thread and must not block.
  virtual std::stop_token stop_token() const = 0;
  // Called once when should_stop turns true, at once where it is; on any thread, and not after
  // Run has returned. It may run up to then, so it must not refer to what fn has on its stack.
  virtual void OnStop(std::function<void()> callback) = 0;
  // What is left of the lease by the own monotonic clock, the safety margin taken off.
  virtual Duration remaining() const = 0;

  // Under dispatch_later: says that the outbound call starts. It must not start unless this
  // returns OK; where it does not, fn returns what it got. Otherwise it is OK at once.
  virtual absl::Status Dispatch() = 0;
  // Keeps up to 4 KiB for the next attempt. Waits for the service, at most while the lease lasts.
  virtual absl::Status SaveProgress(std::string progress) = 0;
};

using EffectFunction = std::function<EffectResult(Attempt&)>;

// What a look-up found out about an operation whose outcome is unknown.
struct LookUp {
  enum class Found : uint8_t { kUnknown, kHappened, kNotThere };
  Found found = Found::kUnknown;
  // kHappened.
  Verdict verdict = Verdict::kSucceeded;
  std::optional<CachedResponse> response;
  std::string provider_request_id;
  // What was asked and what it said, for the history.
  std::string evidence;
};
using LookUpFunction = std::function<LookUp(const Operation&)>;

struct RunRequest {
  OperationId id;
  std::optional<Fingerprint> fingerprint;
  // When the caller first sent this operation; lets the service say TOO_OLD instead of guessing.
  std::optional<SystemTime> first_sent;
  std::optional<Duration> lease_duration;
  // How long to wait where another attempt is at it. Zero: stop at once.
  Duration wait = std::chrono::seconds(20);
  // How long fn may take at most; then Attempt::should_stop turns true. With renewal off it must
  // fit into the lease. Unset: while the lease lasts.
  std::optional<Duration> call_timeout;
  std::string operation_ref;
  std::string traceparent;
  std::vector<std::pair<std::string, std::string>> labels;
  // fn calls attempt.Dispatch() before the outbound call; a crash before that frees the key.
  bool dispatch_later = false;
  // The caller has found out that an EXPIRED or TOO_OLD operation may be done anew.
  bool start_over = false;
};

struct RunOptions {
  Classifier classify = ClassifyGrpc;
  // Asked on RECONCILE_FIRST, on LOOK_UP_ANSWER, and after an unknown outcome of this Run's own
  // attempt. Of an operation that is TOO_OLD it is given no more than the id, and kNotThere then
  // starts it over. On this thread.
  LookUpFunction look_up;
  // Settle what look_up found, in this name; needs the reconciler role. Empty: only report it.
  std::string reconciler;
  // Keep the lease alive while fn runs and its result is reported.
  bool renew = true;
  // For reserve, and for renewals that somebody waits for. The wait of the request comes on top.
  RetryPolicy retry;
  // For complete, release and mark unresolved: these do not depend on the caller any more.
  RetryPolicy settle_retry = RetryPolicy::UpTo(std::chrono::minutes(2));
  BackoffPolicy backoff;
  // Go on without protection where the service cannot be reached, or says that it is overloaded
  // or has no store: the effect may then happen twice. A refusal of any other kind stops all the
  // same. Off: fail closed.
  bool allow_unprotected = false;
  std::optional<Cancellation> cancellation;
};

// Why there is no answer.
enum class StopReason : uint8_t {
  kNone = 0,
  kInProgress,       // another attempt is at it: come back later
  kUnresolved,       // its outcome is unknown: see next_step
  kMismatch,         // the key belongs to another request
  kAnswerGone,       // it ended, and the answer is not kept: look it up
  kAbandoned,        // closed without a known outcome
  kTooOld,           // nothing is known of an old operation
  kNothingHappened,  // this attempt certainly had no effect: try again later
  kCancelled,        // by the caller, before the effect was dispatched
  kUnavailable,      // the service could not be reached, or not work: nothing was started
  kRefused,          // the service refused: see refusal
  kInvalid,          // the request cannot work: see detail
};
// "IN_PROGRESS", "ANSWER_GONE" ...
std::string_view Name(StopReason reason);

struct RunResult {
  // The answer: of this attempt, or replayed. Also what came instead of one, such as a 500, where
  // it stopped as kUnresolved or kNothingHappened.
  std::optional<CachedResponse> response;
  Verdict verdict = Verdict::kUnspecified;
  bool replayed = false;
  bool has_answer() const { return stop == StopReason::kNone; }

  StopReason stop = StopReason::kNone;
  NextStep next_step = NextStep::kUnspecified;
  std::optional<Duration> retry_after;
  std::optional<Refusal> refusal;
  // How fn's call ended where it did not answer.
  absl::Status effect_error;
  // How this Run ended is not recorded: the service has not confirmed it within the settle
  // policy, or has refused (see refusal). Duplicates will find the operation pending or
  // unresolved, or as somebody else has settled it.
  bool record_open = false;
  // It ran without protection (RunOptions::allow_unprotected).
  bool unprotected = false;
  std::optional<Operation> operation;
  // One sentence for a log or a person.
  std::string detail;
};

class Client {
 public:
  explicit Client(std::shared_ptr<Connection> connection,
                  std::shared_ptr<Environment> environment = SystemEnvironment());

  // Calls fn at most once, on this thread. An exception of fn counts as an unknown outcome,
  // is recorded, and goes on to the caller.
  RunResult Run(const RunRequest& request, const EffectFunction& fn,
                const RunOptions& options = {}) const;

  // The connection, for calls that Run does not wrap.
  Connection& connection() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_CLIENT_H_
