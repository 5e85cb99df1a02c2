// A file descriptor that is closed with its owner.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_UNIQUE_FD_H_
#define IDEMPOTENCY_SERVICE_LISTENER_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace idempotency::service {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_UNIQUE_FD_H_
