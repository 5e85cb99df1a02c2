// What clients and operators ask of a key: anything that they might, late and twice as well, with
// what any of them knows of it.
//
// Thread safety: none.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_DRAW_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_DRAW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/proof/network/spaces.h"
#include "tests/proof/network/wire.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof::network {

struct Attempt {
  std::string id;
  uint64_t token = 0;  // 0: nobody was told
};

// A key, and what is known of it.
struct Known {
  std::string key;
  const Space* space = nullptr;
  std::vector<Attempt> attempts;  // of which a Reserve was drawn
};

enum class Kinds : uint8_t {
  kAll,
  // What Pipeline takes.
  kCommands,
  // What Batch takes.
  kCommandsThatDoNotWait,
};

// A Reserve with an attempt of its own is added to `known`.
Request DrawRequest(Random& random, Kinds kinds, Known& known);

// What shows everything, when all is over.
std::vector<Request> LastLooks(const Known& known);

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_DRAW_H_
