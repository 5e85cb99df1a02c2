// What clients know of what they have asked of one key: when they asked and were answered, and
// what. Nobody here knows what the server did, or whether it did it.
//
// Thread safety: none; values.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_CALL_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_CALL_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "keystore/core/command.h"
#include "keystore/core/time.h"
#include "tests/proof/network/spaces.h"

namespace idempotency::proof::network {

// A place in the order of everything that was sent and received by all clients: a clock that
// ticks at each.
using Moment = uint64_t;
inline constexpr Moment kNever = std::numeric_limits<Moment>::max();

// An answer, without what time alone decides.
struct Told {
  // As in core_text.h: "ACQUIRED PROCEED token=7 attempt=1", "error LEASE_LAPSED".
  std::string answer;
  // What it shows of the operation besides: "attempt=1 dispatched". Empty: nothing.
  std::string shown;
  // The operation's history, without its times. Unset: it shows none.
  std::optional<std::string> history;
  // Of a lease, or the newest one. Zero: it shows none.
  uint64_t token = 0;

  // By the server's clock; each unset where nothing is said.
  core::Time not_before;  // what is shown had happened by then
  core::Time not_after;   // it was decided by then
  core::Time lease_end;   // of the lease that is live
  core::Time answer_end;  // when the response is dropped
};

enum class Ended : uint8_t {
  kLost,      // nobody was told: it took effect at some time after it was sent, or never will
  kAnswered,  // with `told`
  kNoEffect,  // it was refused before it had any
};

struct Call {
  // As the state machine takes it, with its spans (spaces.h).
  core::Command command;
  // The lease or retention that it asks for, really.
  core::Duration span{0};
  Moment sent = 0;
  Moment received = kNever;
  Ended ended = Ended::kLost;
  Told told;
  // A call on the same stream that is applied before this one: an index.
  std::optional<size_t> behind;
  // One of several servers answered: where it did not know what became of its write, or another
  // had it taken back, it has stepped the command again, and answered the second time.
  bool perhaps_twice = false;
  // Who asked, and how, for people.
  std::string by;
};

struct KeyHistory {
  std::string key;
  const Space* space = nullptr;
  // Several servers answered, each by its own clock.
  bool shared = false;
  std::vector<Call> calls;
};

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_CALL_H_
