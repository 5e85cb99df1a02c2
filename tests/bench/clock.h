// The machine's monotonic clock and CPU counters: the only file of the bench that asks for them.
//
// Thread safety: all functions may be called from any thread.
#ifndef IDEMPOTENCY_TESTS_BENCH_CLOCK_H_
#define IDEMPOTENCY_TESTS_BENCH_CLOCK_H_

#include <sys/types.h>

#include <cstdint>

namespace idempotency::bench {

inline constexpr int64_t kNanosPerSecond = 1'000'000'000;
inline constexpr int64_t kNanosPerMilli = 1'000'000;

inline int64_t Nanos(double seconds) {
  return static_cast<int64_t>(seconds * static_cast<double>(kNanosPerSecond));
}
inline double Seconds(int64_t nanos) {
  return static_cast<double>(nanos) / static_cast<double>(kNanosPerSecond);
}

// Since some moment in the past; never goes back.
int64_t MonotonicNanos();

// Returns at once where the moment has passed. Wakes within some 10 us of it on an idle core.
void SleepUntil(int64_t monotonic_nanos);

// What a process has used so far, and what it holds now.
struct Usage {
  double cpu_seconds = 0;
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;
};

// What all processes together have used since the machine was started, and what it was denied by
// others on the same hardware.
struct MachineUsage {
  double busy_seconds = 0;
  double stolen_seconds = 0;
  int cpus = 0;
};

MachineUsage UsageOfAll();
Usage OwnUsage();
// Of the process and the children that it has now (PostgreSQL has one a connection). All zero
// where there is no such process, or `pid` is not positive.
Usage UsageOf(pid_t pid);

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_CLOCK_H_
