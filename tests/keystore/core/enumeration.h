// Breadth-first over every record that a few commands can lead to: two attempts, two requests,
// two answers, every verb, every moment at which time alone changes something and the
// millisecond before it. Each step on each distinct record is checked against properties.h.
//
// Two records are the same here where no answer can tell them apart: times count from the last
// change, tokens by their order, and neither history nor counters count.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CORE_ENUMERATION_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CORE_ENUMERATION_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "keystore/core/policy.h"
#include "keystore/core/transition.h"

namespace idempotency::core {

struct NamedPolicy {
  std::string name;
  Policy policy;

  friend void PrintTo(const NamedPolicy& named, std::ostream* out) { *out << named.name; }
};

// Short spans, so that their ends meet.
std::vector<NamedPolicy> EnumeratedPolicies();

struct Enumerated {
  size_t records = 0;
  size_t steps = 0;
  // The first broken property, with the record and the step; empty: none.
  std::string broken;
};

// Everything that `depth` commands lead to; the last of them is one that may change something,
// at a time that is certain.
Enumerated Enumerate(StepFunction step, const Policy& policy, int depth);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CORE_ENUMERATION_H_
