// The clock steps as a program: many thousand-step lives of a clock.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "keystore/clock.h"
#include "tests/proof/sim/clock_steps.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_clocks [--seed=N] [--floor=N] [--seconds=N]\n"
    "\n"
    "Sets clocks by hours and years, lets machines sleep and processes start again, a thousand\n"
    "times a life, and checks that nothing ends before its time and nothing is granted again.\n"
    "\n"
    "  --seed=N     where to begin (1)\n"
    "  --floor=N    fewer lives than this are a failure (1,000)\n"
    "  --seconds=N  go on for so long (PROOF_SECONDS in the environment); else until the floor\n";

double Seconds() { return static_cast<double>(keystore::ReadKernelTime().boot.count()) / 1000.0; }

int Main(int argc, char** argv) {
  uint64_t seed = 1;
  uint64_t floor = 1'000;
  uint64_t seconds = 0;
  if (const char* given = std::getenv("PROOF_SECONDS")) seconds = std::strtoull(given, nullptr, 10);
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const size_t equals = arg.find('=');
    const uint64_t value =
        equals == std::string::npos ? 0 : std::strtoull(argv[i] + equals + 1, nullptr, 10);
    if (arg.rfind("--seed=", 0) == 0) {
      seed = value;
    } else if (arg.rfind("--floor=", 0) == 0) {
      floor = value;
    } else if (arg.rfind("--seconds=", 0) == 0) {
      seconds = value;
    } else {
      const bool help = arg == "--help" || arg == "-h";
      std::fputs(kUsage, help ? stdout : stderr);
      return help ? 0 : 2;
    }
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const double end = Seconds() + static_cast<double>(seconds);
  uint64_t passed = 0;
  uint64_t failed = 0;
  while (seconds > 0 ? Seconds() < end : passed + failed < floor) {
    const uint64_t life = seed + passed + failed;
    const std::string broken = BrokenByClockSteps(RandomClockSteps(life, 1'000));
    if (!broken.empty() && failed == 0) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(life), broken.c_str());
    }
    ++(broken.empty() ? passed : failed);
  }
  if (passed + failed < floor) {
    std::printf("fewer than %llu lives\n", static_cast<unsigned long long>(floor));
    ++failed;
  }
  std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(passed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) { return idempotency::proof::Main(argc, argv); }
