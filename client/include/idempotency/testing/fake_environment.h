// Time and chance in the hands of a test: the clocks stand still until the test, or a sleep, moves
// them; sleeps take no time and are written down; chance follows a script.
//
//   auto environment = std::make_shared<idempotency::testing::FakeEnvironment>();
//   idempotency::Client client(connection, environment);
//   client.Run(...);
//   EXPECT_THAT(environment->sleeps(), ElementsAre(50ms, 100ms, 200ms));
//
// A Client's background thread looks at the clock once a second of real time; what it does then
// is due by the fake one.
#ifndef IDEMPOTENCY_TESTING_FAKE_ENVIRONMENT_H_
#define IDEMPOTENCY_TESTING_FAKE_ENVIRONMENT_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "idempotency/policies.h"
#include "idempotency/types.h"

namespace idempotency::testing {

// Thread safety: all methods may be called from any thread.
class FakeEnvironment : public Environment {
 public:
  // 2026-01-01T00:00:00Z by the wall clock, an hour after the machine was started.
  FakeEnvironment() = default;

  // Moves both clocks.
  void Advance(Duration span) {
    const std::scoped_lock lock(mutex_);
    monotonic_ += span;
    wall_ += span;
  }

  // All sleeps so far, in their order.
  std::vector<Duration> sleeps() const {
    const std::scoped_lock lock(mutex_);
    return sleeps_;
  }

  // Called in every sleep, when the clocks have moved: for what happens meanwhile.
  void OnSleep(std::function<void(Duration)> callback) {
    const std::scoped_lock lock(mutex_);
    on_sleep_ = std::move(callback);
  }

  // What Random returns next, one after the other; after the last, and without a script, 0: no
  // jitter.
  void ScriptRandom(std::deque<double> script) {
    const std::scoped_lock lock(mutex_);
    random_ = std::move(script);
  }

  // Environment:
  std::chrono::nanoseconds MonotonicNow() override {
    const std::scoped_lock lock(mutex_);
    return monotonic_;
  }

  SystemTime WallNow() override {
    const std::scoped_lock lock(mutex_);
    return wall_;
  }

  void Sleep(Duration span) override {
    std::function<void(Duration)> callback;
    {
      const std::scoped_lock lock(mutex_);
      sleeps_.push_back(span);
      monotonic_ += span;
      wall_ += span;
      callback = on_sleep_;
    }
    if (callback) callback(span);
  }

  // One sleep, however long.
  void SleepUnless(std::stop_token stop, Duration span) override {
    if (!stop.stop_requested()) Sleep(span);
  }

  double Random() override {
    const std::scoped_lock lock(mutex_);
    if (random_.empty()) return 0.0;
    const double next = random_.front();
    random_.pop_front();
    return next;
  }

  // 00000000000000000000000000000001, ...2, and so on.
  std::string RandomId() override {
    const std::scoped_lock lock(mutex_);
    const std::string digits = std::to_string(++ids_);
    return std::string(32 - digits.size(), '0') + digits;
  }

 private:
  mutable std::mutex mutex_;
  std::chrono::nanoseconds monotonic_ = std::chrono::hours(1);
  SystemTime wall_ = std::chrono::sys_days(std::chrono::year(2026) / 1 / 1);
  std::vector<Duration> sleeps_;
  std::function<void(Duration)> on_sleep_;
  std::deque<double> random_;
  uint64_t ids_ = 0;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTING_FAKE_ENVIRONMENT_H_
