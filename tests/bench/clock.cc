#include "tests/bench/clock.h"

#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

namespace idempotency::bench {
namespace {

// Sleeping threads are woken this much late at most, instead of the usual 50 us.
constexpr unsigned long kTimerSlackNanos = 1000;

int64_t KilobytesIn(const std::string& line) {
  std::istringstream words(line);
  std::string name;
  int64_t kilobytes = 0;
  words >> name >> kilobytes;
  return kilobytes * 1024;
}

// Of the one process alone.
Usage UsageOfOne(const std::string& pid) {
  Usage usage;
  std::string line;
  if (std::ifstream stat("/proc/" + pid + "/stat"); std::getline(stat, line)) {
    // The name, in parentheses, may hold anything. Behind it the 12th and 13th words are what is
    // looked for.
    std::istringstream words(line.substr(line.rfind(')') + 1));
    std::string word;
    for (int i = 0; i < 11; ++i) words >> word;
    double user = 0;
    double system = 0;
    words >> user >> system;
    usage.cpu_seconds = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  std::ifstream status("/proc/" + pid + "/status");
  while (std::getline(status, line)) {
    if (line.rfind("VmRSS:", 0) == 0) usage.resident_bytes = KilobytesIn(line);
    if (line.rfind("VmHWM:", 0) == 0) usage.peak_resident_bytes = KilobytesIn(line);
  }
  return usage;
}

}  // namespace

int64_t MonotonicNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SleepUntil(int64_t monotonic_nanos) {
  thread_local const bool kSlackSet = prctl(PR_SET_TIMERSLACK, kTimerSlackNanos) == 0;
  (void)kSlackSet;
  const timespec until{.tv_sec = monotonic_nanos / kNanosPerSecond,
                       .tv_nsec = monotonic_nanos % kNanosPerSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

MachineUsage UsageOfAll() {
  MachineUsage usage;
  usage.cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  std::ifstream stat("/proc/stat");
  std::string name;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double waiting = 0;
  double interrupts = 0;
  double soft_interrupts = 0;
  double stolen = 0;
  stat >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >>
      stolen;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  usage.busy_seconds = (user + nice + system + interrupts + soft_interrupts) / ticks;
  usage.stolen_seconds = stolen / ticks;
  return usage;
}

Usage OwnUsage() { return UsageOf(getpid()); }

Usage UsageOf(pid_t pid) {
  if (pid <= 0) return {};
  const std::string parent = std::to_string(pid);
  Usage usage = UsageOfOne(parent);
  std::ifstream children("/proc/" + parent + "/task/" + parent + "/children");
  for (std::string child; children >> child;) {
    const Usage of_child = UsageOfOne(child);
    usage.cpu_seconds += of_child.cpu_seconds;
    usage.resident_bytes += of_child.resident_bytes;
    usage.peak_resident_bytes += of_child.peak_resident_bytes;
  }
  return usage;
}

}  // namespace idempotency::bench
