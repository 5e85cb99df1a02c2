#include "tests/proof/sim/mutants.h"

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "tests/keystore/core/wrong_steps.h"

namespace idempotency::proof {
namespace {

using core::Command;
using core::Decision;
using core::Now;
using core::Policy;
using core::Record;
using core::Stored;

// Two who were woken by the same ending both find the key free.
Decision WaiterAcquiresTwice(Stored stored, const Command& command, const Policy& policy,
                             const Now& now, uint64_t floor) {
  auto* record = std::get_if<Record>(&stored);
  const auto* reserve = std::get_if<core::ReserveCommand>(&command);
  if (record != nullptr && reserve != nullptr && record->state == core::State::kPending &&
      record->acquire_time == now.latest && record->attempt_id != reserve->attempt_id &&
      record->history.size() > 1) {
    return core::Step(core::Absent{}, command, policy, now, std::max(floor, record->token + 1));
  }
  return core::Step(std::move(stored), command, policy, now, floor);
}

// A new owner is handed the old owner's token.
Decision TokenStaysTheSame(Stored stored, const Command& command, const Policy& policy,
                           const Now& now, uint64_t floor) {
  const auto* before = std::get_if<Record>(&stored);
  const uint64_t token = before == nullptr ? 0 : before->token;
  Decision decision = core::Step(std::move(stored), command, policy, now, floor);
  auto* answer = std::get_if<core::ReserveAnswer>(&decision.answer);
  if (token == 0 || answer == nullptr || decision.effect != core::Effect::kWrite) return decision;
  auto record = std::make_shared<Record>(*decision.record);
  record->token = token;
  record->ended.clear();
  decision.record = record;
  answer->operation = record;
  answer->lease->token = token;
  return decision;
}

// Whoever is gone has done nothing.
Decision LapseFrees(Stored stored, const Command& command, const Policy& policy, const Now& now,
                    uint64_t floor) {
  auto* record = std::get_if<Record>(&stored);
  if (record != nullptr && record->state == core::State::kPending &&
      now.earliest >= record->lease_expire_time) {
    record->started = false;
    record->dispatched = false;
    record->earlier.reset();
  }
  return core::Step(std::move(stored), command, policy, now, floor);
}

// Deleted is forgotten, with everything that late messages need.
Decision DeleteForgets(Stored stored, const Command& command, const Policy& policy, const Now& now,
                       uint64_t floor) {
  Decision decision = core::Step(std::move(stored), command, policy, now, floor);
  const bool deletes = std::holds_alternative<core::DeleteCommand>(command);
  if (deletes && decision.effect == core::Effect::kWrite) {
    decision.effect = core::Effect::kErase;
    decision.record = nullptr;
  }
  return decision;
}

// The sweeper takes what it is sent to.
Decision ReclaimsWhatIsLive(Stored stored, const Command& command, const Policy& policy,
                            const Now& now, uint64_t floor) {
  Now late = now;
  if (std::holds_alternative<core::ReclaimCommand>(command)) late.earliest += std::chrono::hours(1);
  return core::Step(std::move(stored), command, policy, late, floor);
}

// A retry of the same bytes is a new operation, as far as the operator's word goes.
Decision ResolveOverCompletion(Stored stored, const Command& command, const Policy& policy,
                               const Now& now, uint64_t floor) {
  auto* record = std::get_if<Record>(&stored);
  if (record != nullptr && std::holds_alternative<core::ResolveCommand>(command) &&
      record->state == core::State::kComplete) {
    record->verdict = core::Verdict::kAbandoned;
  }
  return core::Step(std::move(stored), command, policy, now, floor);
}

// A lease is as long as the last Renew says, also where that is shorter.
Decision RenewShortens(Stored stored, const Command& command, const Policy& policy, const Now& now,
                       uint64_t floor) {
  const auto* before = std::get_if<Record>(&stored);
  const auto* renew = std::get_if<core::RenewCommand>(&command);
  const bool owned = before != nullptr && renew != nullptr && before->token == renew->token;
  Decision decision = core::Step(std::move(stored), command, policy, now, floor);
  auto* answer = std::get_if<core::RenewAnswer>(&decision.answer);
  if (!owned || answer == nullptr || decision.effect != core::Effect::kWrite) return decision;
  auto record = std::make_shared<Record>(*decision.record);
  record->lease_expire_time = core::Add(record->update_time, renew->lease);
  answer->lease.expire_time = record->lease_expire_time;
  decision.record = record;
  return decision;
}

// The same operation, asked about by its key alone.
Decision FingerprintIsOptional(Stored stored, const Command& command, const Policy& policy,
                               const Now& now, uint64_t floor) {
  Policy lenient = policy;
  lenient.fingerprint_optional = true;
  return core::Step(std::move(stored), command, lenient, now, floor);
}

std::vector<Mutant> Make() {
  std::vector<Mutant> all;
  for (const core::WrongStep& wrong : core::WrongSteps()) {
    all.push_back(Mutant{.name = wrong.name, .step = wrong.step});
  }
  for (const auto& [name, step] : std::initializer_list<std::pair<const char*, core::StepFunction>>{
           {"WaiterAcquiresTwice", &WaiterAcquiresTwice},
           {"TokenStaysTheSame", &TokenStaysTheSame},
           {"LapseFrees", &LapseFrees},
           {"DeleteForgets", &DeleteForgets},
           {"ReclaimsWhatIsLive", &ReclaimsWhatIsLive},
           {"ResolveOverCompletion", &ResolveOverCompletion},
           {"RenewShortens", &RenewShortens},
           {"FingerprintIsOptional", &FingerprintIsOptional}}) {
    all.push_back(Mutant{.name = name, .step = step});
  }
  for (const auto& [name, engine] : std::initializer_list<std::pair<const char*, EngineMistake>>{
           {"AcknowledgesBeforeSync", EngineMistake::kAcknowledgesBeforeSync},
           {"ScanShowsUnsynced", EngineMistake::kScanShowsUnsynced},
           {"FloorStartsAgain", EngineMistake::kFloorStartsAgain},
           {"FilterDropsOpen", EngineMistake::kFilterDropsOpen},
           {"FilterTrustsTheWall", EngineMistake::kFilterTrustsTheWall},
           {"NoGuard", EngineMistake::kNoGuard},
           {"LostRaceIsCommitted", EngineMistake::kLostRaceIsCommitted},
           {"UnknownIsCommitted", EngineMistake::kUnknownIsCommitted},
           {"UnknownIsLostRace", EngineMistake::kUnknownIsLostRace},
           {"UnknownMayStillCome", EngineMistake::kUnknownMayStillCome},
           {"StaleReads", EngineMistake::kStaleReads},
           {"KeysRunTogether", EngineMistake::kKeysRunTogether},
           {"ErrorsAreAbsent", EngineMistake::kErrorsAreAbsent},
           {"LosesHalfABatch", EngineMistake::kLosesHalfABatch},
           {"NothingIsNothing", EngineMistake::kNothingIsNothing},
           {"SkewIsNotDeclared", EngineMistake::kSkewIsNotDeclared}}) {
    const bool rare =
        engine == EngineMistake::kUnknownMayStillCome || engine == EngineMistake::kNothingIsNothing;
    all.push_back(Mutant{.name = name, .engine = engine, .rare = rare});
  }
  for (const auto& [name, clock] : std::initializer_list<std::pair<const char*, ClockMistake>>{
           {"ClockRunsBack", ClockMistake::kRunsBack},
           {"ClockTrustsJumps", ClockMistake::kTrustsJumps},
           {"ClockForgetsItsMark", ClockMistake::kForgetsItsMark},
           {"ClockStopsInDoubt", ClockMistake::kStopsInDoubt},
           {"ClockStopsInSuspend", ClockMistake::kStopsInSuspend},
           {"ClockConfirmedForEver", ClockMistake::kConfirmedForEver}}) {
    all.push_back(Mutant{.name = name, .clock = clock});
  }
  return all;
}

}  // namespace

const Mutant& NoMutant() {
  static const Mutant kNone{.name = "none"};
  return kNone;
}

const std::vector<Mutant>& Mutants() {
  static const std::vector<Mutant> kAll = Make();
  return kAll;
}

}  // namespace idempotency::proof
