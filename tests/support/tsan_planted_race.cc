// A race on purpose: the thread sanitizer has to see it, or its silence means nothing.
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/mutex.h"

namespace idempotency {
namespace {

TEST(TsanPlantedRace, OneSideForgetsTheLock) {
  absl::Mutex mutex;
  int shared = 0;
  std::thread careful([&] {
    absl::MutexLock lock(&mutex);
    ++shared;
  });
  std::thread careless([&] { ++shared; });
  careful.join();
  careless.join();
  EXPECT_GE(shared, 1);
}

}  // namespace
}  // namespace idempotency
