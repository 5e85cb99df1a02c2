// Joins the two ends of a call whose completion may run before the call returns or later on
// another thread, so that the work after it is done once, in a loop and not by recursion.
//
//   handshake.Reset();
//   engine->Read(keys, [this](auto result) { ...; if (handshake.Arrive()) Loop(); });
//   if (!handshake.Arrive()) return;   // the completion will go on, on its own thread
//   ...                                // completed already: go on here
#ifndef IDEMPOTENCY_KEYSTORE_HANDSHAKE_H_
#define IDEMPOTENCY_KEYSTORE_HANDSHAKE_H_

#include <atomic>

namespace idempotency::keystore {

class Handshake {
 public:
  // Before the call; nobody else may be using it.
  void Reset() { arrived_.store(false, std::memory_order_relaxed); }
  // Once by each end; true for the second, which sees all that the first did before.
  bool Arrive() { return arrived_.exchange(true, std::memory_order_acq_rel); }

 private:
  std::atomic<bool> arrived_{false};
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_HANDSHAKE_H_
