// A small size of the simulator: it is deterministic, the real key store keeps every invariant,
// and no planted mistake passes. The sizes that prove something are in tests/proof/run.sh.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/proof/sim/campaign.h"
#include "tests/proof/sim/checker.h"
#include "tests/proof/sim/explain.h"
#include "tests/proof/sim/mutants.h"
#include "tests/proof/sim/world.h"

namespace idempotency::proof {
namespace {

constexpr uint64_t kSeed = 20'260'801;
constexpr uint64_t kHistories = 2'000;
constexpr uint64_t kMostForAMutant = 10'000;

TEST(Simulation, TheSameSeedIsTheSameTrace) {
  for (uint64_t seed = kSeed; seed < kSeed + 100; ++seed) {
    const History once = Play({.seed = seed, .tell = true});
    Play({.seed = seed + 1});
    const History again = Play({.seed = seed, .tell = true});
    ASSERT_EQ(once.story, again.story) << "seed " << seed;
    ASSERT_EQ(once.hash, again.hash) << "seed " << seed;
    ASSERT_EQ(once.hash, Play({.seed = seed}).hash) << "telling it changes it, seed " << seed;
  }
}

TEST(Simulation, AnotherSeedIsAnotherTrace) {
  EXPECT_NE(Play({.seed = kSeed}).hash, Play({.seed = kSeed + 1}).hash);
}

TEST(Simulation, TheKeyStoreKeepsEveryInvariant) {
  const CampaignResult result = PlayHistories({.first_seed = kSeed, .histories = kHistories});
  EXPECT_EQ(result.histories, kHistories);
  ASSERT_EQ(result.violations, 0u) << Explain({.seed = result.broken_seed});
}

TEST(Simulation, AViolationIsToldInFewSteps) {
  const Mutant* const mutant = &Mutants().front();
  const CampaignResult result = PlayHistories(
      {.first_seed = kSeed, .histories = kHistories, .mutant = mutant, .until_broken = true});
  ASSERT_EQ(result.violations, 1u);
  PlayOptions broken{.seed = result.broken_seed, .mutant = mutant};
  EXPECT_EQ(Play(broken).story.size(), 0u);
  broken.tell = true;
  const size_t whole = Play(broken).story.size();
  const std::string told = Explain(broken);
  EXPECT_EQ(told.rfind("seed " + std::to_string(result.broken_seed) + ": I", 0), 0u) << told;
  EXPECT_LT(static_cast<size_t>(std::count(told.begin(), told.end(), '\n')), whole);
}

class MutantTest : public testing::TestWithParam<Mutant> {};

std::vector<Mutant> NotRare() {
  std::vector<Mutant> mutants = Mutants();
  mutants.erase(std::remove_if(mutants.begin(), mutants.end(),
                               [](const Mutant& mutant) { return mutant.rare; }),
                mutants.end());
  return mutants;
}

TEST_P(MutantTest, IsNoticed) {
  const CampaignResult result = PlayHistories({.first_seed = kSeed,
                                               .histories = kMostForAMutant,
                                               .mutant = &GetParam(),
                                               .until_broken = true});
  EXPECT_EQ(result.violations, 1u) << result.histories << " histories passed";
}

INSTANTIATE_TEST_SUITE_P(Planted, MutantTest, testing::ValuesIn(NotRare()),
                         [](const auto& mutant) { return mutant.param.name; });

}  // namespace
}  // namespace idempotency::proof
