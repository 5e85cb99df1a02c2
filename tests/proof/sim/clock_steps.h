// A kernel whose clock is set by hours and years, and whose machine sleeps, under the product's
// ClockGuard and core::Step: nothing ends before its time, nothing is granted again, and a jump
// forward freezes what time would take away.
//
// "Before its time" is true time: what has elapsed, and how far the guarded clock was legitimately
// led forward (a step of at most an hour is followed, a larger one waits for somebody's word).
//
// Thread safety: pure.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_CLOCK_STEPS_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_CLOCK_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keystore/core/time.h"

namespace idempotency::proof {

// What happens to the kernel's clock between two readings.
struct ClockStep {
  std::string name;
  core::Duration elapsed{0};  // of which the machine may have slept
  core::Duration wall{0};     // by which the wall clock is set
  bool restart = false;       // another process goes on from what the last wrote down
  bool confirmed = false;     // an operator's word, afterwards
};

// Reads after each step, on keys that hold a lease, an answer and unknown outcomes. What is broken
// first; empty: nothing.
std::string BrokenByClockSteps(const std::vector<ClockStep>& steps);

std::vector<ClockStep> RandomClockSteps(uint64_t seed, size_t count);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_CLOCK_STEPS_H_
