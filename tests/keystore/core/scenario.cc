#include "tests/keystore/core/scenario.h"

#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "keystore/core/loss.h"
#include "keystore/core/names.h"
#include "tests/keystore/core/core_text.h"
#include "tests/keystore/core/machine.h"

namespace idempotency::core {
namespace {

// The words of one line, each of which has to be understood by somebody.
class Words {
 public:
  explicit Words(std::string_view line) {
    std::istringstream in{std::string(line)};
    for (std::string word; in >> word;) words_.push_back(word);
  }

  // The first word not taken yet, whatever it is.
  std::string Next() {
    if (words_.empty()) return {};
    std::string word = words_.front();
    words_.erase(words_.begin());
    return word;
  }
  bool Flag(std::string_view name) {
    for (auto word = words_.begin(); word != words_.end(); ++word) {
      if (*word != name) continue;
      words_.erase(word);
      return true;
    }
    return false;
  }
  std::optional<std::string> Value(std::string_view name) {
    const std::string start = std::string(name) + "=";
    for (auto word = words_.begin(); word != words_.end(); ++word) {
      if (word->compare(0, start.size(), start) != 0) continue;
      std::string value = word->substr(start.size());
      words_.erase(word);
      return value;
    }
    return std::nullopt;
  }
  std::string ValueOr(std::string_view name, std::string_view otherwise) {
    return Value(name).value_or(std::string(otherwise));
  }
  std::optional<Duration> MaybeSpan(std::string_view name) {
    const std::optional<std::string> text = Value(name);
    if (!text.has_value()) return std::nullopt;
    return ToSpan(*text);
  }
  Duration Span(std::string_view name, Duration otherwise) {
    return MaybeSpan(name).value_or(otherwise);
  }
  Duration ToSpan(std::string_view text) {
    const std::optional<Duration> span = ParseDuration(text);
    if (!span.has_value()) wrong_ = std::string(text);
    return span.value_or(Duration::zero());
  }
  // What nobody has understood; empty: nothing is left.
  std::string Left() const { return !wrong_.empty() || words_.empty() ? wrong_ : words_.front(); }
  void Refuse(std::string_view word) { wrong_ = word; }

 private:
  std::vector<std::string> words_;
  std::string wrong_;
};

template <typename Enum>
Enum Named(std::string_view name, Enum first, Enum last, Words& words) {
  for (int value = static_cast<int>(first); value <= static_cast<int>(last); ++value) {
    if (Name(static_cast<Enum>(value)) == name) return static_cast<Enum>(value);
  }
  words.Refuse(name);
  return first;
}

Policy ParsePolicy(Words& words) {
  Policy policy;
  Terms& terms = policy.terms;
  terms.unknown_outcome = Named(words.ValueOr("unknown_outcome", "RECONCILE_FIRST"),
                                UnknownOutcome::kReconcileFirst, UnknownOutcome::kRerun, words);
  terms.protection_window = words.Span("protection", terms.protection_window);
  terms.max_attempts = static_cast<uint32_t>(std::stoul(words.ValueOr("max_attempts", "0")));
  if (const auto backoff = words.Value("backoff"); backoff.has_value()) {
    const size_t dots = backoff->find("..");
    terms.initial_backoff = words.ToSpan(backoff->substr(0, dots));
    terms.max_backoff = words.ToSpan(backoff->substr(dots + 2));
  }
  terms.settle = words.Span("settle", terms.settle);
  terms.retention = words.Span("retention", terms.retention);
  policy.expired_memory = words.Span("memory", policy.expired_memory);
  policy.max_retention = words.Span("max_retention", policy.max_retention);
  policy.max_hold = words.Span("max_hold", policy.max_hold);
  policy.fingerprint_optional = words.Flag("fingerprint_optional");
  if (const auto lost = words.MaybeSpan("lost_before")) policy.lost_before = kStart + *lost;
  return policy;
}

class Player {
 public:
  explicit Player(StepFunction step) : machine_(step) {}

  // The outcome of one command line; what is wrong with the line where it makes no sense.
  std::string Run(std::string_view line) {
    Words words(line);
    std::string outcome;
    if (words.Next() == "policy") {
      machine_.policy() = ParsePolicy(words);
    } else {
      SetClock(words);
      outcome = RunCommand(words);
    }
    if (!words.Left().empty()) return "what is '" + words.Left() + "'?";
    if (!machine_.broken().empty()) return "broken rule: " + machine_.broken();
    return outcome;
  }

