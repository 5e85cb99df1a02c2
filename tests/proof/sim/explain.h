// A violation as somebody wants to read it: with as few steps as still show it.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_EXPLAIN_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_EXPLAIN_H_

#include <string>

#include "tests/proof/sim/world.h"

namespace idempotency::proof {

// Leaves out one step after another as long as something is still broken, and tells what is left
// of the history. `options` must break something.
std::string Explain(PlayOptions options);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_EXPLAIN_H_
