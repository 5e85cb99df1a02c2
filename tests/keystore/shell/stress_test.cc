// Many threads, few keys, an engine that answers late, loses races and does not always know:
// every command is answered once, and every fencing token has one holder.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kThreads = 8;
constexpr size_t kKeys = 50;
constexpr size_t kInFlight = 16;  // of a thread

struct Setting {
  std::string name;
  bool exclusive = true;
  bool late = false;     // completions on other threads
  bool trouble = false;  // lost races and unknown writes; for engines that are not exclusive
  size_t lanes = 1;
  size_t commands = 500;  // of a thread
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

// Which attempt got which token, as told to the callers.
class Ledger {
 public:
  void Granted(const std::string& key, uint64_t token, uint64_t attempt_id) {
    absl::MutexLock lock(&mutex_);
    const auto [entry, added] = holders_.try_emplace({key, token}, attempt_id);
    EXPECT_TRUE(added) << "token " << token << " of " << key << " was granted to attempts "
                       << entry->second << " and " << attempt_id;
  }
  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return holders_.size();
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::pair<std::string, uint64_t>, uint64_t> holders_ ABSL_GUARDED_BY(mutex_);
};

// One caller: reserves, and reports on what it was granted.
class Caller {
 public:
  Caller(KeyStore* store, Ledger* ledger, unsigned seed, size_t commands)
      : store_(store), ledger_(ledger), random_(seed), seed_(seed), calls_(commands) {}

  void Run() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      AwaitRoom();
      Call& call = calls_[i];
      call.attempt_id = uint64_t{seed_} << 32 | i;
      Request request = NextRequest(call.attempt_id);
      call.key = request.key.key;
      call.handle =
          store_->Submit(std::move(request), [this, &call](Reply reply) { Answered(call, reply); });
      if (random_() % 16 == 0) store_->Cancel(calls_[random_() % (i + 1)].handle);
    }
  }

  void ExpectEachAnsweredOnce() const {
    for (const Call& call : calls_) EXPECT_EQ(call.answers, 1) << call.key;
  }

 private:
  struct Call {
    std::string key;
    uint64_t attempt_id = 0;
    CancelHandle handle;
    std::atomic<int> answers = 0;
  };

  void AwaitRoom() {
    absl::MutexLock lock(&mutex_);
    ++in_flight_;
    mutex_.Await(absl::Condition(
        +[](size_t* count) { return *count <= kInFlight; }, &in_flight_));
  }

  // What is unknown may be run again, and what is complete is free: keys are used all the time.
  static Request UnderItsPolicy(Request request) {
    return Rerun(ZeroRetention(std::move(request)), 0ms);
  }

  Request NextRequest(uint64_t attempt_id) {
    const std::optional<std::pair<std::string, uint64_t>> held = TakeHeld();
    if (!held.has_value()) return NextReserve(attempt_id);
    const auto& [key, token] = *held;
    switch (random_() % 6) {
      case 0:
        return UnderItsPolicy(Mark(key, token));
      case 1:
        return UnderItsPolicy(Renew(key, token, 500ms));
      case 2:
      case 3:
        return UnderItsPolicy(Release(key, token));
      default:
        return UnderItsPolicy(Complete(key, token));
    }
  }

  Request NextReserve(uint64_t attempt_id) {
    const std::string key = "k" + std::to_string(random_() % kKeys);
    const core::Duration wait = random_() % 4 == 0 ? 0ms : core::Duration(random_() % 1000);
    if (random_() % 8 == 0) return UnderItsPolicy(Get(key, wait));
    Request request = Reserve(key, attempt_id, wait);
    auto& command = std::get<core::ReserveCommand>(request.command);
    command.lease = 500ms;
    command.dispatch_later = random_() % 8 == 0;
    return UnderItsPolicy(std::move(request));
  }

  std::optional<std::pair<std::string, uint64_t>> TakeHeld() {
    absl::MutexLock lock(&mutex_);
    // One in eight is forgotten: its lease lapses.
    if (!held_.empty() && random_() % 8 == 0) held_.pop_front();
    if (held_.empty()) return std::nullopt;
    auto held = std::move(held_.front());
    held_.pop_front();
    return held;
  }

  void Answered(Call& call, const Reply& reply) {
    ++call.answers;
    const auto* reserve = std::get_if<core::ReserveAnswer>(&reply.answer);
    const bool granted = !reply.cancelled && reserve != nullptr &&
                         (reserve->outcome == core::ReserveOutcome::kAcquired ||
                          reserve->outcome == core::ReserveOutcome::kAlreadyHeld);
    if (granted) ledger_->Granted(call.key, reserve->lease->token, call.attempt_id);
    const auto* renew = std::get_if<core::RenewAnswer>(&reply.answer);
    absl::MutexLock lock(&mutex_);
    if (granted) held_.emplace_back(call.key, reserve->lease->token);
    if (renew != nullptr) held_.emplace_back(call.key, renew->lease.token);
    --in_flight_;
  }

  KeyStore* const store_;
  Ledger* const ledger_;
  std::mt19937 random_;
  const unsigned seed_;
  std::deque<Call> calls_;
  absl::Mutex mutex_;
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::pair<std::string, uint64_t>> held_ ABSL_GUARDED_BY(mutex_);
};

