#include "tests/proof/sim/clock_steps.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "keystore/clock.h"
#include "keystore/core/limits.h"
#include "keystore/core/transition.h"
#include "tests/keystore/core/core_text.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof {
namespace {

using core::Duration;
using core::Time;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kYear = 365 * core::kDay;
constexpr Duration kLease = hours(2);
constexpr Duration kRetention = core::kDay;
constexpr Duration kMemory = 30 * core::kDay;
constexpr Duration kProtection = hours(20);

core::Policy PolicyOf(core::UnknownOutcome outcome) {
  core::Policy policy;
  policy.max_hold = policy.max_lease = core::kDay;
  policy.terms.unknown_outcome = outcome;
  policy.terms.retention = kRetention;
  policy.expired_memory = kMemory;
  if (outcome == core::UnknownOutcome::kRetrySameKey) {
    policy.terms.protection_window = kProtection;
    policy.terms.max_attempts = 100;
  }
  return policy;
}

// One key, and since when it holds what it holds, by true time.
struct Subject {
  std::string name;
  core::Policy policy;
  core::Stored stored;
  Duration since{0};
  Duration led{0};  // how far the guarded clock had been led forward by then
  Time began;       // by the guarded clock
};

class Steps {
 public:
  Steps() : guard_(Kernel(), Time{}) { Begin(); }

  std::string Take(const ClockStep& step);

 private:
  keystore::KernelTime Kernel() const {
    return keystore::KernelTime{
        .wall = core::kStart + true_ + offset_, .boot = hours(1) + true_, .synchronised = false};
  }
  core::Decision Do(Subject& subject, const core::Command& command, const core::Now& now);
  void Begin();
  void Set(const ClockStep& step);
  std::string CheckClock(const core::Now& now, Duration elapsed);
  std::string CheckLease(const core::Now& now);
  std::string CheckAnswer(const core::Now& now);
  std::string CheckUnknown(Subject& subject, const core::Now& now);
  // How far guarded time may be since the subject got what it holds.
  Duration Age(const Subject& subject) const { return true_ - subject.since; }
  Duration Led(const Subject& subject) const { return led_ - subject.led; }

