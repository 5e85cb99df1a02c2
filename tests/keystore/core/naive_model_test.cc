// The core and the naive model agree on random histories: every answer, every effect, what is
// known afterwards and the whole history. The seed is printed with a disagreement;
//   IDEMPOTENCY_TWIN_SEED=n    plays the histories from that seed on
//   IDEMPOTENCY_TWIN_STEPS=n   plays about so many steps (200,000 unless set)
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/keystore/core/random_history.h"

namespace idempotency::core {
namespace {

constexpr size_t kStepsPerHistory = 60;

// Answers that random histories must reach, or they prove nothing.
const std::vector<std::string> kKinds{
    "reserve ACQUIRED PROCEED",
    "reserve ALREADY_HELD PROCEED_UNLESS_STARTED",
    "reserve IN_PROGRESS RESERVE_AGAIN",
    "reserve COMPLETED USE_RESPONSE SUCCEEDED",
    "reserve COMPLETED LOOK_UP_ANSWER SUCCEEDED",
    "reserve COMPLETED STOP ABANDONED",
    "reserve EXPIRED LOOK_UP_ANSWER SUCCEEDED",
    "reserve EXPIRED STOP ABANDONED",
    "reserve UNRESOLVED RESERVE_AGAIN",
    "reserve UNRESOLVED RECONCILE_FIRST",
    "reserve FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST",
    "reserve FINGERPRINT_MISMATCH USE_OWN_KEY",
    "reserve TOO_OLD RECONCILE_FIRST",
    "reserve error ATTEMPT_FINISHED",
    "reserve error QUOTA_EXCEEDED",
    "renew renewed",
    "renew error LEASE_LAPSED",
    "renew error ALREADY_COMPLETE",
    "renew error STALE_FENCING_TOKEN",
    "complete COMPLETE SUCCEEDED",
    "complete FREED",
    "complete already COMPLETE SUCCEEDED",
    "complete already EXPIRED SUCCEEDED",
    "complete already PENDING",
    "complete error ALREADY_COMPLETE",
    "complete error ATTEMPT_FINISHED",
    "complete error STALE_FENCING_TOKEN",
    "complete error UNKNOWN_FENCING_TOKEN",
    "complete error OPERATION_NOT_FOUND",
    "release FREED",
    "release UNRESOLVED",
    "release error OUTCOME_UNKNOWN",
    "mark UNRESOLVED RESERVE_AGAIN",
    "mark UNRESOLVED RECONCILE_FIRST",
    "mark error ATTEMPT_FINISHED",
    "resolve COMPLETE SUCCEEDED",
    "resolve COMPLETE ABANDONED",
    "resolve FREED",
    "resolve error LEASE_LIVE",
    "resolve error NOT_SETTLED",
    "resolve error WRONG_STATE",
    "delete deleted",
    "delete error LEASE_LIVE",
    "delete error WRONG_STATE",
};

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(NaiveModel, AgreesOnRandomHistories) {
  const uint64_t first = FromEnvironment("IDEMPOTENCY_TWIN_SEED", 20'260'101);
  const uint64_t steps = FromEnvironment("IDEMPOTENCY_TWIN_STEPS", 200'000);
  std::map<std::string, size_t> seen;
  for (uint64_t seed = first; seed < first + steps / kStepsPerHistory + 1; ++seed) {
    ASSERT_EQ(Disagreement(&Step, seed, kStepsPerHistory, &seen), "")
        << "play it again with IDEMPOTENCY_TWIN_SEED=" << seed;
  }
  if (steps < 200'000) return;
  for (const std::string& kind : kKinds) EXPECT_GT(seen[kind], 0u) << kind;
}

}  // namespace
}  // namespace idempotency::core
