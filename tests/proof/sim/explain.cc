#include "tests/proof/sim/explain.h"

#include <algorithm>

#include "tests/proof/sim/checker.h"

namespace idempotency::proof {
namespace {

// Up to the first sign of a particular history.
std::string KindOf(const std::string& broken) {
  return broken.substr(0, std::min(broken.find('\n'), broken.find(':')));
}

}  // namespace

std::string Explain(PlayOptions options) {
  options.skip.assign(kMaxSteps, false);
  const std::string kind = KindOf(BrokenInvariant(Play(options)));
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (size_t step = kMaxSteps; step > 0; --step) {
      if (options.skip[step - 1]) continue;
      options.skip[step - 1] = true;
      const bool still = KindOf(BrokenInvariant(Play(options))) == kind;
      options.skip[step - 1] = still;
      shorter = shorter || still;
    }
  }
  options.tell = true;
  const History history = Play(options);
  std::string text = "seed " + std::to_string(options.seed) + ": " + BrokenInvariant(history);
  for (const std::string& line : history.story) text += "  " + line + "\n";
  return text;
}

}  // namespace idempotency::proof
