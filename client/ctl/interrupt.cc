#include "client/ctl/interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace idempotency::ctl {

Interrupt::Interrupt() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Interrupt::~Interrupt() { close(fd_); }

void Interrupt::Trigger(int signal) {
  const int saved_errno = errno;
  int none = 0;
  signal_.compare_exchange_strong(none, signal);
  const uint64_t one = 1;
  // Cannot fail but for a counter that is full, and then it is readable already.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
  errno = saved_errno;
}

}  // namespace idempotency::ctl
