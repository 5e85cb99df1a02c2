#include "service/ticker.h"

#include <algorithm>
#include <utility>

namespace idempotency::service {
namespace {

constexpr core::Duration kSecond = std::chrono::seconds(1);
constexpr core::Duration kSweepInterval = std::chrono::minutes(1);
// Also where the clock stands still, or is not yet where it should be.
constexpr absl::Duration kShortestSleep = absl::Milliseconds(1);

}  // namespace

Ticker::Ticker(keystore::KeyStore* store, keystore::Clock* clock, Hooks hooks)
    : store_(store), clock_(clock), hooks_(std::move(hooks)) {}

Ticker::~Ticker() { Stop(); }

void Ticker::Start() {
  timers_ = std::thread([this] { RunTimers(); });
  seconds_ = std::thread([this] { RunSeconds(); });
}

void Ticker::Stop() {
  if (!timers_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  timers_.join();
  seconds_.join();
}

void Ticker::Wake() {
  absl::MutexLock lock(&mutex_);
  woken_ = true;
}

void Ticker::RunTimers() {
  do {
    store_->RunTimers();
    SweepIfDue();
  } while (SleepUntilWoken(UntilNextTimer()));
}

void Ticker::RunSeconds() {
  do {
    const core::Now now = clock_->Read();
    NoteDoubt(now.in_doubt);
    if (hooks_.on_second) hooks_.on_second(now.latest);
  } while (SleepForASecond());
}

void Ticker::SweepIfDue() {
  const core::Time now = clock_->Read().latest;
  if (now < next_sweep_) return;
  next_sweep_ = now + kSweepInterval;
  store_->Sweep();
}

void Ticker::NoteDoubt(bool in_doubt) {
  if (in_doubt == in_doubt_) return;
  in_doubt_ = in_doubt;
  if (hooks_.on_doubt) hooks_.on_doubt(in_doubt);
}

absl::Duration Ticker::UntilNextTimer() const {
  const core::Time now = clock_->Read().latest;
  core::Duration left = kSecond;
  if (const auto next = store_->NextTimer()) left = std::min(left, core::Remaining(*next, now));
  return std::max(absl::Milliseconds(left.count()), kShortestSleep);
}

bool Ticker::SleepUntilWoken(absl::Duration most) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &Ticker::IsWoken), most);
  woken_ = false;
  return !stopping_;
}

bool Ticker::SleepForASecond() {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&stopping_), absl::Milliseconds(kSecond.count()));
}

}  // namespace idempotency::service
