// Known-wrong variants of everything the key store is given: steps, engines and clocks, each with
// one plausible mistake. The simulation has to notice every one of them. Nothing outside tests
// may use them.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_MUTANTS_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_MUTANTS_H_

#include <ostream>
#include <string>
#include <vector>

#include "keystore/core/transition.h"
#include "tests/proof/sim/mistakes.h"

namespace idempotency::proof {

struct Mutant {
  std::string name;
  core::StepFunction step = &core::Step;
  EngineMistake engine = EngineMistake::kNone;
  ClockMistake clock = ClockMistake::kNone;
  // It shows itself once in thousands of histories: more than a test has time for.
  bool rare = false;

  friend void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }
};

// The right one.
const Mutant& NoMutant();
// All that are wrong.
const std::vector<Mutant>& Mutants();

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_MUTANTS_H_
