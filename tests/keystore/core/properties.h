// What must hold of every single step, whatever led to it: properties I1-I3 and I6-I10 of the
// failure model, the idempotence that transition.h promises, and that keeping really keeps.
// They are stated over what was observed before and after, not over how step decides.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CORE_PROPERTIES_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CORE_PROPERTIES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keystore/core/command.h"
#include "keystore/core/policy.h"
#include "keystore/core/transition.h"

namespace idempotency::core {

// Steps `command` once, and once more on what it has led to; says the first property that is
// broken, with everything needed to see it. Empty: none. `before` is what is observed of
// `stored` now; `decision` receives the first step's.
std::string BrokenProperty(StepFunction step, const Stored& stored,
                           const std::optional<Record>& before, const Command& command,
                           const Policy& policy, const Now& now, uint64_t token_floor,
                           Decision* decision);

// What time alone may do to `record` at each of these moments, and at one after another;
// empty: nothing else.
std::string BrokenByTime(const Record& record, const std::vector<Now>& moments);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CORE_PROPERTIES_H_
