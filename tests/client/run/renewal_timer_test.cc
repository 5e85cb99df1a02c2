#include "client/src/renewal_timer.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/policies.h"
#include "idempotency/testing/fake_environment.h"

namespace idempotency::internal {
namespace {

using testing::FakeEnvironment;
using namespace std::chrono_literals;

class RenewalTimerTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeEnvironment> environment_ = std::make_shared<FakeEnvironment>();
  RenewalTimer timer_{environment_, RenewalTimer::Drive::kManual};
  std::string log_;

  RenewalTimer::Place In(Duration span, char letter) {
    return timer_.At(environment_->MonotonicNow() + span, [this, letter] { log_ += letter; });
  }
  std::string After(Duration span) {
    environment_->Advance(span);
    timer_.RunDue();
    return log_;
  }
};

TEST_F(RenewalTimerTest, RunsWhatIsDueInItsOrder) {
  In(30ms, 'c');
  In(10ms, 'a');
  In(20ms, 'b');
  In(20ms, 'B');
  EXPECT_EQ(After(9ms), "");
  EXPECT_EQ(After(1ms), "a");
  EXPECT_EQ(After(20ms), "abBc");
  EXPECT_EQ(After(1s), "abBc") << "each runs once";
}

TEST_F(RenewalTimerTest, CancelledActionsDoNotRun) {
  const auto a = In(10ms, 'a');
  In(10ms, 'b');
  timer_.Cancel(a);
  timer_.Cancel(a);
  timer_.Cancel(RenewalTimer::Place());
  EXPECT_EQ(After(10ms), "b");
}

TEST_F(RenewalTimerTest, AnActionMayAddAndCancel) {
  RenewalTimer::Place second;
  RenewalTimer::Place self;
  self = timer_.At(environment_->MonotonicNow(), [&] {
    log_ += '1';
    timer_.Cancel(self);  // it runs, on this thread: returns at once
    timer_.Cancel(second);
    In(0ms, '3');
  });
  second = In(0ms, '2');
  EXPECT_EQ(After(0ms), "13");
}

// With the real clock and a thread of its own.
class RenewalTimerThreadTest : public ::testing::Test {
 protected:
  std::shared_ptr<Environment> environment_ = SystemEnvironment();
};

TEST_F(RenewalTimerThreadTest, RunsOnItsOwnThread) {
  RenewalTimer timer(environment_);
  absl::Notification done;
  std::thread::id ran_on;
  timer.At(environment_->MonotonicNow() + 1ms, [&] {
    ran_on = std::this_thread::get_id();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(RenewalTimerThreadTest, AnEarlierActionOvertakesALaterOne) {
  RenewalTimer timer(environment_);
  absl::Notification done;
  timer.At(environment_->MonotonicNow() + 1h, [] { FAIL() << "dropped with the timer"; });
  timer.At(environment_->MonotonicNow(), [&] { done.Notify(); });
  done.WaitForNotification();
}

TEST_F(RenewalTimerThreadTest, CancelWaitsForWhatIsRunning) {
  RenewalTimer timer(environment_);
  absl::Notification started;
  absl::Notification go_on;
  bool finished = false;
  const auto place = timer.At(environment_->MonotonicNow(), [&] {
    started.Notify();
    go_on.WaitForNotification();
    finished = true;
  });
  started.WaitForNotification();
  std::thread releaser([&] { go_on.Notify(); });
  timer.Cancel(place);
  EXPECT_TRUE(finished);
  releaser.join();
}

TEST_F(RenewalTimerThreadTest, MayBeDestroyedByItsOwnAction) {
  auto timer = std::make_unique<RenewalTimer>(environment_);
  absl::Notification gone;
  absl::Notification assigned;
  auto* const raw = timer.get();
  raw->At(environment_->MonotonicNow(), [&] {
    assigned.WaitForNotification();
    timer.reset();
    gone.Notify();
  });
  assigned.Notify();
  gone.WaitForNotification();
  EXPECT_EQ(timer, nullptr);
}

}  // namespace
}  // namespace idempotency::internal
