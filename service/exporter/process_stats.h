// What the system says of this process and of the volume that its data is on.
//
// Thread safety: pure functions of the system's answers.
#ifndef IDEMPOTENCY_SERVICE_EXPORTER_PROCESS_STATS_H_
#define IDEMPOTENCY_SERVICE_EXPORTER_PROCESS_STATS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace idempotency::service {

// What the system does not say is zero.
struct ProcessStats {
  double cpu_seconds = 0;  // of all threads, in and out of the kernel
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t open_descriptors = 0;
  uint64_t max_descriptors = 0;
  uint64_t threads = 0;
};

ProcessStats ReadProcessStats();

struct DiskStats {
  uint64_t size_bytes = 0;
  uint64_t free_bytes = 0;  // for this process
};

// Nothing where the system does not say.
std::optional<DiskStats> ReadDiskStats(const std::string& path);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_EXPORTER_PROCESS_STATS_H_
