// What a process holds: memory, threads and descriptors, and what its directory takes on disk.
//
// Thread safety: pure functions of the system's state.
#ifndef IDEMPOTENCY_TESTS_PROOF_OVERLOAD_PROCESS_H_
#define IDEMPOTENCY_TESTS_PROOF_OVERLOAD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace idempotency::proof {

struct Holdings {
  double memory_mib = 0;  // of its own: not what is mapped from files
  int threads = 0;
  int connections = 0;  // and other descriptors that are no files
  int files = 0;
};

// All zero where there is no such process.
Holdings HoldingsOf(pid_t pid);
// The most memory that it has held at once, in MiB, since it began or ForgetPeakOf.
double PeakOf(pid_t pid);
void ForgetPeakOf(pid_t pid);
// In MiB, of all files below.
double SizeOf(const std::string& directory);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_OVERLOAD_PROCESS_H_
