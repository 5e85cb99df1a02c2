// Linearizability of one key, by what its clients know: there is an order of their calls in which
// the state machine, written a second time (NaiveModel), gives every answer that was received.
//
// - A call takes effect at one moment between its being sent and its answer's being received.
// - A call that was not answered may have had its effect at any moment after it was sent, or have
//   none: each forks what the state may be.
// - A short lease or retention ends at some moment; by the server's times that answers show,
//   never before its end, and nothing that was alive was decided after it.
// - Calls on one stream are applied in their order.
// - Where several servers answer (KeyHistory::shared), their clocks may be a little apart, and who
//   only reads may judge what it has read by a later time. A call (Call::perhaps_twice) may have
//   had its effect before it was answered as a repetition.
//
// The search (Wing and Gong's, remembering where it has been) has a budget; to run out of it is
// to fail.
//
// Thread safety: pure.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_ORDERS_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_ORDERS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/proof/network/call.h"

namespace idempotency::proof::network {

inline constexpr size_t kMaxCalls = 192;  // of one key

struct Verdict {
  // Empty: there is such an order. Else what stands in the way, and all that was asked and told.
  std::string wrong;
  // The budget was used up before it was known.
  bool undecided = false;
  // Of the order that was found.
  uint64_t trials = 0;
  uint64_t lapses = 0;
  uint64_t lost_effects = 0;  // of calls that were not answered
};

Verdict FindOrder(const KeyHistory& history, uint64_t max_trials = 2'000'000);

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_ORDERS_H_
