// The end: draining, destruction, and what still arrives from elsewhere meanwhile.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "keystore/core/transition.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::Each;
using testing::ElementsAre;

class DrainTest : public ShellTest {
 protected:
  explicit DrainTest(KeyStoreOptions options = {}) : ShellTest(Traits{}, std::move(options)) {}

  // Returns when a drain on another thread has begun: nothing is accepted any more.
  void AwaitRefusal() {
    for (auto said = std::make_shared<std::string>(); *said != "STORE_UNAVAILABLE";) {
      said = std::make_shared<std::string>();
      store->Submit(Get("probe"), [said](Reply reply) { *said = Words(reply); });
      std::this_thread::yield();
    }
  }
};

TEST_F(DrainTest, WaitersAreToldWhatHolds) {
  Send(Reserve("k", 1));
  const std::vector<Call*> waiters = {Send(Reserve("k", 2, 10s)), Send(Get("k", 10s))};
  store->Drain();
  EXPECT_THAT(Said(waiters), ElementsAre("IN_PROGRESS", "GOT PENDING"));
  EXPECT_EQ(store->waiters(), 0u);
}

TEST_F(DrainTest, NothingIsAcceptedAfterwards) {
  store->Drain();
  EXPECT_THAT(Said(SendAll({Reserve("k", 1), Complete("k", 1), Get("k")})),
              Each("STORE_UNAVAILABLE"));
  EXPECT_THAT(engine.reads(), testing::IsEmpty());
}

TEST_F(DrainTest, TwiceIsOnce) {
  Send(Reserve("k", 1));
  store->Drain();
  store->Drain();
}

TEST_F(DrainTest, AcceptedCommandsAreFinishedFirst) {
  Send(Reserve("k", 1));
  engine.Hold(FakeEngine::Call::kCommit);
  Call* const complete = Send(Complete("k", 1));
  Call* const queued = Send(Reserve("k", 2, 10s));
  std::atomic<bool> drained = false;
  std::thread drain([&] {
    store->Drain();
    drained = true;
  });
  AwaitRefusal();
  EXPECT_FALSE(drained) << "a commit is held";
  engine.HoldNoMore();
  engine.ReleaseAll();
  drain.join();
  EXPECT_EQ(complete->said, "COMPLETE");
  EXPECT_EQ(queued->said, "COMPLETED");
}

class DrainLanesTest : public DrainTest {
 protected:
  DrainLanesTest() : DrainTest(KeyStoreOptions{.lanes = 4}) {}
};

TEST_F(DrainLanesTest, WaitersOfEveryLaneAreTold) {
  std::vector<Call*> waiters;
  for (uint64_t i = 0; i < 32; ++i) {
    const std::string key = "k" + std::to_string(i);
    Send(Reserve(key, 1));
    waiters.push_back(Send(Reserve(key, 2, 10s)));
  }
  store->Drain();
  EXPECT_THAT(Said(waiters), Each("IN_PROGRESS"));
}

// The engine asks for the pressure between the check for a drain and the entry into a lane.
TEST_F(DrainTest, ACommandAcceptedWhileADrainBeginsIsAnsweredBeforeItReturns) {
  std::atomic<bool> drained = false;
  std::thread drain;
  std::string said;
  bool answered_late = false;
  engine.OnPressure([&] {
    engine.OnPressure({});
    drain = std::thread([&] {
      store->Drain();
      drained = true;
    });
    // Far longer than an early return takes; it costs nothing else.
    for (int i = 0; i < 20'000 && !drained; ++i) std::this_thread::yield();
  });
  store->Submit(Reserve("k", 1), [&](Reply reply) {
    said = Words(reply);
    answered_late = drained;
  });
  drain.join();
  EXPECT_THAT(said, testing::AnyOf("ACQUIRED 1", "STORE_UNAVAILABLE"));
  EXPECT_FALSE(answered_late) << said;
}

TEST_F(DrainTest, DestructionAwaitsLateCompletions) {
  engine.Hold(FakeEngine::Call::kRead);
  engine.Hold(FakeEngine::Call::kCommit);
  std::vector<Call*> calls;
  for (uint64_t i = 0; i < 10; ++i) calls.push_back(Send(Reserve("k" + std::to_string(i), i)));
  std::thread release([&] { engine.ReleaseUntilStopped(); });
  store.reset();
  engine.Stop();
  release.join();
  EXPECT_THAT(Said(calls), Each(testing::StartsWith("ACQUIRED ")));
}

TEST_F(DrainTest, AForeignChangeAfterTheKeyStoreIsGoneIsNobodysBusiness) {
  Send(Reserve("k", 1));
  store.reset();
  engine.TellForeignChange(KeyOf("k"));
}

TEST_F(DrainTest, DestructionAwaitsAForeignChangeThatIsBeingSeenTo) {
  Send(Reserve("k", 1));
  Call* const waiter = Send(Get("k", 10s));
  engine.Hold(FakeEngine::Call::kRead);
  std::thread hint([&] { engine.TellForeignChange(KeyOf("k")); });
  engine.AwaitHeld(1);
  hint.join();
  std::thread release([&] { engine.ReleaseUntilStopped(); });
  store.reset();
  engine.Stop();
  release.join();
  EXPECT_EQ(waiter->said, "GOT PENDING");
}

}  // namespace
}  // namespace idempotency::keystore
