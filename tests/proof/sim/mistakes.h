// What the parts of the simulation can be told to do wrong: engines and clocks that break their
// contract in one way each. The wrong steps are in tests/keystore/core/wrong_steps.h and
// mutants.h.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_MISTAKES_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_MISTAKES_H_

#include <cstdint>

namespace idempotency::proof {

enum class EngineMistake : uint8_t {
  kNone,
  kAcknowledgesBeforeSync,  // says committed, and syncs a while later
  kScanShowsUnsynced,       // a scan shows what a crash may still take back
  kFloorStartsAgain,        // after a restart the token floor is what the records say
  kFilterDropsOpen,         // the filter treats an open record like any other
  kFilterTrustsTheWall,     // the filter asks the wall clock, without a margin
  kNoGuard,                 // writes whatever was stored meanwhile
  kLostRaceIsCommitted,     // a lost race is called a success
  kUnknownIsCommitted,      // a write that timed out is called a success
  kUnknownIsLostRace,       // ... or is called undone
  kUnknownMayStillCome,     // ... or is called unknown while it may still take effect
  kStaleReads,              // reads what was stored a while ago
  kKeysRunTogether,         // ("a", "bc") and ("ab", "c") are one key
  kErrorsAreAbsent,         // what cannot be read now is called absent
  kLosesHalfABatch,         // only the first write of a batch is kept
  kNothingIsNothing,        // nothing after an erasure is the same nothing as before it
  kSkewIsNotDeclared,       // the clocks differ by more than it says
};

enum class ClockMistake : uint8_t {
  kNone,
  kRunsBack,          // follows the wall clock back
  kTrustsJumps,       // follows it forward, however far
  kForgetsItsMark,    // a restart begins with the wall clock
  kStopsInDoubt,      // stands still until the doubt is over
  kStopsInSuspend,    // does not count the time in which the machine slept
  kConfirmedForEver,  // one confirmation counts for all jumps to come
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_MISTAKES_H_
