// The service's only clock. Everything else is told what time it is.
//
// GuardedClock turns the kernel's clocks into a core::Now that never runs backwards and goes
// on by elapsed time. Where the wall clock is more than core::kMaxClockJump ahead of elapsed
// time (at start: ahead of the high-water mark that the last run left), the time is in doubt
// until the kernel says that its clock is synchronised or an operator confirms it.
#ifndef IDEMPOTENCY_KEYSTORE_CLOCK_H_
#define IDEMPOTENCY_KEYSTORE_CLOCK_H_

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/time.h"

namespace idempotency::keystore {

// Thread safety: every implementation may be asked from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual core::Now Read() = 0;
};

// What the kernel says at one moment.
struct KernelTime {
  core::Time wall;
  // Time since boot, suspend included (CLOCK_BOOTTIME); rises also while the wall is set.
  core::Duration boot{0};
  // The kernel's clock discipline reports a synchronised clock. Looked at where the wall clock
  // has jumped, and only there.
  bool synchronised = false;
};

// Asks the kernel for the two clocks, which takes no system call; `synchronised` is left false.
// With the next, the only place besides main.cc that may.
KernelTime ReadKernelTime();
// Time that has gone by since some moment: to measure how long something has taken, for metrics,
// and for no decision. Takes no system call.
std::chrono::nanoseconds ReadElapsed();
// Asks how the kernel's clock is disciplined: a system call.
bool KernelSaysSynchronised();

// The pure part: feed it readings, it says what time it is.
class ClockGuard {
 public:
  // high_water: the latest guarded time that an earlier run may have used; unset: none.
  ClockGuard(const KernelTime& first, core::Time high_water);

  // Readings must be given in the order in which they were taken.
  core::Now Advance(const KernelTime& reading);

  // Whether Advance would look at `synchronised`.
  bool IsJump(const KernelTime& reading) const;

  // An operator says that the wall clock was right at the last reading. A jump still to come
  // is in doubt again.
  void Confirm() { guarded_ = std::max(guarded_, wall_); }

 private:
  // Guarded time as elapsed time alone makes it.
  core::Time ElapsedTo(const KernelTime& reading) const;

  core::Time guarded_;
  core::Time wall_;
  core::Duration boot_;
};

class GuardedClock final : public Clock {
 public:
  explicit GuardedClock(core::Time high_water);

  core::Now Read() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Confirm() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  core::Now Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  ClockGuard guard_ ABSL_GUARDED_BY(mutex_);
};

// Time stands still until a test moves it.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(core::Now now) : now_(now) {}
  explicit ManualClock(core::Time time) : now_(core::At(time)) {}

  core::Now Read() override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  void Set(core::Now now) {
    absl::MutexLock lock(&mutex_);
    now_ = now;
  }
  void Advance(core::Duration span) {
    absl::MutexLock lock(&mutex_);
    now_.earliest += span;
    now_.latest += span;
    now_.wall += span;
  }

 private:
  absl::Mutex mutex_;
  core::Now now_ ABSL_GUARDED_BY(mutex_);
};

// The high-water mark of the guarded clock in a small checksummed file. It is rewritten about
// once a second; a lost one costs monotonic reads across a restart, never a lease (records
// hold time up themselves).
class ClockMark {
 public:
  explicit ClockMark(std::string path) : path_(std::move(path)) {}
  // Unset where there is no file; DATA_LOSS where it is not one of ours.
  absl::Status Load(core::Time* mark) const;
  absl::Status Store(core::Time mark) const;

 private:
  std::string path_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_CLOCK_H_