 private:
  void SetClock(Words& words) {
    const std::string when = words.Next();
    const size_t dots = when.find("..");
    Now now = At(kStart + words.ToSpan(when.substr(0, dots)));
    if (dots != std::string::npos) now.latest = kStart + words.ToSpan(when.substr(dots + 2));
    now.wall = kStart + words.Span("wall", now.latest - kStart);
    now.in_doubt = words.Flag("doubt");
    machine_.set_now(now);
  }

  std::string RunCommand(Words& words) {
    const std::string verb = words.Next();
    if (verb == "reserve") return Reserve(words);
    if (verb == "renew") return Do(Renew(words));
    if (verb == "complete") return Do(Complete(words));
    if (verb == "release") return Do(Release(words));
    if (verb == "mark") return Do(Mark(words));
    if (verb == "get") return Do(GetCommand{FingerprintOf(words.ValueOr("fp", "x"))});
    if (verb == "inspect") return Do(InspectCommand{});
    if (verb == "resolve") return Do(Resolve(words));
    if (verb == "delete") {
      return Do(DeleteCommand{.force = words.Flag("force"), .actor = "op", .etag = Seen(words)});
    }
    if (verb == "reclaim") return Do(ReclaimCommand{});
    if (verb == "remember") return Remember(words.Next());
    if (verb == "compare") return Compare(words.Next(), words);
    if (verb == "corrupt") {
      machine_.set_stored(Unreadable{});
      return "corrupted";
    }
    if (verb == "lose") return Lose();
    if (verb == "show") return Show();
    if (verb == "history") return History();
    words.Refuse(verb);
    return {};
  }

  // What came after the record that is stored is lost.
  std::string Lose() {
    if (const auto* record = std::get_if<Record>(&machine_.stored())) {
      machine_.set_stored(AfterLoss(*record, machine_.now()));
    }
    return "lost";
  }

  std::string Do(const Command& command) { return Text(machine_.Do(command).answer); }

  std::string Reserve(Words& words) {
    const std::string name = words.Next();
    ReserveCommand command;
    command.attempt_id = DigestOf(name);
    command.owner.worker = name;
    command.fingerprint = FingerprintOf(words.ValueOr("fp", "x"));
    command.lease = words.Span("lease", std::chrono::seconds(30));
    command.operation_age = words.MaybeSpan("age");
    command.dispatch_later = words.Flag("dispatch_later");
    command.start_over = words.Flag("start_over");
    command.refuse_new =
        Named(words.ValueOr("refuse", "NONE"), Reason::kNone, Reason::kRecordUnreadable, words);
    const Decision decision = machine_.Do(command);
    const auto* answer = std::get_if<ReserveAnswer>(&decision.answer);
    if (answer != nullptr && answer->lease.has_value()) tokens_[name] = answer->lease->token;
    return Text(decision.answer);
  }

  uint64_t Token(Words& words) {
    const std::string name = words.Next();
    const std::optional<std::string> given = words.Value("token");
    if (given.has_value()) return std::stoull(*given);
    if (tokens_.count(name) == 0) words.Refuse(name);
    return tokens_[name];
  }

  RenewCommand Renew(Words& words) {
    RenewCommand command;
    command.token = Token(words);
    command.lease = words.Span("lease", std::chrono::seconds(30));
    command.dispatched = words.Flag("dispatched");
    command.progress = words.Value("progress");
    if (auto worker = words.Value("worker"); worker.has_value()) {
      command.owner = Owner{.worker = *std::move(worker)};
    }
    return command;
  }

  static Response ParseResponse(Words& words) {
    Response response;
    response.body_omitted = words.Flag("omitted");
    if (auto body = words.Value("body"); body.has_value()) response.bytes = Blob(*std::move(body));
    return response;
  }

  CompleteCommand Complete(Words& words) {
    CompleteCommand command;
    command.token = Token(words);
    command.verdict = words.Flag("FAILED") ? Verdict::kFailed : Verdict::kSucceeded;
    command.response = ParseResponse(words);
    command.provider_request_id = words.ValueOr("pid", "");
    command.retention = words.MaybeSpan("retention");
    command.content = ContentOf(command);
    return command;
  }

  ReleaseCommand Release(Words& words) {
    ReleaseCommand command;
    command.token = Token(words);
    command.detail = words.ValueOr("detail", "");
    command.content = ContentOf(command);
    return command;
  }

