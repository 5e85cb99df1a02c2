// What hostile peers do, each for a bounded time and with a bounded count, to a server on this
// machine.
#ifndef IDEMPOTENCY_TESTS_PROOF_HOSTILE_ATTACKS_H_
#define IDEMPOTENCY_TESTS_PROOF_HOSTILE_ATTACKS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace idempotency::proof {

struct Scene {
  int port = 0;
  // MonotonicNanos at which it ends.
  int64_t until = 0;
  // Where attackers come from: 127.0.0.0 and this, and the next fifteen. Others each time, since
  // who was found out is kept out for a while.
  int first_host = 2;
  // How many connections the server's descriptors are good for.
  int connections = 0;
};

struct Attack {
  const char* name;
  const char* what;
  // Ends by itself. What it has sent, for the report: connections, frames or calls.
  uint64_t (*run)(const Scene& scene);
  // Other addresses may be without connections while it lasts: all that there are are taken.
  bool takes_all = false;
};

const std::vector<Attack>& Attacks();

// A completed operation with an answer of 1 MiB is needed under this key: what slow readers ask
// for.
inline constexpr char kLargeKey[] = "large-answer";
inline constexpr size_t kLargeBytes = 1024 * 1024;

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_HOSTILE_ATTACKS_H_
