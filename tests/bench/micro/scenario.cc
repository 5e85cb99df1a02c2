#include "tests/bench/micro/scenario.h"

#include <cstdio>
#include <cstdlib>

namespace idempotency::bench {

ScenarioEntries AllScenarios() {
  ScenarioEntries entries;
  AddStepScenarios(entries);
  AddCodecScenarios(entries);
  AddEngineScenarios(entries);
  AddShellScenarios(entries);
#ifdef IDEMPOTENCY_BENCH_IDENTITY
  AddIdentityScenarios(entries);
#endif
  return entries;
}

void Require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "not measured: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace idempotency::bench
