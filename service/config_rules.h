// What the values of a configuration file have to satisfy beyond their types.
//
// Ranges are asked of each value where it is written. Rules between values are asked of what
// holds in the end (built-in, defaults, preset, own), and not where one of the values they are
// about has a problem already: one mistake, one line.
#ifndef IDEMPOTENCY_SERVICE_CONFIG_RULES_H_
#define IDEMPOTENCY_SERVICE_CONFIG_RULES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "idempotency/config/v1/config.pb.h"
#include "keystore/core/policy.h"
#include "service/config_problems.h"
#include "service/config_yaml.h"

namespace idempotency::service {

// The bounds that core/limits.h does not know, because only configuration has them.
inline constexpr core::Duration kMaxConfigWait = std::chrono::hours(1);
inline constexpr uint32_t kMaxConfigAttempts = 1'000;
inline constexpr uint32_t kMaxConfigWaiters = 1'000'000;
inline constexpr uint32_t kMaxConfigQueuedCommands = 1'000'000;
inline constexpr uint32_t kMaxConfigReservesPerSecond = 1'000'000;
inline constexpr int kMaxConfigNamespaces = 1'000;
inline constexpr int kMaxConfigEndpoints = 64;

// Where one `defaults` or item of `namespaces` stands.
struct Place {
  std::string path;
  int line = 0;
};

// Ranges of what one namespace (or `defaults`) writes.
void CheckValues(const config::v1::Namespace& values, const Place& place, const FieldLines& lines,
                 ConfigProblems* problems);

void CheckLimits(const config::v1::Limits& limits, const FieldLines& lines,
                 ConfigProblems* problems);

// One rule between values, broken.
struct Contradiction {
  std::vector<std::string_view> fields;  // that the rule is about
  std::string sentence;
};

// All rules that what holds in a namespace breaks.
std::vector<Contradiction> FindContradictions(const core::Policy& policy);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_CONFIG_RULES_H_
