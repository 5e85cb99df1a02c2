#include "tests/fuzz/steps.h"

#include <algorithm>
#include <limits>

namespace idempotency::fuzz {
namespace {

constexpr size_t kHeadBytes = 3;

}  // namespace

std::vector<Step> ReadSteps(std::string_view input) {
  std::vector<Step> steps;
  while (input.size() >= kHeadBytes && steps.size() < kMaxSteps) {
    const auto kind = static_cast<uint8_t>(input[0]);
    const size_t length = static_cast<uint8_t>(input[1]) | static_cast<uint8_t>(input[2]) << 8;
    input.remove_prefix(kHeadBytes);
    steps.push_back(Step{kind, std::string(input.substr(0, length))});
    input.remove_prefix(std::min(length, input.size()));
  }
  return steps;
}

std::string WriteSteps(const std::vector<Step>& steps) {
  std::string input;
  for (const Step& step : steps) {
    const size_t length = std::min<size_t>(step.bytes.size(), std::numeric_limits<uint16_t>::max());
    input.push_back(static_cast<char>(step.kind));
    input.push_back(static_cast<char>(length & 0xff));
    input.push_back(static_cast<char>(length >> 8));
    input.append(step.bytes, 0, length);
  }
  return input;
}

}  // namespace idempotency::fuzz
