// The simulator as a program: plays histories, or plants mistakes, or shows one history.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "keystore/clock.h"
#include "tests/proof/sim/campaign.h"
#include "tests/proof/sim/checker.h"
#include "tests/proof/sim/explain.h"
#include "tests/proof/sim/mutants.h"
#include "tests/proof/sim/world.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_simulate [histories|mutants|play] [--seed=N] [--floor=N] [--seconds=N]\n"
    "                            [--jobs=N] [--mutant=NAME] [--coverage]\n"
    "\n"
    "Simulates the key store: the real one, over a simulated store, network and clocks, with\n"
    "crashes, and callers that go wrong. Checks every history against I1-I12.\n"
    "\n"
    "  histories   plays histories from the seed on; every violation is a failure (the default)\n"
    "  mutants     plants one mistake after another; one that nothing notices is a failure\n"
    "  play        plays the history of one seed and tells it, shortened if it is broken\n"
    "\n"
    "  --seed=N       where to begin (1)\n"
    "  --floor=N      fewer histories than this are a failure (1,000,000); of a mutant: how many\n"
    "                 may pass before it is noticed (100,000)\n"
    "  --seconds=N    go on for so long (PROOF_SECONDS in the environment); else until the floor\n"
    "  --jobs=N       how many at once (one a processor)\n"
    "  --mutant=NAME  play under this mistake, or plant only this one\n"
    "  --coverage     tell what was met\n";

struct Options {
  std::string what = "histories";
  uint64_t seed = 1;
  uint64_t floor = 0;
  uint64_t seconds = 0;
  size_t jobs = std::max(1u, std::thread::hardware_concurrency());
  std::string mutant;
  bool coverage = false;
};

bool Parse(int argc, char** argv, Options* options) {
  const auto number = [](const char* text) { return std::strtoull(text, nullptr, 10); };
  if (const char* seconds = std::getenv("PROOF_SECONDS")) options->seconds = number(seconds);
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const size_t equals = arg.find('=');
    const std::string name = arg.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : arg.substr(equals + 1);
    if (name == "--seed") {
      options->seed = number(value.c_str());
    } else if (name == "--floor") {
      options->floor = number(value.c_str());
    } else if (name == "--seconds") {
      options->seconds = number(value.c_str());
    } else if (name == "--jobs") {
      options->jobs = std::max<size_t>(1, number(value.c_str()));
    } else if (name == "--mutant") {
      options->mutant = value;
    } else if (name == "--coverage") {
      options->coverage = true;
    } else if (arg == "histories" || arg == "mutants" || arg == "play") {
      options->what = arg;
    } else {
      return false;
    }
  }
  return true;
}

const Mutant* MutantNamed(const std::string& name) {
  for (const Mutant& mutant : Mutants()) {
    if (mutant.name == name) return &mutant;
  }
  return nullptr;
}

double Seconds() { return static_cast<double>(keystore::ReadKernelTime().boot.count()) / 1000.0; }

int Summary(uint64_t passed, uint64_t failed) {
  std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(passed),
              static_cast<unsigned long long>(failed));
  return failed == 0 && passed > 0 ? 0 : 1;
}

int RunHistories(const Options& options) {
  const uint64_t floor = options.floor == 0 ? 1'000'000 : options.floor;
  const double begin = Seconds();
  Campaign campaign{.first_seed = options.seed, .histories = floor, .jobs = options.jobs};
  campaign.mutant = MutantNamed(options.mutant);
  if (options.seconds > 0) {
    campaign.histories = UINT64_MAX;
    const double end = begin + static_cast<double>(options.seconds);
    campaign.stop = [end] { return Seconds() >= end; };
  }
  const CampaignResult result = PlayHistories(campaign);
  const double seconds = std::max(Seconds() - begin, 0.001);
  std::printf("%llu histories, %llu commands, %.0f s, %.0f histories/s\n",
              static_cast<unsigned long long>(result.histories),
              static_cast<unsigned long long>(result.commands), seconds,
              static_cast<double>(result.histories) / seconds);
  if (options.coverage) std::printf("%s", CoverageText(result).c_str());
  uint64_t failed = result.violations;
  if (result.violations > 0) {
    std::printf("%s", Explain({.seed = result.broken_seed, .mutant = campaign.mutant}).c_str());
    for (const uint64_t seed : result.broken_seeds) {
      std::printf("again: idempotency_simulate play --seed=%llu\n",
                  static_cast<unsigned long long>(seed));
    }
  }
  if (result.histories < floor) {
    std::printf("fewer than %llu histories\n", static_cast<unsigned long long>(floor));
    ++failed;
  }
  for (const std::string& missing : NotMet(result)) {
    if (floor < 10'000) break;
    std::printf("never met: %s\n", missing.c_str());
    ++failed;
  }
  return Summary(result.histories - result.violations, failed);
}

// Whether it was noticed, in time.
bool RunMutant(const Mutant& mutant, uint64_t seed, uint64_t most) {
  const CampaignResult result = PlayHistories(
      {.first_seed = seed, .histories = most, .mutant = &mutant, .until_broken = true});
  const bool dead = result.violations > 0;
  const std::string line = result.broken.substr(0, result.broken.find('\n'));
  std::printf("| %-26s | %8s | %s |\n", mutant.name.c_str(),
              dead ? std::to_string(result.histories).c_str() : "survived", line.c_str());
  std::fflush(stdout);
  return dead;
}

int RunMutants(const Options& options) {
  const uint64_t most = options.floor == 0 ? 100'000 : options.floor;
  const double end = Seconds() + static_cast<double>(options.seconds);
  uint64_t killed = 0;
  uint64_t survived = 0;
  uint64_t seed = options.seed;
  do {
    for (const Mutant& mutant : Mutants()) {
      if (!options.mutant.empty() && mutant.name != options.mutant) continue;
      ++(RunMutant(mutant, seed, most) ? killed : survived);
    }
    seed += most;
  } while (Seconds() < end);
  return Summary(killed, survived);
}

int RunPlay(const Options& options) {
  PlayOptions play{.seed = options.seed, .mutant = MutantNamed(options.mutant)};
  if (!BrokenInvariant(Play(play)).empty()) {
    std::printf("%s", Explain(play).c_str());
    return Summary(0, 1);
  }
  play.tell = true;
  for (const std::string& line : Play(play).story) std::printf("  %s\n", line.c_str());
  return Summary(1, 0);
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      std::printf("%s", kUsage);
      return 0;
    }
  }
  const bool known = Parse(argc, argv, &options) &&
                     (options.mutant.empty() || MutantNamed(options.mutant) != nullptr);
  if (!known) {
    std::fprintf(stderr, "%s", kUsage);
    return 2;
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  if (options.what == "mutants") return RunMutants(options);
  return options.what == "play" ? RunPlay(options) : RunHistories(options);
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) { return idempotency::proof::Main(argc, argv); }
