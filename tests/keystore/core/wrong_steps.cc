#include "tests/keystore/core/wrong_steps.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "tests/keystore/core/core_text.h"

namespace idempotency::core {
namespace {

using std::chrono::milliseconds;

// What is stored, as of now; null where nothing is known or readable. Writing it back changes
// nothing by itself.
Record* Seen(Stored& stored, const Now& now) {
  auto* record = std::get_if<Record>(&stored);
  if (record == nullptr) return nullptr;
  std::optional<Record> seen = Observe(*record, now);
  if (!seen.has_value()) return nullptr;
  *record = *std::move(seen);
  return record;
}

struct OperationSetter {
  RecordPtr shown;
  void operator()(ReserveAnswer& a) { Set(a.operation); }
  void operator()(CompleteAnswer& a) { Set(a.operation); }
  void operator()(MarkUnresolvedAnswer& a) { Set(a.operation); }
  void operator()(GetAnswer& a) { Set(a.operation); }
  void operator()(InspectAnswer& a) { Set(a.operation); }
  void operator()(ResolveAnswer& a) { Set(a.operation); }
  template <typename Other>
  void operator()(Other&) {}
  void Set(RecordPtr& operation) {
    if (operation != nullptr) operation = shown;
  }
};

// Steps on `pretended` instead of what is stored, and hides it where nothing is written: the
// mistake must be noticed by what it does.
Decision StepAsIf(const Stored& stored, Stored pretended, const Command& command,
                  const Policy& policy, const Now& now, uint64_t floor) {
  Decision decision = Step(std::move(pretended), command, policy, now, floor);
  Stored seen = stored;
  const Record* record = Seen(seen, now);
  if (decision.effect == Effect::kKeep && record != nullptr) {
    std::visit(OperationSetter{std::make_shared<const Record>(*record)}, decision.answer);
  }
  return decision;
}

// The command with its token exchanged for the newest one, where it has one.
Command WithToken(Command command, uint64_t token) {
  if (auto* c = std::get_if<RenewCommand>(&command)) c->token = token;
  if (auto* c = std::get_if<CompleteCommand>(&command)) c->token = token;
  if (auto* c = std::get_if<ReleaseCommand>(&command)) c->token = token;
  if (auto* c = std::get_if<MarkUnresolvedCommand>(&command)) c->token = token;
  return command;
}

// Whoever comes after a lapse simply gets the key.
Decision RegrantOnLapse(Stored stored, const Command& command, const Policy& policy, const Now& now,
                        uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  if (record == nullptr || !std::holds_alternative<ReserveCommand>(command) ||
      record->state != State::kUnresolved) {
    return Step(std::move(stored), command, policy, now, floor);
  }
  Policy lenient = policy;
  record->terms.unknown_outcome = UnknownOutcome::kRerun;
  lenient.terms.unknown_outcome = UnknownOutcome::kRerun;
  return StepAsIf(stored, std::move(pretended), command, lenient, now, floor);
}

// A repeat of a Reserve is just another Reserve.
Decision IgnoreAttemptId(Stored stored, const Command& command, const Policy& policy,
                         const Now& now, uint64_t floor) {
  Command changed = command;
  auto* reserve = std::get_if<ReserveCommand>(&changed);
  if (reserve != nullptr && std::holds_alternative<Record>(stored)) reserve->attempt_id.high ^= 1;
  return Step(std::move(stored), changed, policy, now, floor);
}

// Any token that was ever given will do.
Decision AcceptStaleToken(Stored stored, const Command& command, const Policy& policy,
                          const Now& now, uint64_t floor) {
  const auto* record = std::get_if<Record>(&stored);
  const Command changed = record == nullptr ? command : WithToken(command, record->token);
  return Step(std::move(stored), changed, policy, now, floor);
}

// Tokens start again where nothing is known.
Decision ReuseTokenAfterErase(Stored stored, const Command& command, const Policy& policy,
                              const Now& now, uint64_t) {
  return Step(std::move(stored), command, policy, now, 1);
}

// A different request is told what the key holds.
Decision MismatchShowsTheBody(Stored stored, const Command& command, const Policy& policy,
                              const Now& now, uint64_t floor) {
  Decision decision = Step(std::move(stored), command, policy, now, floor);
  if (auto* answer = std::get_if<ReserveAnswer>(&decision.answer)) answer->reveal = true;
  return decision;
}

// Algorithm and digest are compared as if they were one text, without case.
Decision IgnoreAlgorithm(Stored stored, const Command& command, const Policy& policy,
                         const Now& now, uint64_t floor) {
  Command changed = command;
  const auto* record = std::get_if<Record>(&stored);
  auto* reserve = std::get_if<ReserveCommand>(&changed);
  if (record != nullptr && reserve != nullptr &&
      record->fingerprint.digest == reserve->fingerprint.digest) {
    reserve->fingerprint = record->fingerprint;
  }
  return Step(std::move(stored), changed, policy, now, floor);
}

// `>` where it should be `>=`, the other way round: a millisecond too early.
Decision ExpireEarly(Stored stored, const Command& command, const Policy& policy, const Now& now,
                     uint64_t floor) {
  Now early = now;
  early.earliest += milliseconds(1);
  return Step(std::move(stored), command, policy, early, floor);
}

// A grace period for the owner of a lease.
Decision RenewWithGrace(Stored stored, const Command& command, const Policy& policy, const Now& now,
                        uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  if (record != nullptr && std::holds_alternative<RenewCommand>(command) &&
      record->state == State::kPending) {
    record->lease_expire_time += milliseconds(1);
  }
  return StepAsIf(stored, std::move(pretended), command, policy, now, floor);
}

// The first owner's answer wins as long as nobody else has one.
Decision LateCompletionResurrects(Stored stored, const Command& command, const Policy& policy,
                                  const Now& now, uint64_t floor) {
  const Record* record = Seen(stored, now);
  const auto* complete = std::get_if<CompleteCommand>(&command);
  if (record != nullptr && complete != nullptr && complete->token != 0 &&
      complete->token < record->token && record->state == State::kUnresolved) {
    return Step(std::move(stored), WithToken(command, record->token), policy, now, floor);
  }
  return Step(std::move(stored), command, policy, now, floor);
}

// Released is released, whatever was unknown before.
Decision ReleaseClearsEarlier(Stored stored, const Command& command, const Policy& policy,
                              const Now& now, uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  if (record != nullptr && std::holds_alternative<ReleaseCommand>(command)) {
    record->earlier.reset();
  }
  return StepAsIf(stored, std::move(pretended), command, policy, now, floor);
}

// Evidence is written down as often as it is told.
Decision RepeatEvidence(Stored stored, const Command& command, const Policy& policy, const Now& now,
                        uint64_t floor) {
  if (auto* record = std::get_if<Record>(&stored)) {
    for (EndedAttempt& ended : record->ended) ended.evidence = false;
  }
  return Step(std::move(stored), command, policy, now, floor);
}

// An operator is believed at once.
Decision ResolveBeforeSettle(Stored stored, const Command& command, const Policy& policy,
                             const Now& now, uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  Policy hasty = policy;
  hasty.terms.settle = Duration::zero();
  if (record != nullptr) record->terms.settle = Duration::zero();
  const bool resolves = std::holds_alternative<ResolveCommand>(command);
  return resolves ? StepAsIf(stored, std::move(pretended), command, hasty, now, floor)
                  : Step(std::move(stored), command, policy, now, floor);
}

// The last word of an owner replaces its first.
Decision LastAnswerWins(Stored stored, const Command& command, const Policy& policy, const Now& now,
                        uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  const auto* complete = std::get_if<CompleteCommand>(&command);
  if (record != nullptr && complete != nullptr && record->state == State::kComplete &&
      complete->token == record->token && record->ended.back().verb == EndVerb::kCompleted &&
      record->ended.back().content != complete->content) {
    record->ended.back().verb = EndVerb::kLapsed;
  }
  return StepAsIf(stored, std::move(pretended), command, policy, now, floor);
}

// What has expired is as good as new.
Decision ExpiredIsNew(Stored stored, const Command& command, const Policy& policy, const Now& now,
                      uint64_t floor) {
  Command changed = command;
  if (auto* reserve = std::get_if<ReserveCommand>(&changed)) reserve->start_over = true;
  return Step(std::move(stored), changed, policy, now, floor);
}

// Attempt ids are compared with the newest one only.
Decision ForgetEndedIds(Stored stored, const Command& command, const Policy& policy, const Now& now,
                        uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  const auto* reserve = std::get_if<ReserveCommand>(&command);
  if (record == nullptr || reserve == nullptr || record->ended.empty() ||
      record->ended.back().attempt_id == reserve->attempt_id) {
    return Step(std::move(stored), command, policy, now, floor);
  }
  for (EndedAttempt& ended : record->ended) ended.attempt_id = Digest{};
  return StepAsIf(stored, std::move(pretended), command, policy, now, floor);
}

// The provider's protection counts from the last attempt.
Decision ProtectionFromLastAttempt(Stored stored, const Command& command, const Policy& policy,
                                   const Now& now, uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  if (record == nullptr || !std::holds_alternative<ReserveCommand>(command) ||
      record->state != State::kUnresolved) {
    return Step(std::move(stored), command, policy, now, floor);
  }
  const Time create_time = std::exchange(record->create_time, record->acquire_time);
  Decision decision = StepAsIf(stored, std::move(pretended), command, policy, now, floor);
  if (decision.effect == Effect::kWrite) {
    auto written = std::make_shared<Record>(*decision.record);
    written->create_time = create_time;
    decision.record = written;
    std::visit(OperationSetter{written}, decision.answer);
  }
  return decision;
}

// An attempt is granted as soon as it is asked for.
Decision IgnoreBackoff(Stored stored, const Command& command, const Policy& policy, const Now& now,
                       uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  if (record == nullptr || !std::holds_alternative<ReserveCommand>(command) ||
      !record->unknown.has_value()) {
    return Step(std::move(stored), command, policy, now, floor);
  }
  Policy hasty = policy;
  hasty.terms.initial_backoff = Duration::zero();
  record->terms.initial_backoff = Duration::zero();
  record->unknown->next_attempt_time = record->unknown->since;
  return StepAsIf(stored, std::move(pretended), command, hasty, now, floor);
}

// In doubt about the clock, as always.
Decision IgnoreDoubt(Stored stored, const Command& command, const Policy& policy, const Now& now,
                     uint64_t floor) {
  Now certain = now;
  certain.in_doubt = false;
  return Step(std::move(stored), command, policy, certain, floor);
}

// Every mark may give a new cause.
Decision MarkTwice(Stored stored, const Command& command, const Policy& policy, const Now& now,
                   uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  const auto* mark = std::get_if<MarkUnresolvedCommand>(&command);
  if (record != nullptr && mark != nullptr && record->state == State::kUnresolved &&
      mark->token == record->token && record->ended.back().verb == EndVerb::kMarkedUnresolved &&
      record->ended.back().content != mark->content) {
    record->ended.back().verb = EndVerb::kLapsed;
  }
  return StepAsIf(stored, std::move(pretended), command, policy, now, floor);
}

// Today's policy decides, whatever was promised at acquisition.
Decision IgnoreStoredTerms(Stored stored, const Command& command, const Policy& policy,
                           const Now& now, uint64_t floor) {
  Stored pretended = stored;
  Record* record = Seen(pretended, now);
  if (record == nullptr || record->state != State::kUnresolved) {
    return Step(std::move(stored), command, policy, now, floor);
  }
  record->terms = policy.terms;
  return StepAsIf(stored, std::move(pretended), command, policy, now, floor);
}

// A retention asked for may shorten the policy's, too.
Decision ShortenRetention(Stored stored, const Command& command, const Policy& policy,
                          const Now& now, uint64_t floor) {
  const auto* complete = std::get_if<CompleteCommand>(&command);
  Policy changed = policy;
  if (complete != nullptr && complete->retention.has_value()) {
    changed.terms.retention = *complete->retention;
  }
  return Step(std::move(stored), command, changed, now, floor);
}

}  // namespace

std::vector<WrongStep> WrongSteps() {
  return {
      {"RegrantOnLapse", &RegrantOnLapse},
      {"IgnoreAttemptId", &IgnoreAttemptId},
      {"AcceptStaleToken", &AcceptStaleToken},
      {"ReuseTokenAfterErase", &ReuseTokenAfterErase},
      {"MismatchShowsTheBody", &MismatchShowsTheBody},
      {"IgnoreAlgorithm", &IgnoreAlgorithm, false},
      {"ExpireEarly", &ExpireEarly},
      {"RenewWithGrace", &RenewWithGrace},
      {"LateCompletionResurrects", &LateCompletionResurrects},
      {"ReleaseClearsEarlier", &ReleaseClearsEarlier},
      {"RepeatEvidence", &RepeatEvidence},
      {"ResolveBeforeSettle", &ResolveBeforeSettle},
      {"LastAnswerWins", &LastAnswerWins},
      {"ExpiredIsNew", &ExpiredIsNew},
      {"ForgetEndedIds", &ForgetEndedIds, false},
      {"ProtectionFromLastAttempt", &ProtectionFromLastAttempt, false},
      {"IgnoreBackoff", &IgnoreBackoff},
      {"IgnoreDoubt", &IgnoreDoubt},
      {"MarkTwice", &MarkTwice, false},
      {"IgnoreStoredTerms", &IgnoreStoredTerms, false},
      {"ShortenRetention", &ShortenRetention, false},
  };
}

}  // namespace idempotency::core
