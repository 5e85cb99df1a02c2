#include "client/src/renewal_timer.h"

#include <algorithm>
#include <map>

#include "absl/time/time.h"

namespace idempotency::internal {
namespace {

using std::chrono::nanoseconds;

// While something is to come, the thread looks at the clock now and then: a machine that was
// asleep wakes up at another time than a wait ends.
constexpr nanoseconds kLongestWait = std::chrono::seconds(1);

}  // namespace

struct RenewalTimer::State {
  explicit State(std::shared_ptr<Environment> clock) : environment(std::move(clock)) {}

  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return news || stopping; }

  const std::shared_ptr<Environment> environment;
  absl::Mutex mutex;
  std::map<Place, std::function<void()>> actions ABSL_GUARDED_BY(mutex);
  uint64_t last_id ABSL_GUARDED_BY(mutex) = 0;
  // Actions that run now, and on which thread.
  std::map<Place, std::thread::id> running ABSL_GUARDED_BY(mutex);
  bool news ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
};

RenewalTimer::RenewalTimer(std::shared_ptr<Environment> environment, Drive drive)
    : drive_(drive), state_(std::make_shared<State>(std::move(environment))) {}

RenewalTimer::~RenewalTimer() {
  std::map<Place, std::function<void()>> dropped;
  {
    absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
    dropped.swap(state_->actions);
  }
  std::thread thread;
  {
    absl::MutexLock lock(&thread_mutex_);
    thread.swap(thread_);
  }
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();
  } else {
    thread.join();
  }
}

RenewalTimer::Place RenewalTimer::At(nanoseconds due, std::function<void()> action) {
  Place place;
  {
    absl::MutexLock lock(&state_->mutex);
    place = Place{due, ++state_->last_id};
    state_->actions.emplace(place, std::move(action));
    state_->news = true;
  }
  if (drive_ == Drive::kManual) return place;
  absl::MutexLock lock(&thread_mutex_);
  if (!thread_.joinable()) thread_ = std::thread([state = state_] { Loop(*state); });
  return place;
}

void RenewalTimer::Cancel(Place place) {
  // What the action holds may be more than it looks like: destroyed without the lock.
  std::function<void()> dropped;
  absl::MutexLock lock(&state_->mutex);
  if (const auto action = state_->actions.find(place); action != state_->actions.end()) {
    dropped = std::move(action->second);
    state_->actions.erase(action);
    return;
  }
  const auto running = state_->running.find(place);
  if (running == state_->running.end() || running->second == std::this_thread::get_id()) return;
  const auto has_run = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
    return !state_->running.contains(place);
  };
  state_->mutex.Await(absl::Condition(&has_run));
}

void RenewalTimer::RunDue() { RunDue(*state_); }

void RenewalTimer::RunDue(State& state) {
  for (;;) {
    Place place;
    std::function<void()> action;
    {
      absl::MutexLock lock(&state.mutex);
      const auto first = state.actions.begin();
      if (first == state.actions.end() || first->first.first > state.environment->MonotonicNow()) {
        return;
      }
      place = first->first;
      action = std::move(first->second);
      state.running.emplace(place, std::this_thread::get_id());
      state.actions.erase(first);
    }
    action();
    action = nullptr;
    absl::MutexLock lock(&state.mutex);
    state.running.erase(place);
  }
}

void RenewalTimer::Loop(State& state) {
  for (;;) {
    {
      absl::MutexLock lock(&state.mutex);
      nanoseconds wait = nanoseconds::max();
      if (!state.actions.empty()) {
        const nanoseconds due = state.actions.begin()->first.first;
        wait = std::clamp(due - state.environment->MonotonicNow(), nanoseconds(0), kLongestWait);
      }
      state.mutex.AwaitWithTimeout(
          absl::Condition(&state, &State::HasNews),
          wait == nanoseconds::max() ? absl::InfiniteDuration() : absl::FromChrono(wait));
      state.news = false;
      if (state.stopping) return;
    }
    RunDue(state);
  }
}

}  // namespace idempotency::internal
