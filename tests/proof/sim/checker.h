// Whether a history keeps the invariants of the failure model, each looked at by itself in what
// was stored and answered, without asking the state machine:
//
//   I1   every second grant of a key names one event that permitted it
//   I2   tokens of a key rise, also after it was erased, and across crashes
//   I3   what is complete stays as it is until its retention is over
//   I4   what was answered is not lost            I5   what is shown is safe
//   I6   a lapse leaves an unknown, and is final; a lease lasts as long as it says, by true time
//   I7   another request gets neither a grant nor a body
//   I8   a repetition adds nothing
//   I9   an answer lives as long as it says, by true time, and not longer
//   I10  only what is forgotten is erased         I11  nothing is seen under another key
//   I12  is the linearizer's
//
// Thread safety: pure.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_CHECKER_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_CHECKER_H_

#include <string>

#include "tests/proof/sim/history.h"

namespace idempotency::proof {

// The first thing that is wrong, with the invariant's number in front; empty: nothing. Includes
// what broke while it was played, and I12.
std::string BrokenInvariant(const History& history);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_CHECKER_H_
