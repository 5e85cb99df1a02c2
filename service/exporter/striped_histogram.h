// A histogram that many threads observe into without waiting for each other: some atomic counters
// for each of several stripes, added up when it is read. (prometheus::Histogram takes a mutex.)
//
//   constexpr StripedHistogram<3>::Bounds kSizes{1, 10, 100};
//   StripedHistogram<3> sizes(&kSizes);
//   sizes.Observe(7);
//   sizes.Read()                      // {counts: {0, 1, 0, 0}, sum: 7}
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_SERVICE_EXPORTER_STRIPED_HISTOGRAM_H_
#define IDEMPOTENCY_SERVICE_EXPORTER_STRIPED_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace idempotency::service {

// A power of two; threads share stripes where there are more of them.
inline constexpr size_t kStripes = 8;

// The stripe of the calling thread.
inline size_t ThisStripe() {
  static std::atomic<size_t> threads{0};
  thread_local const size_t mine = threads.fetch_add(1, std::memory_order_relaxed) % kStripes;
  return mine;
}

template <size_t kBounds>
class StripedHistogram {
 public:
  using Bounds = std::array<uint64_t, kBounds>;
  struct Snapshot {
    // How many values were at most the bound of this place, and above the one before; the last:
    // above all.
    std::array<uint64_t, kBounds + 1> counts{};
    uint64_t sum = 0;
  };

  // Rising. Must outlive the histogram.
  explicit constexpr StripedHistogram(const Bounds* bounds) : bounds_(bounds) {}

  void Observe(uint64_t value) {
    const auto bound = std::lower_bound(bounds_->begin(), bounds_->end(), value);
    Stripe& stripe = stripes_[ThisStripe()];
    Add(stripe.counts[static_cast<size_t>(bound - bounds_->begin())], 1);
    Add(stripe.sum, value);
  }

  // Values that are observed meanwhile may be in it or not.
  Snapshot Read() const {
    Snapshot snapshot;
    for (const Stripe& stripe : stripes_) {
      for (size_t i = 0; i <= kBounds; ++i) {
        snapshot.counts[i] += stripe.counts[i].load(std::memory_order_relaxed);
      }
      snapshot.sum += stripe.sum.load(std::memory_order_relaxed);
    }
    return snapshot;
  }

  const Bounds& bounds() const { return *bounds_; }

 private:
  using Counter = std::atomic<uint64_t>;
  // Stripes share no cache line.
  struct alignas(64) Stripe {
    std::array<Counter, kBounds + 1> counts{};
    Counter sum{0};
  };

  static void Add(Counter& counter, uint64_t n) { counter.fetch_add(n, std::memory_order_relaxed); }

  const Bounds* const bounds_;
  std::array<Stripe, kStripes> stripes_{};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_EXPORTER_STRIPED_HISTOGRAM_H_
