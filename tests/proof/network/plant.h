// One wrong answer in a true history, of each kind: whatever order is tried, it must be noticed.
//
// Thread safety: pure.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_PLANT_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_PLANT_H_

#include <functional>
#include <string>
#include <vector>

#include "tests/proof/network/call.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof::network {

struct Plant {
  std::string name;
  // False: the history has no place for it. It must end with the last looks.
  std::function<bool(Random& random, KeyHistory& history)> put;
};

const std::vector<Plant>& Plants();

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_PLANT_H_
