// Known-wrong variants of core::Step, each with one plausible mistake: the tests of the core
// have to notice every one of them. Nothing outside tests may use them.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CORE_WRONG_STEPS_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CORE_WRONG_STEPS_H_

#include <ostream>
#include <string>
#include <vector>

#include "keystore/core/transition.h"

namespace idempotency::core {

struct WrongStep {
  std::string name;
  StepFunction step = nullptr;
  // Whether three commands under one policy are enough to show it as a broken property; the
  // naive model disagrees with every one of them.
  bool breaks_property = true;

  friend void PrintTo(const WrongStep& wrong, std::ostream* out) { *out << wrong.name; }
};

std::vector<WrongStep> WrongSteps();

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CORE_WRONG_STEPS_H_
