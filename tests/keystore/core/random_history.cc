#include "tests/keystore/core/random_history.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tests/keystore/core/core_text.h"
#include "tests/keystore/core/machine.h"
#include "tests/keystore/core/naive_model.h"

namespace idempotency::core {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// The moments at which something may change by time alone.
std::vector<Time> Boundaries(const Record& record, const Policy& policy) {
  std::vector<Time> all{record.lease_expire_time, record.response_expire_time, record.forget_time,
                        record.acquire_time + policy.max_hold};
  if (record.unknown.has_value()) {
    all.push_back(record.unknown->next_attempt_time);
    all.push_back(record.unknown->since + std::max(record.terms.settle, policy.terms.settle));
    for (const Terms& terms : {record.terms, policy.terms}) {
      all.push_back(record.create_time + terms.protection_window);
      all.push_back(record.create_time + terms.protection_window - seconds(1));
    }
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](Time time) { return time + milliseconds(1) < record.update_time; }),
            all.end());
  return all;
}

// The verb, and the words of the answer before its first field.
std::string KindOf(const Command& command, const std::string& answer) {
  constexpr std::array<const char*, 10> kVerbs{"reserve", "renew",  "complete", "release",
                                               "mark",    "get",    "inspect",  "resolve",
                                               "delete",  "reclaim"};
  const std::string words = answer.substr(0, answer.find('='));
  return std::string(kVerbs[command.index()]) + " " +
         (words.size() == answer.size() ? words : words.substr(0, words.rfind(' ')));
}

std::string Differs(const std::string& what, const std::string& actual,
                    const std::string& expected) {
  return what + ": " + actual + "\nexpected: " + expected + "\n";
}

// Where the two part; empty: nowhere. Tells the story, where asked.
std::string PlayBoth(StepFunction step, uint64_t seed, size_t steps,
                     std::map<std::string, size_t>* seen, std::string* story) {
  RandomHistory history(seed);
  Machine machine(step);
  NaiveModel model;
  for (size_t i = 0; i < steps; ++i) {
    const RandomHistory::Move move = history.Next(machine.Observed());
    machine.policy() = move.policy;
    machine.set_now(move.now);
    const uint64_t floor = machine.token_floor();
    const Decision decision = machine.Do(move.command);
    const NaiveModel::Told told = model.Apply(move.command, move.policy, move.now, floor);
    const std::optional<Record> after = machine.Observed();
    const std::string actual = Text(decision.answer);
    if (seen != nullptr) ++(*seen)[KindOf(move.command, actual)];
    if (story != nullptr) {
      *story += Text(move.now) + " " + Text(move.command) + "\n  " + actual + "\n";
    }
    if (!machine.broken().empty()) return "broken rule: " + machine.broken() + "\n";
    if (actual != told.answer) return Differs("answer", actual, told.answer);
    if (decision.effect != told.effect) return "one writes and the other does not\n";
    // Reading everything is slow; what time alone has done is looked at now and then.
    if (decision.effect == Effect::kKeep && i % 4 != 0) continue;
    const std::string shown = Text(after);
    const std::string expected = model.Show(move.now);
    if (shown != expected) return Differs("then", shown, expected);
    const std::string events = after.has_value() ? HistoryText(*after) : "absent";
    const std::string told_events = model.History(move.now);
    if (events != told_events) return Differs("history", events, told_events);
  }
  return {};
}

}  // namespace

