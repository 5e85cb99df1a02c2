// Ctrl-C as a value: a signal handler triggers it, a call that waits for its answer sees it.
#ifndef IDEMPOTENCY_CLIENT_CTL_INTERRUPT_H_
#define IDEMPOTENCY_CLIENT_CTL_INTERRUPT_H_

#include <atomic>

namespace idempotency::ctl {

// Thread safety: everything from any thread. Never goes back.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Async-signal-safe. The first signal is the one that counts.
  void Trigger(int signal);

  // 0: not triggered.
  int signal() const { return signal_.load(); }
  bool triggered() const { return signal() != 0; }

  // Readable once triggered; for poll only, owned by this object.
  int fd() const { return fd_; }

 private:
  std::atomic<int> signal_{0};
  const int fd_;
};

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_INTERRUPT_H_
