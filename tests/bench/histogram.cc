#include "tests/bench/histogram.h"

#include <algorithm>
#include <cmath>

namespace idempotency::bench {

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

int64_t Histogram::Percentile(double percent) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(static_cast<double>(count_) * percent / 100);
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= rank) return static_cast<int64_t>(std::min(EndOf(i), max_));
  }
  return max();
}

uint64_t Histogram::EndOf(size_t bucket) {
  if (bucket < 2 * kSubBuckets) return bucket;
  const int shift = static_cast<int>(bucket / kSubBuckets) - 1;
  const uint64_t mantissa = bucket % kSubBuckets + kSubBuckets;
  return ((mantissa + 1) << shift) - 1;
}

}  // namespace idempotency::bench
