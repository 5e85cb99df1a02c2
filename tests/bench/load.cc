#include "tests/bench/load.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace idempotency::bench {
namespace {

constexpr int64_t kHangNanos = 60 * kNanosPerSecond;
constexpr int64_t kLookNanos = kNanosPerSecond / 2;
// How long the pacing thread looks away where nothing can be started.
constexpr int64_t kMaxPaceNanos = kNanosPerMilli;
constexpr int kExitHangs = 3;
// Whatever is wrong then does not get better.
constexpr uint64_t kMaxFaults = 10'000;

}  // namespace

Load::Load(Plan* plan) : plan_(plan) {}

Meter* Load::NewMeter() { return &meters_.emplace_back(); }

void Load::AddSlot(Slot* slot, size_t callers, Meter* meter) {
  const size_t first = slots_.size() * callers;
  slot->meter = meter;
  for (size_t i = 0; i < callers; ++i) slot->callers.emplace_back(plan_, first + i);
  slot->active.reserve(callers);
  slot->open.resize(callers);
  slot->next.reserve(callers);
  slots_.push_back(slot);
}

Result Load::Run() {
  Open();
  live_ = static_cast<int64_t>(slots_.size());
  SetWindow();
  std::thread pacer;
  Result result;
  if (options().rate > 0) {
    {
      absl::MutexLock lock(&mutex_);
      free_ = slots_;
    }
    pacer = std::thread([this] { Pace(); });
  } else {
    for (Slot* slot : slots_) Start(slot, MonotonicNanos());
  }
  AwaitEnd(&result);
  if (pacer.joinable()) pacer.join();
  Close();
  for (const Meter& meter : meters_) result.meter.Merge(meter);
  if (options().operations > 0) result.seconds = Seconds(result.meter.last - window_.start);
  CheckHotKeys();
  return result;
}

void Load::SetWindow() {
  const bool counted = options().operations > 0;
  window_.start = MonotonicNanos();
  window_.measured_from = window_.start + (counted ? 0 : Nanos(options().warmup_seconds));
  window_.end = counted ? std::numeric_limits<int64_t>::max()
                        : window_.measured_from + Nanos(options().seconds);
  if (options().rate > 0) {
    // A message starts all its operations at once.
    const auto per_start = static_cast<double>(slots_.front()->callers.size());
    interval_ = std::max<int64_t>(1, Nanos(per_start / options().rate));
  }
}

void Load::AwaitEnd(Result* result) {
  RunsUntil(window_.measured_from);
  const Usage client_before = OwnUsage();
  const Usage server_before = UsageOf(options().server_pid);
  const MachineUsage all_before = UsageOfAll();
  const int64_t from = MonotonicNanos();
  RunsUntil(window_.end);
  result->seconds = Seconds(MonotonicNanos() - from);
  result->server = UsageOf(options().server_pid);
  result->client_cpu_seconds = OwnUsage().cpu_seconds - client_before.cpu_seconds;
  result->server_cpu_seconds = result->server.cpu_seconds - server_before.cpu_seconds;
  const MachineUsage all = UsageOfAll();
  const double had = result->seconds * all.cpus;
  if (had > 0 && options().server_pid > 0) {
    const double ours = result->client_cpu_seconds + result->server_cpu_seconds;
    result->others_share = (all.busy_seconds - all_before.busy_seconds - ours) / had;
  }
  if (had > 0) result->stolen_share = (all.stolen_seconds - all_before.stolen_seconds) / had;
  while (RunsUntil(std::numeric_limits<int64_t>::max())) {
  }
}

bool Load::RunsUntil(int64_t moment) {
  uint64_t seen = progress_;
  int64_t moved = MonotonicNanos();
  while (true) {
    const int64_t now = MonotonicNanos();
    if (now >= moment) return true;
    const int64_t look = std::min(moment - now, kLookNanos);
    if (ended_.WaitForNotificationWithTimeout(absl::Nanoseconds(look))) return false;
    if (std::exchange(seen, progress_.load()) != seen) moved = MonotonicNanos();
    if (MonotonicNanos() - moved < kHangNanos) continue;
    std::cerr << "nothing was answered for a minute; giving up." << std::endl;
    _exit(kExitHangs);
  }
}