  MarkUnresolvedCommand Mark(Words& words) {
    MarkUnresolvedCommand command;
    command.token = Token(words);
    command.cause = Named(words.ValueOr("cause", "TIMEOUT"), UnresolvedCause::kTimeout,
                          UnresolvedCause::kOther, words);
    command.detail = words.ValueOr("detail", "");
    command.provider_request_id = words.ValueOr("pid", "");
    command.retry_after = words.Span("retry_after", Duration::zero());
    command.reconcile_first = words.Flag("reconcile_first");
    command.content = ContentOf(command);
    return command;
  }

  ResolveCommand Resolve(Words& words) {
    ResolveCommand command;
    const std::string what = words.Next();
    if (what == "not_executed") {
      command.resolution = Resolution::kNotExecuted;
    } else if (what == "abandoned") {
      command.resolution = Resolution::kAbandoned;
    } else if (what != "completed") {
      words.Refuse(what);
    }
    command.verdict = words.Flag("FAILED") ? Verdict::kFailed : Verdict::kSucceeded;
    command.response = ParseResponse(words);
    command.actor = "op";
    command.reason = "checked";
    command.provider_request_id = words.ValueOr("pid", "");
    command.etag = Seen(words);
    command.content = ContentOf(command);
    return command;
  }

  std::string Seen(Words& words) {
    const std::optional<std::string> name = words.Value("etag");
    if (!name.has_value()) return {};
    const auto seen = remembered_.find(*name);
    if (seen == remembered_.end()) words.Refuse(*name);
    return seen == remembered_.end() || !seen->second.has_value() ? "none" : Etag(*seen->second);
  }

  std::string Remember(const std::string& name) {
    remembered_[name] = machine_.Observed();
    return "remembered";
  }

  // Whether anything but time has changed since.
  std::string Compare(const std::string& name, Words& words) {
    if (remembered_.count(name) == 0) words.Refuse(name);
    std::optional<Record> then = remembered_[name];
    if (then.has_value()) then = Observe(*std::move(then), machine_.now());
    return then == machine_.Observed() ? "unchanged" : "changed";
  }

  std::string Show() const {
    if (std::holds_alternative<Unreadable>(machine_.stored())) return "unreadable";
    return Text(machine_.Observed());
  }

  std::string History() const {
    const std::optional<Record> record = machine_.Observed();
    if (!record.has_value()) return "absent";
    return record->history.empty() ? "empty" : HistoryText(*record);
  }

  Machine machine_;
  std::map<std::string, uint64_t> tokens_;
  std::map<std::string, std::optional<Record>> remembered_;
};

std::string_view Trim(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

enum class LineKind { kNothing, kPolicy, kCommand, kExpectation };

LineKind KindOf(std::string_view trimmed) {
  if (trimmed.empty() || trimmed.front() == '#') return LineKind::kNothing;
  if (trimmed.rfind("policy", 0) == 0) return LineKind::kPolicy;
  return trimmed.rfind("at ", 0) == 0 ? LineKind::kCommand : LineKind::kExpectation;
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

std::string Play(std::string_view text, StepFunction step) {
  Player player(step);
  std::string wrong;
  std::optional<std::string> pending;  // an outcome that nobody has expected yet
  int number = 0;
  const auto complain = [&](std::string_view what, std::string_view actual) {
    wrong += "line " + std::to_string(number) + ": " + std::string(what) +
             "\n    actual: " + std::string(actual) + "\n";
  };
  for (const std::string_view line : Lines(text)) {
    ++number;
    const std::string_view trimmed = Trim(line);
    const LineKind kind = KindOf(trimmed);
    if (kind == LineKind::kNothing) continue;
    if (kind == LineKind::kExpectation) {
      if (pending != trimmed) complain(trimmed, pending.value_or("no command before this line"));
      pending.reset();
      continue;
    }
    if (pending.has_value()) complain("the command before has no expected outcome", *pending);
    pending.reset();
    std::string outcome = player.Run(trimmed);
    if (kind == LineKind::kCommand) {
      pending = std::move(outcome);
    } else if (!outcome.empty()) {
      complain(trimmed, outcome);
    }
  }
  if (pending.has_value()) complain("the last command has no expected outcome", *pending);
  return wrong;
}

std::string Rewrite(std::string_view text) {
  Player player(&Step);
  std::string out;
  for (const std::string_view line : Lines(text)) {
    const std::string_view trimmed = Trim(line);
    const LineKind kind = KindOf(trimmed);
    if (kind == LineKind::kExpectation) continue;
    out += std::string(line) + "\n";
    if (kind == LineKind::kNothing) continue;
    const std::string outcome = player.Run(trimmed);
    if (!outcome.empty()) out += "  " + outcome + "\n";
  }
  return out;
}

}  // namespace idempotency::core
