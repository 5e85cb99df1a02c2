// I12: for every key there is an order of all that was asked which the state machine, written a
// second time from the design's tables (NaiveModel), answers word for word as it was answered;
// each command takes effect at one moment between its submission and its answer, at a time that
// its replica was told in between, and one replica's commands in the order of their answers.
//
// Where nobody was told the outcome, the command may have taken effect or not. Where a write timed
// out, the key store asks again, as a client would: then the command may have taken effect before
// it did so, each time. Every change of what is stored is some command's, in order.
//
// With the answers this checks what they promise: who may be granted what (I1), what stands (I3,
// I4), what time does (I6, I9, I10) and what a repetition does (I8).
//
// Thread safety: pure.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_LINEARIZER_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_LINEARIZER_H_

#include <string>

#include "tests/proof/sim/history.h"

namespace idempotency::proof {

// Empty: there is such an order for every key.
std::string NotLinearizable(const History& history);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_LINEARIZER_H_
