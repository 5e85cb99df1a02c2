// A latency histogram in the manner of HdrHistogram: buckets that are linear within each power of
// two, so that every value is kept to within 1/128 of itself, in constant memory.
//
//   Histogram latencies;
//   latencies.Record(nanos);
//   latencies.Percentile(99);
//
// Thread safety: none; give each thread its own and merge them.
#ifndef IDEMPOTENCY_TESTS_BENCH_HISTOGRAM_H_
#define IDEMPOTENCY_TESTS_BENCH_HISTOGRAM_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace idempotency::bench {

class Histogram {
 public:
  // A negative value counts as zero.
  void Record(int64_t value) {
    const uint64_t clamped = value < 0 ? 0 : static_cast<uint64_t>(value);
    ++counts_[BucketOf(clamped)];
    ++count_;
    sum_ += static_cast<double>(clamped);
    if (clamped > max_) max_ = clamped;
  }
  void Merge(const Histogram& other);

  // The value that `percent` of the recorded ones do not exceed, rounded up to its bucket's end;
  // never above max(). Zero where nothing was recorded.
  int64_t Percentile(double percent) const;
  uint64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  int64_t max() const { return static_cast<int64_t>(max_); }

 private:
  static constexpr int kSubBits = 7;
  static constexpr size_t kSubBuckets = size_t{1} << kSubBits;
  static constexpr size_t kBuckets = (64 - kSubBits) * kSubBuckets;

  static size_t BucketOf(uint64_t value) {
    if (value < kSubBuckets) return value;
    const int shift = std::bit_width(value) - kSubBits - 1;
    return static_cast<size_t>(shift) * kSubBuckets + (value >> shift);
  }
  static uint64_t EndOf(size_t bucket);

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0;
  uint64_t max_ = 0;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_HISTOGRAM_H_
