// Checks of the engine one after the other, a few in line, and what the clock adds to them.
#include "service/engine_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "tests/keystore/engine/findings.h"

namespace idempotency::service {
namespace {

using keystore::Severity;
using ::testing::ElementsAre;

constexpr core::Time kThen{core::Duration(1'800'000'000'000)};

// Looks for as long as a test wants.
class SlowEngine final : public keystore::Engine {
 public:
  keystore::EngineCheck CheckStore() override {
    ++begun;
    finish.WaitForNotification();
    return {.engine = "slow", .version = "1", .findings = {{.id = "slow.well"}}};
  }
  void Read(std::vector<core::Key>, ReadDone) override {}
  void Commit(std::vector<keystore::GuardedWrite>, CommitDone) override {}
  void Scan(keystore::ScanFilter, size_t, std::string, ScanDone) override {}
  void OnForeignChange(std::function<void(const core::Key&)>) override {}
  keystore::Traits traits() const override { return {}; }
  keystore::Pressure pressure() const override { return {}; }

  std::atomic<int> begun{0};
  absl::Notification finish;
};

TEST(EngineChecker, TellsWhatTheEngineFoundAndThenOfTheClock) {
  SlowEngine engine;
  engine.finish.Notify();
  keystore::ManualClock clock(kThen);
  std::vector<std::string> ids;
  core::Time time;
  absl::Notification ended;
  EngineChecker checker(&engine, &clock);
  ASSERT_TRUE(checker.Start([&](const absl::StatusOr<EngineChecker::Result>& result) {
    for (const keystore::Finding& finding : result->check.findings) ids.push_back(finding.id);
    time = result->time;
    ended.Notify();
  }));
  ended.WaitForNotification();
  EXPECT_THAT(ids, ElementsAre("slow.well", "clock.trusted", "clock.synchronised"));
  EXPECT_EQ(time, kThen);
}

TEST(EngineChecker, OneAtATimeAFewInLineAndNoMoreWhereTheServerStops) {
  SlowEngine engine;
  keystore::ManualClock clock(kThen);
  std::atomic<int> told{0};
  std::atomic<int> cancelled{0};
  int taken = 0;
  {
    EngineChecker checker(&engine, &clock);
    const auto start = [&] {
      return checker.Start([&](const absl::StatusOr<EngineChecker::Result>& result) {
        ++(result.ok() ? told : cancelled);
        EXPECT_TRUE(result.ok() || absl::IsCancelled(result.status())) << result.status();
      });
    };
    ASSERT_TRUE(start());
    while (engine.begun == 0) std::this_thread::yield();
    for (taken = 1; taken < 100 && start();) ++taken;
    EXPECT_GE(taken, 2);
    EXPECT_LT(taken, 10) << "they wait for their turn without end";
    EXPECT_EQ(engine.begun, 1);
    EXPECT_EQ(told + cancelled, 0);
    checker.Stop();
    engine.finish.Notify();
  }
  // Whoever was taken is answered; what had begun went on.
  EXPECT_EQ(told, 1);
  EXPECT_EQ(cancelled, taken - 1);
  EXPECT_EQ(engine.begun, 1);
}

TEST(EngineChecker, OfTheClock) {
  core::Now now = core::At(kThen);
  const auto severities = [&now](bool synchronised) {
    std::vector<Severity> all;
    for (const keystore::Finding& finding : JudgeClock(now, synchronised)) {
      all.push_back(finding.severity);
      EXPECT_EQ(finding.next_step.empty(), finding.severity == Severity::kOk);
    }
    return all;
  };
  EXPECT_THAT(severities(true), ElementsAre(Severity::kOk, Severity::kOk));
  keystore::ExpectDocumented(JudgeClock(now, true));
  // A kernel that does not say so has not said that it is wrong.
  EXPECT_THAT(severities(false), ElementsAre(Severity::kOk, Severity::kNotChecked));
  now.in_doubt = true;
  EXPECT_THAT(severities(true), ElementsAre(Severity::kWarning, Severity::kOk));
}

}  // namespace
}  // namespace idempotency::service
