#include "service/exporter/process_stats.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace idempotency::service {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

uint64_t CountEntries(const char* directory) {
  std::error_code error;
  uint64_t count = 0;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    stats.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  }
  uint64_t pages = 0;
  uint64_t resident_pages = 0;
  if (std::ifstream("/proc/self/statm") >> pages >> resident_pages) {
    const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    stats.virtual_bytes = pages * page_bytes;
    stats.resident_bytes = resident_pages * page_bytes;
  }
  // One of them is ours, for counting.
  const uint64_t descriptors = CountEntries("/proc/self/fd");
  stats.open_descriptors = descriptors == 0 ? 0 : descriptors - 1;
  stats.threads = CountEntries("/proc/self/task");
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_descriptors = limit.rlim_cur;
  return stats;
}

std::optional<DiskStats> ReadDiskStats(const std::string& path) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path, error);
  if (error) return std::nullopt;
  return DiskStats{space.capacity, space.available};
}

}  // namespace idempotency::service
