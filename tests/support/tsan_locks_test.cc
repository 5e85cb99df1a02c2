// What absl's locks order is no race to the thread sanitizer (tsan_absl_mutex.cc). Each test
// shares a plain variable between two threads; a lock that TSan did not understand fails it.
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace idempotency {
namespace {

constexpr int kRounds = 1000;

TEST(TsanLocks, MutexOrdersWriters) {
  absl::Mutex mutex;
  int shared = 0;
  const auto count = [&] {
    for (int i = 0; i < kRounds; ++i) {
      absl::MutexLock lock(&mutex);
      ++shared;
    }
  };
  std::thread other(count);
  count();
  other.join();
  EXPECT_EQ(shared, 2 * kRounds);
}

TEST(TsanLocks, ReadersSeeWhatAWriterWrote) {
  absl::Mutex mutex;
  int shared = 0;
  std::thread writer([&] {
    for (int i = 0; i < kRounds; ++i) {
      absl::WriterMutexLock lock(&mutex);
      ++shared;
    }
  });
  int seen = 0;
  while (seen < kRounds) {
    absl::ReaderMutexLock lock(&mutex);
    seen = shared;
  }
  writer.join();
}

TEST(TsanLocks, ConditionsAreEvaluatedByOtherThreads) {
  absl::Mutex mutex;
  int shared = 0;
  std::thread writer([&] {
    for (int i = 0; i < kRounds; ++i) {
      absl::MutexLock lock(&mutex);
      ++shared;
    }
  });
  const auto at_least = [&](int least) { return [&shared, least] { return shared >= least; }; };
  for (int least = 1; least <= kRounds; least += 7) {
    const auto reached = at_least(least);
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&reached));
    EXPECT_GE(shared, least);
  }
  writer.join();
}

TEST(TsanLocks, ConditionVariables) {
  absl::Mutex mutex;
  absl::CondVar changed;
  int shared = 0;
  std::thread writer([&] {
    absl::MutexLock lock(&mutex);
    shared = 1;
    changed.SignalAll();
  });
  {
    absl::MutexLock lock(&mutex);
    while (shared == 0) changed.WaitWithTimeout(&mutex, absl::Seconds(10));
  }
  writer.join();
}

TEST(TsanLocks, NotificationsAndCounters) {
  absl::Notification told;
  absl::BlockingCounter done(1);
  int there = 0;
  int back = 0;
  std::thread other([&] {
    there = 1;
    told.Notify();
    back = 2;
    done.DecrementCount();
  });
  told.WaitForNotification();
  EXPECT_EQ(there, 1);
  done.Wait();
  EXPECT_EQ(back, 2);
  other.join();
}

}  // namespace
}  // namespace idempotency
