// Whether a figure that was sampled over a long run stays where it is.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_TESTS_PROOF_OVERLOAD_STEADINESS_H_
#define IDEMPOTENCY_TESTS_PROOF_OVERLOAD_STEADINESS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace idempotency::proof {

// Of the samples the first third is for warming up: caches and memtables fill, threads and arenas
// are made. Of the rest, the median of the last half may be above that of the first by `allowed`.
inline constexpr size_t kLeastSamples = 9;

double FirstMedian(const std::vector<double>& samples);
double LastMedian(const std::vector<double>& samples);

// "" or how far `what` grew.
std::string Unsteady(const std::string& what, const std::vector<double>& samples, double allowed);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_OVERLOAD_STEADINESS_H_
