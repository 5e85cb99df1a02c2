// What the process arranges with the system: signals, memory, descriptors, and its end.
#ifndef IDEMPOTENCY_SERVICE_PROCESS_PROCESS_H_
#define IDEMPOTENCY_SERVICE_PROCESS_PROCESS_H_

#include <signal.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace idempotency::service {

// Raised by ourselves, to wake the thread that waits for signals.
inline constexpr int kEngineDeadSignal = SIGUSR2;

// Shorter than what supervisors usually grant between SIGTERM and SIGKILL.
inline constexpr absl::Duration kDrainTimeout = absl::Seconds(25);

// Blocks the signals that are waited for, in this thread and all that it starts, and ignores those
// that would end the process for nothing.
sigset_t BlockSignals();

// From now on SIGTERM or Ctrl-C ends the process at once: while it drains, that is a second one.
// Nothing else that may come does: not a reload, and not the news that the engine has died, which
// the exit code tells.
void LetSignalsEndIt();

// Memory holds answers, progress, credentials and keys: none of it goes into a core dump, and no
// other process of the same user looks at it.
void KeepMemoryPrivate();

// As many of malloc's arenas as there are processors, and not eight times as many: what a flood of
// calls has taken and given back is used again by other threads, instead of being taken once more
// by each. Before there is a thread.
void ShareFreedMemory();

// Every connection takes descriptors: as many as the system lets us have. The lower, usual limit
// is for programs that use select.
void RaiseDescriptorLimit();

// Ends the process with kExitNotDrained where it lives longer than kDrainTimeout: everything
// acknowledged is durable.
class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  absl::Notification done_;
  std::thread thread_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_PROCESS_PROCESS_H_