bool Load::Begin(Slot* slot, int64_t begun) {
  slot->active.clear();
  for (uint32_t i = 0; i < slot->callers.size(); ++i) {
    if (!slot->callers[i].Begin()) break;
    slot->active.push_back(i);
  }
  slot->begun = slot->sent = begun;
  return !slot->active.empty();
}

void Load::OnCallsSent(Slot* slot) {
  slot->unanswered = slot->active.size();
  for (const uint32_t index : slot->active) slot->open[index] = 1;
}

void Load::Start(Slot* slot, int64_t begun) {
  if (!Begin(slot, begun)) return Retire();
  OnCallsSent(slot);
  Send(slot);
}

void Load::OnAnswer(Slot* slot, uint32_t index, const Answer& answer, int64_t now) {
  if (slot->open[index] == 0) {
    plan_->faults().Add("an answer to a call that was answered before");
    return;
  }
  const bool over = slot->callers[index].OnAnswer(answer);
  if (window_.Holds(now)) {
    slot->meter->calls.Record(now - slot->sent);
    if (over) slot->meter->operations.Record(now - slot->begun);
    slot->meter->last = now;
  }
  OnEnded(slot, index, over, now);
}

void Load::OnFailure(Slot* slot, uint32_t index, const std::string& why, int64_t now) {
  slot->callers[index].OnFailure(why);
  OnEnded(slot, index, true, now);
}

void Load::OnEnded(Slot* slot, uint32_t index, bool over, int64_t now) {
  slot->open[index] = 0;
  if (!over) slot->next.push_back(index);
  if (--slot->unanswered > 0) return;
  progress_.fetch_add(1, std::memory_order_relaxed);
  std::swap(slot->active, slot->next);
  slot->next.clear();
  if (slot->active.empty()) return OnFree(slot, now);
  slot->sent = now;
  OnCallsSent(slot);
  Send(slot);
}

bool Load::IsOver(int64_t now) const {
  return window_.IsOver(now) || plan_->faults().count() >= kMaxFaults;
}

void Load::OnFree(Slot* slot, int64_t now) {
  if (slot->lost || IsOver(now)) return Retire();
  if (interval_ == 0) return Start(slot, now);
  int64_t begun = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (!TakeDue(now, &begun)) {
      free_.push_back(slot);
      return;
    }
  }
  Start(slot, begun);
}

bool Load::TakeDue(int64_t now, int64_t* begun) {
  *begun = window_.start + static_cast<int64_t>(started_) * interval_;
  if (*begun > now) return false;
  ++started_;
  return true;
}

void Load::Pace() {
  const int64_t tick = int64_t{options().tick_us} * 1000;
  while (live_ > 0) {
    const int64_t now = MonotonicNanos();
    int64_t wake = now + kMaxPaceNanos;
    std::vector<std::pair<Slot*, int64_t>> due;
    {
      absl::MutexLock lock(&mutex_);
      int64_t begun = 0;  // stays zero where the load is over
      while (!free_.empty() && (IsOver(now) || TakeDue(now, &begun))) {
        due.emplace_back(free_.back(), std::exchange(begun, 0));
        free_.pop_back();
      }
      if (!free_.empty()) {
        wake = std::min(wake, window_.start + static_cast<int64_t>(started_) * interval_);
      }
    }
    for (const auto& [slot, begun] : due) {
      if (begun == 0) {
        Retire();
      } else {
        Start(slot, begun);
      }
    }
    if (live_ > 0) SleepUntil(std::max(wake, now + tick));
  }
}

void Load::Retire() {
  if (--live_ == 0) ended_.Notify();
}

void Load::CheckHotKeys() {
  if (options().mix != Mix::kHot || options().echo) return;
  std::vector<uint64_t> rounds(options().hot_keys);
  for (const Slot* slot : slots_) {
    for (const Caller& caller : slot->callers) {
      uint64_t& most = rounds[caller.number() % options().hot_keys];
      most = std::max(most, caller.rounds());
    }
  }
  uint64_t keys = 0;
  for (const uint64_t most : rounds) keys += most;
  if (plan_->acquired() == keys) return;
  plan_->faults().Add(
      absl::StrCat(keys, " hot keys were acquired ", plan_->acquired().load(), " times"));
}

}  // namespace idempotency::bench