// One write in eight fails to be certain.
FakeEngine::Fate RandomFate(std::mt19937& random) {
  using Fate = FakeEngine::Fate;
  constexpr std::array<Fate, 4> kTrouble = {Fate::kLoseRace, Fate::kUnknownWritten,
                                            Fate::kUnknownNotWritten, Fate::kCommit};
  return random() % 8 == 0 ? kTrouble[random() % kTrouble.size()] : Fate::kCommit;
}

class StressTest : public testing::TestWithParam<Setting> {
 protected:
  StressTest()
      : engine_(Traits{.exclusive = GetParam().exclusive}),
        store_(&engine_, &clock_, nullptr, KeyStoreOptions{.lanes = GetParam().lanes}) {
    if (GetParam().late) {
      engine_.Hold(FakeEngine::Call::kRead);
      engine_.Hold(FakeEngine::Call::kCommit);
    }
    if (GetParam().trouble) engine_.ChooseFates([this] { return RandomFate(fates_); });
    for (unsigned i = 0; i < kThreads; ++i) {
      callers_.push_back(std::make_unique<Caller>(&store_, &ledger_, i + 1, GetParam().commands));
    }
  }

  // Runs all callers to their end while time passes and late calls are completed.
  void RunAll() {
    std::vector<std::thread> helpers;
    for (int i = 0; i < 2; ++i) helpers.emplace_back([this] { engine_.ReleaseUntilStopped(); });
    std::atomic<bool> done = false;
    std::thread time([this, &done] {
      while (!done) {
        clock_.Advance(5ms);
        store_.RunTimers();
        store_.Sweep();
        std::this_thread::yield();
      }
    });
    std::vector<std::thread> threads;
    for (const auto& caller : callers_) threads.emplace_back([&caller] { caller->Run(); });
    for (std::thread& thread : threads) thread.join();
    store_.Drain();
    done = true;
    time.join();
    // What the timers asked for meanwhile.
    store_.Drain();
    engine_.Stop();
    for (std::thread& helper : helpers) helper.join();
  }

  std::mt19937 fates_{4711};
  ManualClock clock_{kStart};
  FakeEngine engine_;
  Ledger ledger_;
  KeyStore store_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

TEST_P(StressTest, EachCommandIsAnsweredOnceAndEachTokenHasOneHolder) {
  RunAll();
  for (const auto& caller : callers_) caller->ExpectEachAnsweredOnce();
  EXPECT_GT(ledger_.size(), 10 * kKeys) << "keys are used again and again";
  EXPECT_EQ(store_.waiters(), 0u);
  EXPECT_EQ(store_.queued(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Engines, StressTest,
                         testing::Values(Setting{.name = "ReplicatedLateInTrouble",
                                                 .exclusive = false,
                                                 .late = true,
                                                 .trouble = true,
                                                 .commands = 2000},
                                         Setting{.name = "ReplicatedLateInTroubleThreeLanes",
                                                 .exclusive = false,
                                                 .late = true,
                                                 .trouble = true,
                                                 .lanes = 3},
                                         Setting{.name = "ExclusiveAtOnce"},
                                         Setting{.name = "ExclusiveAtOnceTwoLanes", .lanes = 2},
                                         Setting{.name = "ExclusiveLate", .late = true}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace idempotency::keystore