std::vector<Policy> SamplePolicies() {
  Policy reconcile;
  Policy retry;
  retry.terms.unknown_outcome = UnknownOutcome::kRetrySameKey;
  retry.terms.protection_window = minutes(10);
  retry.terms.max_attempts = 2;
  retry.terms.initial_backoff = seconds(5);
  retry.terms.max_backoff = seconds(12);
  Policy retry_briefly = retry;
  retry_briefly.terms.protection_window = minutes(2);
  retry_briefly.terms.max_attempts = 3;
  retry_briefly.terms.initial_backoff = milliseconds(1);
  Policy retry_long = retry;
  retry_long.terms.protection_window = hours(24);
  retry_long.terms.max_attempts = 100;
  retry_long.terms.initial_backoff = milliseconds(1);
  retry_long.terms.max_backoff = milliseconds(1);
  retry_long.terms.retention = hours(1);
  Policy rerun;
  rerun.terms.unknown_outcome = UnknownOutcome::kRerun;
  rerun.terms.retention = minutes(30);
  rerun.expired_memory = Duration::zero();
  Policy active_run = rerun;
  active_run.terms.retention = Duration::zero();
  active_run.terms.settle = Duration::zero();
  Policy webhook = rerun;
  webhook.fingerprint_optional = true;
  webhook.expired_memory = hours(2);
  Policy tight = reconcile;
  tight.max_retention = minutes(20);
  tight.max_hold = seconds(45);
  tight.terms.retention = minutes(15);
  tight.terms.settle = minutes(2);
  return {reconcile, retry, retry_briefly, retry_long, rerun, active_run, webhook, tight};
}

RandomHistory::RandomHistory(uint64_t seed)
    : random_(seed), policy_(Any(policies_)), time_(kStart) {
  if (OneIn(4)) skew_ = seconds(2);
}

