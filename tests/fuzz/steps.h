// Inputs that are a story of several steps:
//
//   input := { step }      step := kind length(2 bytes, lowest first) bytes
//
// The last step may be cut short.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_TESTS_FUZZ_STEPS_H_
#define IDEMPOTENCY_TESTS_FUZZ_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::fuzz {

struct Step {
  uint8_t kind = 0;
  std::string bytes;
};

inline constexpr size_t kMaxSteps = 32;

// The first kMaxSteps of them.
std::vector<Step> ReadSteps(std::string_view input);
std::string WriteSteps(const std::vector<Step>& steps);

// Tells the steps of an input to a Story of its own, and ends it.
template <typename Story>
void TellStory(const uint8_t* data, size_t size) {
  Story story;
  for (const Step& step : ReadSteps({reinterpret_cast<const char*>(data), size})) story.Tell(step);
  story.End();
}

}  // namespace idempotency::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_STEPS_H_
