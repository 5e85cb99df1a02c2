#include <sys/random.h>
#include <time.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/src/framed_hash.h"
#include "idempotency/policies.h"

namespace idempotency {
namespace {

// From the kernel, so that nothing is shared between processes that were forked.
std::string RandomBytes(size_t size) {
  std::string bytes(size, '\0');
  // Up to 256 bytes it gives all or nothing. A signal may interrupt it while the kernel is still
  // gathering randomness after boot; where it fails otherwise, there is no safe id.
  while (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(size)) {
    if (errno != EINTR) std::abort();
  }
  return bytes;
}

class KernelEnvironment final : public Environment {
 public:
  std::chrono::nanoseconds MonotonicNow() override {
    timespec now{};
    // Counts on while the machine sleeps, as leases do.
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) clock_gettime(CLOCK_MONOTONIC, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  }

  SystemTime WallNow() override {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return SystemTime(std::chrono::floor<Duration>(std::chrono::seconds(now.tv_sec) +
                                                   std::chrono::nanoseconds(now.tv_nsec)));
  }

  void Sleep(Duration span) override { absl::SleepFor(absl::Milliseconds(span.count())); }

  double Random() override {
    uint64_t bits = 0;
    std::memcpy(&bits, RandomBytes(sizeof(bits)).data(), sizeof(bits));
    // The 53 bits that a double holds.
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
  }

  std::string RandomId() override { return internal::Hex(RandomBytes(16)); }
};

}  // namespace

std::shared_ptr<Environment> SystemEnvironment() {
  static const auto* const environment =
      new std::shared_ptr<Environment>(std::make_shared<KernelEnvironment>());
  return *environment;
}

}  // namespace idempotency