Now RandomHistory::NextNow(const std::optional<Record>& observed) {
  switch (Below(8)) {
    case 0:
      time_ += milliseconds(1 + Below(20'000));
      break;
    case 1:
      time_ += OneIn(8) ? Duration(hours(Below(48))) : Duration(minutes(Below(40)));
      break;
    case 2:
    case 3:
    case 4:
      if (observed.has_value()) {
        const std::vector<Time> boundaries = Boundaries(*observed, policy_);
        if (boundaries.empty()) break;
        Time boundary = Any(boundaries);
        // Far ahead seldom: most of what is interesting happens before things are forgotten.
        if (boundary - time_ > hours(1) && !OneIn(8)) break;
        if (skew_ > Duration::zero() && OneIn(2)) boundary -= skew_;
        time_ = boundary + milliseconds(static_cast<int64_t>(Below(3)) - 1);
      }
      break;
    default:
      break;
  }
  Now now = At(time_);
  if (OneIn(20)) now = At(time_ - seconds(Below(40)));  // another replica, or a clock set back
  now.latest += skew_;
  now.wall = now.latest;
  if (OneIn(30)) {
    now.wall += minutes(Below(20));
    now.in_doubt = OneIn(2);
  }
  return now;
}

uint64_t RandomHistory::Token(const std::optional<Record>& observed) {
  if (!observed.has_value()) return 1 + Below(3);
  if (OneIn(60)) return 0;
  if (OneIn(60)) return observed->token + 1 + Below(3);
  if (!observed->ended.empty() && OneIn(4)) return Any(observed->ended).token;
  if (OneIn(20)) return observed->history.size() < 3 ? 1 : observed->token - 1;
  return observed->token;
}

Response RandomHistory::AnyResponse() {
  Response response;
  if (!OneIn(4)) response.bytes = Blob(OneIn(3) ? "" : "ok");
  response.body_omitted = OneIn(8);
  return response;
}

ReserveCommand RandomHistory::Reserve() {
  ReserveCommand command;
  // Usually a new attempt; often one of the last few again.
  attempts_ += OneIn(3) ? 0 : 1;
  const uint64_t back = OneIn(3) ? Below(std::min<uint64_t>(attempts_, 12) + 1) : 0;
  const std::string name = "a" + std::to_string(attempts_ - back);
  command.attempt_id = DigestOf(name);
  command.owner.worker = name;
  command.fingerprint = FingerprintOf(OneIn(12) ? (OneIn(2) ? "y" : "jcs/x") : "x");
  if (policy_.fingerprint_optional && OneIn(3)) command.fingerprint = FingerprintOf("none");
  command.lease = OneIn(4) ? Duration(minutes(1 + Below(20))) : Duration(seconds(1 + Below(30)));
  command.dispatch_later = OneIn(3);
  command.start_over = OneIn(5);
  if (OneIn(6)) command.operation_age = OneIn(3) ? Duration(hours(25 * 24)) : Duration(minutes(9));
  if (OneIn(30)) {
    constexpr Reason kRefusals[] = {Reason::kInvalidField, Reason::kNamespaceNotFound,
                                    Reason::kQuotaExceeded, Reason::kStoreFull};
    command.refuse_new = kRefusals[Below(4)];
  }
  return command;
}

RenewCommand RandomHistory::Renew(uint64_t token) {
  RenewCommand command{.token = token, .lease = seconds(1 + Below(60)), .dispatched = OneIn(3)};
  if (OneIn(3)) command.progress = "p" + std::to_string(Below(3));
  if (OneIn(5)) command.owner = Owner{.worker = "pod" + std::to_string(Below(2))};
  return command;
}

CompleteCommand RandomHistory::Complete(uint64_t token) {
  CompleteCommand command{.token = token,
                          .verdict = OneIn(4) ? Verdict::kFailed : Verdict::kSucceeded,
                          .response = AnyResponse()};
  if (OneIn(3)) command.provider_request_id = "req" + std::to_string(Below(2));
  if (OneIn(3)) command.retention = OneIn(4) ? Duration(hours(1'000'0)) : Duration(minutes(50));
  command.content = ContentOf(command);
  return command;
}

MarkUnresolvedCommand RandomHistory::Mark(uint64_t token) {
  MarkUnresolvedCommand command{.token = token,
                                .cause = static_cast<UnresolvedCause>(1 + Below(5)),
                                .reconcile_first = OneIn(6)};
  if (OneIn(3)) command.provider_request_id = "req" + std::to_string(Below(2));
  if (OneIn(3)) command.retry_after = seconds(Below(30));
  command.content = ContentOf(command);
  return command;
}

ResolveCommand RandomHistory::Resolve() {
  ResolveCommand command;
  command.resolution = static_cast<Resolution>(1 + Below(3));
  command.verdict = OneIn(4) ? Verdict::kFailed : Verdict::kSucceeded;
  if (command.resolution == Resolution::kCompleted) command.response = AnyResponse();
  if (OneIn(3)) command.provider_request_id = "req" + std::to_string(Below(2));
  command.actor = "op";
  command.reason = "seen";
  command.content = ContentOf(command);
  return command;
}

Command RandomHistory::NextCommand(const std::optional<Record>& observed) {
  const uint64_t token = Token(observed);
  switch (Below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
      return Reserve();
    case 5:
    case 6:
      return Renew(token);
    case 7:
    case 8:
      return Complete(token);
    case 9: {
      ReleaseCommand command{.token = token, .detail = OneIn(2) ? "nothing sent" : ""};
      command.content = ContentOf(command);
      return command;
    }
    case 10:
    case 11:
      return Mark(token);
    case 12:
      return OneIn(3) ? Command(InspectCommand{})
                      : Command(GetCommand{FingerprintOf(OneIn(3) ? "y" : "x")});
    case 13:
    case 14:
      return Resolve();
    default:
      if (OneIn(3)) return ReclaimCommand{};
      return OneIn(4) ? Command(DeleteCommand{.force = OneIn(2)}) : Command(Reserve());
  }
}

RandomHistory::Move RandomHistory::Next(const std::optional<Record>& observed) {
  if (OneIn(40)) policy_ = Any(policies_);
  const Now now = NextNow(observed);
  return Move{now, policy_, NextCommand(observed)};
}

std::string Disagreement(StepFunction step, uint64_t seed, size_t steps,
                         std::map<std::string, size_t>* seen) {
  std::string disagreement = PlayBoth(step, seed, steps, seen, nullptr);
  if (disagreement.empty()) return {};
  std::string story;
  PlayBoth(step, seed, steps, nullptr, &story);
  return story + disagreement;
}

}  // namespace idempotency::core
