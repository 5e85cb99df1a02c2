#include "tests/proof/sim/sim_clock.h"

#include <algorithm>

#include "tests/keystore/core/core_text.h"

namespace idempotency::proof {
namespace {

keystore::KernelTime KernelOf(const History& history, const Machine& machine) {
  return keystore::KernelTime{.wall = core::kStart + history.at + machine.wall_offset,
                              .boot = std::chrono::hours(1) + history.at,
                              .synchronised = machine.synchronised};
}

}  // namespace

SimClock::SimClock(History* history, size_t replica, const Machine* machine, core::Time high_water,
                   ClockMistake mistake)
    : history_(history),
      replica_(replica),
      machine_(machine),
      mistake_(mistake),
      guard_(KernelOf(*history, *machine),
             mistake == ClockMistake::kForgetsItsMark ? core::Time{} : high_water) {}

keystore::KernelTime SimClock::Kernel() const {
  keystore::KernelTime kernel = KernelOf(*history_, *machine_);
  if (mistake_ == ClockMistake::kTrustsJumps) kernel.synchronised = true;
  if (mistake_ == ClockMistake::kConfirmedForEver && confirmed_) kernel.synchronised = true;
  if (mistake_ == ClockMistake::kStopsInSuspend) kernel.boot -= machine_->suspended;
  return kernel;
}

core::Now SimClock::Wrong(core::Now now) {
  if (mistake_ == ClockMistake::kRunsBack) {
    const core::Time wall = KernelOf(*history_, *machine_).wall;
    if (wall < now.latest) return core::At(wall);
  }
  if (mistake_ == ClockMistake::kStopsInDoubt) {
    if (!now.in_doubt || !core::IsSet(frozen_)) frozen_ = now.latest;
    now.earliest = now.latest = frozen_;
  }
  return now;
}

core::Now SimClock::Read() {
  core::Now now = Wrong(guard_.Advance(Kernel()));
  if (now.in_doubt && !was_in_doubt_) ++history_->counts.doubts;
  was_in_doubt_ = now.in_doubt;
  last_ = now;
  last_at_ = history_->at;
  now.earliest -= history_->clock_skew;
  auto& told = history_->told[replica_];
  if (told.empty() || told.back().now != now) {
    told.push_back(Told{.seq = history_->Next(), .at = history_->at, .now = now});
  }
  return last_;
}

void SimClock::Confirm() {
  guard_.Advance(Kernel());
  guard_.Confirm();
  confirmed_ = true;
}

}  // namespace idempotency::proof
