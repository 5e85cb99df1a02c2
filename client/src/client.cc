#include "idempotency/client.h"

#include <list>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/src/renewal_timer.h"
#include "client/src/run.h"
#include "client/src/run_context.h"

namespace idempotency {

// --- Cancellation --------------------------------------------------------------------------------

struct Cancellation::State {
  using Callback = std::stop_callback<std::function<void()>>;

  std::stop_source source;
  absl::Mutex mutex;
  std::list<Callback> callbacks ABSL_GUARDED_BY(mutex);
};

Cancellation::Cancellation() : state_(std::make_shared<State>()) {}

void Cancellation::Cancel() { state_->source.request_stop(); }

bool Cancellation::cancelled() const { return state_->source.stop_requested(); }

std::stop_token Cancellation::token() const { return state_->source.get_token(); }

void Cancellation::OnCancel(std::function<void()> callback) {
  // Made without the lock: it may be called at once.
  std::list<State::Callback> made;
  made.emplace_back(token(), std::move(callback));
  absl::MutexLock lock(&state_->mutex);
  state_->callbacks.splice(state_->callbacks.end(), made);
}

// --- Client --------------------------------------------------------------------------------------

struct Client::Shared {
  Shared(std::shared_ptr<Connection> wires, std::shared_ptr<Environment> surroundings)
      : connection(std::move(wires)), environment(std::move(surroundings)), timer(environment) {}

  const std::shared_ptr<Connection> connection;
  const std::shared_ptr<Environment> environment;
  internal::RenewalTimer timer;
};

Client::Client(std::shared_ptr<Connection> connection, std::shared_ptr<Environment> environment)
    : shared_(std::make_shared<Shared>(std::move(connection), std::move(environment))) {}

RunResult Client::Run(const RunRequest& request, const EffectFunction& fn,
                      const RunOptions& options) const {
  // The client may be destroyed while this runs.
  const std::shared_ptr<Shared> shared = shared_;
  return internal::RunOnce(internal::RunContext{.connection = shared->connection,
                                                .environment = shared->environment,
                                                .timer = shared->timer,
                                                .request = request,
                                                .fn = fn,
                                                .options = options});
}

Connection& Client::connection() const { return *shared_->connection; }

std::string_view Name(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "NONE";
    case StopReason::kInProgress:
      return "IN_PROGRESS";
    case StopReason::kUnresolved:
      return "UNRESOLVED";
    case StopReason::kMismatch:
      return "MISMATCH";
    case StopReason::kAnswerGone:
      return "ANSWER_GONE";
    case StopReason::kAbandoned:
      return "ABANDONED";
    case StopReason::kTooOld:
      return "TOO_OLD";
    case StopReason::kNothingHappened:
      return "NOTHING_HAPPENED";
    case StopReason::kCancelled:
      return "CANCELLED";
    case StopReason::kUnavailable:
      return "UNAVAILABLE";
    case StopReason::kRefused:
      return "REFUSED";
    case StopReason::kInvalid:
      return "INVALID";
  }
  return "UNKNOWN";
}

}  // namespace idempotency