  Duration true_{0};
  Duration offset_{0};
  Duration led_{0};
  Time last_;
  keystore::ClockGuard guard_;
  uint64_t attempts_ = 0;
  Subject lease_, answer_, reconcile_, retry_;
};

core::Decision Steps::Do(Subject& subject, const core::Command& command, const core::Now& now) {
  core::Decision decision = core::Step(subject.stored, command, subject.policy, now, 1);
  if (decision.effect == core::Effect::kWrite) subject.stored = *decision.record;
  if (decision.effect == core::Effect::kErase) subject.stored = core::Absent{};
  return decision;
}

core::ReserveCommand Reserve(uint64_t attempt) {
  core::ReserveCommand command;
  command.fingerprint = core::FingerprintOf("x");
  command.attempt_id = core::Digest{.high = 1, .low = attempt};
  command.lease = kLease;
  return command;
}

void Steps::Begin() {
  const core::Now now = guard_.Advance(Kernel());
  last_ = now.latest;
  lease_ =
      Subject{"the lease", PolicyOf(core::UnknownOutcome::kReconcileFirst), {}, true_, led_, last_};
  answer_ = lease_;
  answer_.name = "the answer";
  reconcile_ = lease_;
  reconcile_.name = "the unknown to be reconciled";
  retry_ = lease_;
  retry_.name = "the unknown that may be retried";
  retry_.policy = PolicyOf(core::UnknownOutcome::kRetrySameKey);
  for (Subject* subject : {&lease_, &answer_, &reconcile_, &retry_}) {
    Do(*subject, Reserve(++attempts_), now);
  }
  Do(answer_, core::CompleteCommand{.token = 1, .response = {core::Blob("ok")}}, now);
  for (Subject* subject : {&reconcile_, &retry_}) {
    Do(*subject, core::MarkUnresolvedCommand{.token = 1}, now);
  }
}

// What is done to the clock, and how far guarded time may follow.
void Steps::Set(const ClockStep& step) {
  true_ += step.elapsed;
  offset_ += step.wall;
  if (step.restart) guard_ = keystore::ClockGuard(Kernel(), last_);
  const Time wall = Kernel().wall;
  // A process that was not running has not seen what elapsed.
  const Time known = step.restart ? last_ : last_ + step.elapsed;
  if (wall > known && wall <= known + core::kMaxClockJump) {
    led_ += std::max(wall - (last_ + step.elapsed), Duration{0});
  }
}

std::string Steps::CheckClock(const core::Now& now, Duration elapsed) {
  if (now.latest < last_) return "guarded time runs backwards";
  if (now.latest - last_ < elapsed) return "guarded time is slower than what elapsed";
  return {};
}

std::string Steps::CheckLease(const core::Now& now) {
  const core::Decision got = Do(lease_, core::InspectCommand{}, now);
  const auto* shown = std::get_if<core::InspectAnswer>(&got.answer);
  if (shown == nullptr) return "an unknown outcome is forgotten";
  const bool pending = shown->operation->state == core::State::kPending;
  if (!pending && Age(lease_) + Led(lease_) < kLease) return "a lease ends early";
  if (pending && Age(lease_) >= kLease) return "a lease does not end by elapsed time";
  return {};
}

std::string Steps::CheckAnswer(const core::Now& now) {
  const core::Decision got = Do(answer_, Reserve(++attempts_), now);
  const auto* reserved = std::get_if<core::ReserveAnswer>(&got.answer);
  if (reserved == nullptr) return "an error where an answer is";
  const bool forgotten = reserved->outcome == core::ReserveOutcome::kAcquired;
  const bool kept = reserved->outcome == core::ReserveOutcome::kCompleted;
  const Duration age = Age(answer_) + Led(answer_);
  if (forgotten && now.in_doubt) return "a key is forgotten while the clock is in doubt";
  if (forgotten && age < kRetention + kMemory) return "a key is forgotten early";
  if (!kept && now.in_doubt && age < kRetention) return "a jump forward takes an answer away";
  if (!kept && age < kRetention) return "an answer expires early";
  if (kept && !now.in_doubt && Age(answer_) >= kRetention) return "an expired answer is served";
  return {};
}

std::string Steps::CheckUnknown(Subject& subject, const core::Now& now) {
  const core::Decision got = Do(subject, Reserve(++attempts_), now);
  const auto* reserved = std::get_if<core::ReserveAnswer>(&got.answer);
  const bool granted = reserved != nullptr && reserved->outcome == core::ReserveOutcome::kAcquired;
  if (!granted) return {};
  if (&subject == &reconcile_) return "what has to be reconciled is granted again";
  if (now.in_doubt) return "an attempt is granted while the clock is in doubt";
  if (Kernel().wall >= subject.began + kProtection) {
    return "an attempt is granted after the protection, by the wall clock";
  }
  if (Age(subject) >= kProtection) return "an attempt is granted after the protection";
  Do(subject, core::MarkUnresolvedCommand{.token = reserved->lease->token}, now);
  return {};
}

std::string Steps::Take(const ClockStep& step) {
  Set(step);
  const core::Now now = guard_.Advance(Kernel());
  // Time without a process, whose clock is in doubt after it, is not counted until the doubt ends.
  const Duration counted = step.restart ? Duration{0} : step.elapsed;
  std::string broken = CheckClock(now, counted);
  last_ = now.latest;
  if (step.restart) {
    // What was lost of elapsed time lengthens what was promised; a new beginning for the subjects.
    if (step.confirmed) guard_.Confirm();
    Begin();
    return broken;
  }
  if (broken.empty()) broken = CheckLease(now);
  if (broken.empty()) broken = CheckAnswer(now);
  for (Subject* subject : {&reconcile_, &retry_}) {
    if (broken.empty()) broken = CheckUnknown(*subject, now);
  }
  if (step.confirmed) {
    led_ += std::max(Kernel().wall - now.latest, Duration{0});
    guard_.Confirm();
    last_ = std::max(last_, Kernel().wall);
  }
  // Once all is over there is nothing left to see.
  if (Age(answer_) > kRetention + kMemory + core::kDay || Led(answer_) > kRetention) Begin();
  return broken;
}

}  // namespace

std::string BrokenByClockSteps(const std::vector<ClockStep>& steps) {
  Steps world;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string broken = world.Take(steps[i]);
    if (broken.empty()) continue;
    const ClockStep& step = steps[i];
    return broken + ", after step " + std::to_string(i) + " (" + step.name + ": " +
           core::Text(step.elapsed) + " pass, the wall clock is set by " + core::Text(step.wall) +
           (step.restart ? ", restart" : "") + ")";
  }
  return {};
}

std::vector<ClockStep> RandomClockSteps(uint64_t seed, size_t count) {
  Random random(seed);
  const std::vector<Duration> kSizes{hours(1), hours(1) + milliseconds(1), kYear, minutes(20),
                                     seconds(3)};
  std::vector<ClockStep> steps;
  for (size_t i = 0; i < count; ++i) {
    ClockStep step{.name = "random"};
    step.elapsed = random.OneIn(4) ? Duration(minutes(random.Below(600)))
                                   : Duration(milliseconds(random.Below(30'000)));
    if (random.OneIn(3)) {
      const Duration size =
          random.OneIn(3) ? Duration(seconds(random.Below(40'000'000))) : random.Any(kSizes);
      step.wall = random.OneIn(2) ? size : -size;
    }
    step.restart = random.OneIn(25);
    step.confirmed = random.OneIn(25);
    steps.push_back(step);
  }
  return steps;
}

}  // namespace idempotency::proof
