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
  thread_ = std::thread([this] { Loop(); });
}

void Ticker::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Ticker::Wake() {
  absl::MutexLock lock(&mutex_);
  woken_ = true;
}

void Ticker::Loop() {
  do {
    RunDue();
  } while (Sleep(UntilNext()));
}

void Ticker::RunDue() {
  store_->RunTimers();
  const core::Now now = clock_->Read();
  if (now.in_doubt != in_doubt_) {
    in_doubt_ = now.in_doubt;
    if (hooks_.on_doubt) hooks_.on_doubt(in_doubt_);
  }
  if (now.latest >= next_sweep_) {
    next_sweep_ = now.latest + kSweepInterval;
    store_->Sweep();
  }
  if (now.latest >= next_second_) {
    next_second_ = now.latest + kSecond;
    if (hooks_.on_second) hooks_.on_second(now.latest);
  }
}

absl::Duration Ticker::UntilNext() const {
  const core::Time now = clock_->Read().latest;
  core::Duration left = kSecond;
  if (const auto next = store_->NextTimer()) left = std::min(left, core::Remaining(*next, now));
  return std::max(absl::Milliseconds(left.count()), kShortestSleep);
}

bool Ticker::Sleep(absl::Duration most) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &Ticker::IsWoken), most);
  woken_ = false;
  return !stopping_;
}

}  // namespace idempotency::service
