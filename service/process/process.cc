#include "service/process/process.h"

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "service/process/exit_codes.h"

namespace idempotency::service {

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, kEngineDeadSignal}) {
    sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A log that nobody reads any more, or a client that has gone, is no reason to die; and a file
  // that may not grow is an error of the store, which knows what to do.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  return signals;
}

void LetSignalsEndIt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void KeepMemoryPrivate() {
  constexpr rlimit kNone{.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &kNone);
  prctl(PR_SET_DUMPABLE, 0);
}

void ShareFreedMemory() {
  const unsigned processors = std::thread::hardware_concurrency();
  if (processors > 0) mallopt(M_ARENA_MAX, static_cast<int>(processors));
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

Watchdog::Watchdog()
    : thread_([this] {
        if (!done_.WaitForNotificationWithTimeout(kDrainTimeout)) _exit(kExitNotDrained);
      }) {}

Watchdog::~Watchdog() {
  done_.Notify();
  thread_.join();
}

}  // namespace idempotency::service
