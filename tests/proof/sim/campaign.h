// Many histories, and what became of them.
//
//   CampaignResult result = PlayHistories({.first_seed = 1, .histories = 2'000});
//   EXPECT_EQ(result.violations, 0u) << result.first_violation;
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_CAMPAIGN_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_CAMPAIGN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/proof/sim/history.h"
#include "tests/proof/sim/mutants.h"

namespace idempotency::proof {

struct Campaign {
  uint64_t first_seed = 1;
  uint64_t histories = 1000;
  size_t jobs = 1;
  const Mutant* mutant = nullptr;
  // Asked now and then; true: no further history is begun.
  std::function<bool()> stop = [] { return false; };
  // Whether the first violation ends it.
  bool until_broken = false;
};

struct CampaignResult {
  uint64_t histories = 0;
  uint64_t commands = 0;
  uint64_t violations = 0;
  // Of the violation with the lowest seed.
  uint64_t broken_seed = 0;
  std::string broken;
  // The first few, in no order.
  std::vector<uint64_t> broken_seeds;
  // How often each kind of answer was given ("reserve ACQUIRED PROCEED"), of a part of the
  // histories.
  std::map<std::string, uint64_t> kinds;
  Counts counts;
};

CampaignResult PlayHistories(const Campaign& campaign);

// What a campaign has to have met, or it proves nothing; the names of what it has not.
std::vector<std::string> NotMet(const CampaignResult& result);
// One line a thing that happened, with its number.
std::string CoverageText(const CampaignResult& result);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_CAMPAIGN_H_
