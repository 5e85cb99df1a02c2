// The clock of a simulated machine: a kernel that can be set, suspended and disciplined, behind
// the product's own ClockGuard.
//
// Thread safety: none; one history is one thread's.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_SIM_CLOCK_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_SIM_CLOCK_H_

#include <cstddef>

#include "keystore/clock.h"
#include "keystore/core/time.h"
#include "tests/proof/sim/history.h"
#include "tests/proof/sim/mistakes.h"

namespace idempotency::proof {

// What of a machine's time outlives its processes. The wall clock is right at the beginning.
struct Machine {
  core::Duration wall_offset{0};
  core::Duration suspended{0};
  bool synchronised = false;
};

class SimClock final : public keystore::Clock {
 public:
  // `machine` and `history` must outlive it. high_water: what an earlier process had written
  // down; unset: none.
  SimClock(History* history, size_t replica, const Machine* machine, core::Time high_water,
           ClockMistake mistake);

  core::Now Read() override;
  void Confirm();
  // What Read said last.
  const core::Now& last() const { return last_; }
  core::Duration last_at() const { return last_at_; }

 private:
  keystore::KernelTime Kernel() const;
  core::Now Wrong(core::Now now);

  History* const history_;
  const size_t replica_;
  const Machine* const machine_;
  const ClockMistake mistake_;
  keystore::ClockGuard guard_;
  core::Now last_;
  core::Duration last_at_{0};
  bool confirmed_ = false;
  bool was_in_doubt_ = false;
  core::Time frozen_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_SIM_CLOCK_H_
