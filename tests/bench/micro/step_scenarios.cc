// The Step alone, without codec, engine or locks.
#include <memory>
#include <utility>
#include <vector>

#include "keystore/core/transition.h"
#include "tests/bench/micro/ingredients.h"
#include "tests/bench/micro/scenario.h"

namespace idempotency::bench {
namespace {

constexpr size_t kOperations = 256;
constexpr uint64_t kToken = 1'000'000;

class StepScenario : public Scenario {
 public:
  // before(number): what is stored; command(number): what is asked.
  template <typename Before, typename MakeCommand>
  StepScenario(Before before, MakeCommand command, core::Effect expected)
      : Scenario(kOperations), expected_(expected) {
    for (uint64_t i = 0; i < kOperations; ++i) {
      before_.push_back(before(i));
      commands_.push_back(command(i));
    }
  }

  // The step takes what is stored by value, as the lane gives it.
  void Prepare() override { stored_ = before_; }

  void Run() override {
    const core::Policy& policy = *DefaultPolicy();
    for (size_t i = 0; i < kOperations; ++i) {
      const core::Decision decision =
          core::Step(std::move(stored_[i]), commands_[i], policy, core::At(kNow), kToken);
      Require(decision.effect == expected_, "a step decided otherwise");
    }
  }

 private:
  const core::Effect expected_;
  std::vector<core::Stored> before_;
  std::vector<core::Command> commands_;
  std::vector<core::Stored> stored_;
};

core::Stored Nothing(uint64_t) { return core::Absent{}; }
core::Stored Pending(uint64_t number) { return *PendingRecord(number, kToken); }
core::Stored Complete(uint64_t number) { return *CompleteRecord(number, kToken); }
core::ReserveCommand OtherReserveOf(uint64_t number) {
  core::ReserveCommand command = ReserveOf(number);
  ++command.attempt_id.low;
  return command;
}
core::CompleteCommand FinishOf(uint64_t number) { return CompleteOf(number, kToken); }

template <typename Before, typename MakeCommand>
void Add(ScenarioEntries& entries, const char* name, Before before, MakeCommand command,
         core::Effect expected) {
  entries.push_back({name, [=](const Settings&) {
                       return std::make_unique<StepScenario>(before, command, expected);
                     }});
}

}  // namespace

void AddStepScenarios(ScenarioEntries& entries) {
  Add(entries, "step/reserve_fresh", &Nothing, &ReserveOf, core::Effect::kWrite);
  Add(entries, "step/reserve_in_progress", &Pending, &OtherReserveOf, core::Effect::kKeep);
  Add(entries, "step/reserve_replay", &Complete, &OtherReserveOf, core::Effect::kKeep);
  Add(entries, "step/complete", &Pending, &FinishOf, core::Effect::kWrite);
}

}  // namespace idempotency::bench
