#include "tests/proof/overload/steadiness.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace idempotency::proof {
namespace {

double MedianOf(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

std::vector<double> Part(const std::vector<double>& samples, size_t from, size_t to) {
  return {samples.begin() + static_cast<std::ptrdiff_t>(from),
          samples.begin() + static_cast<std::ptrdiff_t>(to)};
}

}  // namespace

double FirstMedian(const std::vector<double>& samples) {
  return MedianOf(Part(samples, samples.size() / 3, samples.size() * 2 / 3));
}

double LastMedian(const std::vector<double>& samples) {
  return MedianOf(Part(samples, samples.size() * 2 / 3, samples.size()));
}

std::string Unsteady(const std::string& what, const std::vector<double>& samples, double allowed) {
  if (samples.size() < kLeastSamples) {
    return "only " + std::to_string(samples.size()) + " samples of " + what;
  }
  const double first = FirstMedian(samples);
  const double last = LastMedian(samples);
  if (last - first <= allowed) return "";
  char text[160];
  std::snprintf(text, sizeof text, "%s grew from %.1f to %.1f, by more than %.1f", what.c_str(),
                first, last, allowed);
  return text;
}

}  // namespace idempotency::proof
