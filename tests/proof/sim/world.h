// One simulated history: replicas of the real key store over a simulated store, network, clocks
// and callers, in one thread, driven by one seed.
//
//   History history = Play({.seed = 42});
//
// A history is a number of small steps; what step number n draws depends on the seed and on n
// alone, so that steps can be left out to see what a violation takes (explain.h).
//
// Thread safety: any number of histories may be played at once, each by one thread.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_WORLD_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/proof/sim/history.h"
#include "tests/proof/sim/mutants.h"

namespace idempotency::proof {

inline constexpr size_t kMaxSteps = 64;

struct PlayOptions {
  uint64_t seed = 1;
  const Mutant* mutant = nullptr;  // null: none
  // Steps that are left out; empty: none.
  std::vector<bool> skip;
  // Keep the story.
  bool tell = false;
};

History Play(const PlayOptions& options);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_WORLD_H_
