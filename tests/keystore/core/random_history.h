// Random commands at the times that matter, for one key: what the naive model and the planted
// wrong variants are compared on. The same seed gives the same history for the same records.
// Not thread-safe.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CORE_RANDOM_HISTORY_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CORE_RANDOM_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "keystore/core/command.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/core/transition.h"

namespace idempotency::core {

// Policies that differ in every rule of the core.
std::vector<Policy> SamplePolicies();

class RandomHistory {
 public:
  explicit RandomHistory(uint64_t seed);

  struct Move {
    Now now;
    Policy policy;
    Command command;
  };
  // What happens next to a key under which `observed` is known.
  Move Next(const std::optional<Record>& observed);

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  bool OneIn(uint64_t chance) { return Below(chance) == 0; }
  template <typename T>
  const T& Any(const std::vector<T>& values) {
    return values[Below(values.size())];
  }
  Now NextNow(const std::optional<Record>& observed);
  uint64_t Token(const std::optional<Record>& observed);
  Response AnyResponse();
  ReserveCommand Reserve();
  RenewCommand Renew(uint64_t token);
  CompleteCommand Complete(uint64_t token);
  MarkUnresolvedCommand Mark(uint64_t token);
  ResolveCommand Resolve();
  Command NextCommand(const std::optional<Record>& observed);

  std::mt19937_64 random_;
  std::vector<Policy> policies_ = SamplePolicies();
  Policy policy_;
  Time time_;
  Duration skew_{0};
  uint64_t attempts_ = 0;
};

// Plays one history on `step` and on the naive model. Empty where they agree at every step;
// else the history up to where they do not, and both answers. Counts the kinds of answers
// ("reserve ACQUIRED", "complete error STALE_FENCING_TOKEN") in `seen`, where given.
std::string Disagreement(StepFunction step, uint64_t seed, size_t steps,
                         std::map<std::string, size_t>* seen = nullptr);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CORE_RANDOM_HISTORY_H_
