// The service's sense of time passing: ends waits and finds lapses when they are due, gives
// back space, keeps the clock's mark, and notices an engine that has died in the background.
//
// Two threads. One sleeps until the next time that the key store names, and is woken where an
// earlier one comes up; it may find itself running other callers' commands for as long as there
// are any, so what is due every second has the other. How long they sleep is real time; what is
// due is decided by the service's clock.
#ifndef IDEMPOTENCY_SERVICE_TICKER_H_
#define IDEMPOTENCY_SERVICE_TICKER_H_

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "keystore/clock.h"
#include "keystore/key_store.h"

namespace idempotency::service {

// Thread safety: Wake may be called from any thread.
class Ticker {
 public:
  struct Hooks {
    // About once a second: the time that may have been used. Must not block.
    std::function<void(core::Time)> on_second;
    // The clock has come to be, or is no more, in doubt.
    std::function<void(bool in_doubt)> on_doubt;
  };

  // Both must outlive it.
  Ticker(keystore::KeyStore* store, keystore::Clock* clock, Hooks hooks);
  // Stops.
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  // Once, and not before all that the hooks need is there.
  void Start();
  // Returns when its threads have ended. Nothing where they do not run.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Something is due earlier than it was. Does not block.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void RunTimers() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunSeconds() ABSL_LOCKS_EXCLUDED(mutex_);
  void SweepIfDue();
  void NoteDoubt(bool in_doubt);
  absl::Duration UntilNextTimer() const;
  // Each is false when it is time to stop.
  bool SleepUntilWoken(absl::Duration most) ABSL_LOCKS_EXCLUDED(mutex_);
  bool SleepForASecond() ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsWoken() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || woken_; }

  keystore::KeyStore* const store_;
  keystore::Clock* const clock_;
  const Hooks hooks_;

  core::Time next_sweep_;  // of the timers' thread alone
  bool in_doubt_ = false;  // of the seconds' thread alone

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread timers_;
  std::thread seconds_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_TICKER_H_
