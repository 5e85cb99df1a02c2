// What a run measures, and what went wrong in it.
#ifndef IDEMPOTENCY_TESTS_BENCH_METER_H_
#define IDEMPOTENCY_TESTS_BENCH_METER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/bench/histogram.h"

namespace idempotency::bench {

// The part of a run that counts, from the end of the warm-up to the end.
//
// Thread safety: set before the load starts, then only read.
struct Window {
  int64_t start = 0;
  int64_t measured_from = 0;
  int64_t end = 0;

  bool Holds(int64_t now) const { return now >= measured_from && now < end; }
  bool IsOver(int64_t now) const { return now >= end; }
};

// Of one thread. An operation is what a caller wants done, of one call or several.
//
// Thread safety: none; each thread has its own, and they are merged at the end.
struct Meter {
  Histogram calls;
  Histogram operations;
  int64_t last = 0;  // when the newest of them ended

  void Merge(const Meter& other) {
    calls.Merge(other.calls);
    operations.Merge(other.operations);
    last = std::max(last, other.last);
  }
};

// Answers that were not what they had to be, by kind.
//
// Thread safety: all methods may be called from any thread.
class Faults {
 public:
  void Add(const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++kinds_[what];
    ++count_;
  }
  std::map<std::string, uint64_t> kinds() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return kinds_;
  }
  uint64_t count() const { return count_; }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, uint64_t> kinds_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> count_{0};
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_METER_H_
