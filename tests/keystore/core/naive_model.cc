#include "tests/keystore/core/naive_model.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "keystore/core/limits.h"
#include "keystore/core/names.h"
#include "tests/keystore/core/core_text.h"

namespace idempotency::core {
namespace {

// The design's table 2.3, word for word.
enum class Cell { kDo, kOk, kLapsed, kComplete, kStale, kEvidence, kUnknown, kFinished };
constexpr std::array<std::array<Cell, 8>, 4> kTable{{
    // live, lapsed, marked, complete or expired, settled, not executed, released, older
    {Cell::kDo, Cell::kLapsed, Cell::kLapsed, Cell::kComplete, Cell::kStale, Cell::kLapsed,
     Cell::kLapsed, Cell::kStale},
    {Cell::kDo, Cell::kDo, Cell::kDo, Cell::kComplete, Cell::kEvidence, Cell::kDo, Cell::kFinished,
     Cell::kEvidence},
    {Cell::kDo, Cell::kDo, Cell::kUnknown, Cell::kComplete, Cell::kStale, Cell::kStale, Cell::kOk,
     Cell::kStale},
    {Cell::kDo, Cell::kDo, Cell::kOk, Cell::kComplete, Cell::kStale, Cell::kStale, Cell::kFinished,
     Cell::kStale},
}};

std::string Join(std::initializer_list<std::string> words) {
  std::string line;
  for (const std::string& word : words) {
    if (word.empty()) continue;
    if (!line.empty()) line += ' ';
    line += word;
  }
  return line;
}

std::string Pair(const std::string& name, const std::string& value) { return name + "=" + value; }
std::string Number(const std::string& name, uint64_t value) {
  return Pair(name, std::to_string(value));
}
std::string Maybe(const std::string& name, Time time) {
  return IsSet(time) ? Pair(name, Text(time)) : "";
}
std::string Retry(Duration span) { return Pair("retry", Text(std::max(span, Duration::zero()))); }

NaiveModel::Told Error(Reason reason, const std::string& more = "") {
  return {Join({"error", std::string(Name(reason)), more}), Effect::kKeep};
}
NaiveModel::Told Stale(bool late = false) {
  return Error(Reason::kStaleFencingToken,
               Join({"field=fencing_token", late ? "late_completion" : ""}));
}

Duration BackoffAfter(const Terms& terms, uint32_t attempt) {
  double span = static_cast<double>(terms.initial_backoff.count());
  for (uint32_t i = 1; i < attempt; ++i) span = span * 2;
  span = std::min(span, static_cast<double>(terms.max_backoff.count()));
  return Duration{static_cast<int64_t>(span)};
}

// Rows 8 to 10: what the policies say about another attempt.
struct Permission {
  bool ever = true;
  bool now = true;
  Time from;   // not before
  Time limit;  // the lease must not reach past it; unset: none
};

void Consider(const Terms& terms, const Unknown& unknown, Time first_attempt, Permission& p) {
  switch (terms.unknown_outcome) {
    case UnknownOutcome::kRerun:
      if (unknown.reconcile_first) p.ever = false;
      return;
    case UnknownOutcome::kReconcileFirst:
      p.ever = false;
      return;
    case UnknownOutcome::kRetrySameKey:
      break;
  }
  if (unknown.reconcile_first || unknown.attempt >= terms.max_attempts) p.ever = false;
  p.from = std::max(
      {p.from, unknown.next_attempt_time, unknown.since + BackoffAfter(terms, unknown.attempt)});
  const Time end = first_attempt + terms.protection_window;
  p.limit = IsSet(p.limit) ? std::min(p.limit, end) : end;
}

Permission Permitted(const Terms& stored, const Terms& today, const Unknown& unknown,
                     Time first_attempt, const Now& now) {
  Permission p;
  Consider(stored, unknown, first_attempt, p);
  Consider(today, unknown, first_attempt, p);
  const Time start = std::max({now.latest, now.wall, p.from});
  if (IsSet(p.limit) && p.limit - start < std::chrono::seconds(1)) p.ever = false;
  if (now.in_doubt) p.from = std::max(p.from, now.latest + kClockDoubtRetryAfter);
  p.now = p.ever && now.earliest >= p.from;
  return p;
}

std::string WaitOrReconcile(const Permission& p, const Now& now) {
  if (!p.ever) return "RECONCILE_FIRST";
  return Join({"RESERVE_AGAIN", Retry(p.now ? Duration::zero() : p.from - now.earliest)});
}

bool Same(const Fingerprint& a, const Fingerprint& b, const Policy& policy) {
  if (policy.fingerprint_optional && (!a.given() || !b.given())) return true;
  return a == b;
}

std::string MismatchStep(State state, const Fingerprint& a, const Fingerprint& b) {
  if (state == State::kPending || state == State::kUnresolved) return "SETTLE_OTHER_FIRST";
  return a.algorithm == b.algorithm ? "USE_OWN_KEY" : "SETTLE_OTHER_FIRST";
}

// USE_RESPONSE, LOOK_UP_ANSWER or STOP.
std::string AnswerStep(State state, Verdict verdict, const Response& response, bool by_operator,
                       bool reveal) {
  if (verdict == Verdict::kAbandoned) return "STOP";
  const bool body_here = !response.body_omitted && (response.bytes.present() || !by_operator);
  return state == State::kComplete && body_here && reveal ? "USE_RESPONSE" : "LOOK_UP_ANSWER";
}

}  // namespace

// --- Reading the list ------------------------------------------------------------------------

size_t NaiveModel::LastAcquired(size_t end) const {
  size_t at = end - 1;
  while (log_[at].what != What::kAcquired) --at;
  return at;
}

size_t NaiveModel::FirstOfOperation(size_t acquired) const {
  while (!log_[acquired].first) acquired = LastAcquired(acquired);
  return acquired;
}

size_t NaiveModel::FirstOfMemory() const {
  size_t at = log_.size() - 1;
  while (!log_[at].fresh) --at;
  return at;
}

size_t NaiveModel::LastEnding(size_t acquired, size_t end) const {
  for (size_t at = end - 1; at > acquired; --at) {
    if (log_[at].what != What::kRenewed && log_[at].what != What::kLate) return at;
  }
  return end;
}

// The latest moment that has certainly come, by `now` or by what was written before it.
Time NaiveModel::Surely(size_t from, size_t end, const Now& now) const {
  Time surely = now.earliest;
  for (size_t at = from; at < end; ++at) surely = std::max(surely, log_[at].now.earliest);
  return surely;
}

Time NaiveModel::LeaseEnd(size_t acquired, size_t end) const {
  Time lease_end = log_[acquired].lease_end;
  for (size_t at = acquired + 1; at < end && log_[at].what != What::kAcquired; ++at) {
    if (log_[at].what == What::kRenewed) lease_end = std::max(lease_end, log_[at].lease_end);
  }
  return lease_end;
}

bool NaiveModel::Started(size_t acquired, size_t end) const {
  if (!std::get<ReserveCommand>(log_[acquired].command).dispatch_later) return true;
  for (size_t at = acquired + 1; at < end && log_[at].what != What::kAcquired; ++at) {
    const auto* renew = std::get_if<RenewCommand>(&log_[at].command);
    if (renew != nullptr && renew->dispatched) return true;
  }
  return false;
}

bool NaiveModel::Lapsed(size_t acquired, size_t end, const Now& now) const {
  return Surely(acquired, end, now) >= LeaseEnd(acquired, end);
}

const Terms& NaiveModel::TermsOf(size_t acquired) const {
  return log_[FirstOfOperation(acquired)].policy.terms;
}

uint32_t NaiveModel::Attempt(size_t acquired) const {
  return log_[acquired].first ? 1 : UnknownAt(acquired).attempt + 1;
}

Unknown NaiveModel::LapsedUnknown(size_t acquired, size_t end) const {
  const Time since = LeaseEnd(acquired, end);
  const uint32_t attempt = Attempt(acquired);
  return Unknown{.cause = UnresolvedCause::kLeaseLapsed,
                 .attempt = attempt,
                 .since = since,
                 .next_attempt_time = since + BackoffAfter(TermsOf(acquired), attempt)};
}

Unknown NaiveModel::MarkedUnknown(size_t acquired, size_t mark) const {
  const auto& command = std::get<MarkUnresolvedCommand>(log_[mark].command);
  const Time at = log_[mark].now.latest;
  const uint32_t attempt = Attempt(acquired);
  const Time since = std::min(at, LeaseEnd(acquired, mark));
  return Unknown{.cause = command.cause,
                 .attempt = attempt,
                 .since = since,
                 .next_attempt_time = std::max(since + BackoffAfter(TermsOf(acquired), attempt),
                                               at + command.retry_after),
                 .reconcile_first = command.reconcile_first};
}

Unknown NaiveModel::UnknownAt(size_t end) const {
  const size_t acquired = LastAcquired(end);
  for (size_t at = end - 1; at > acquired; --at) {
    if (log_[at].what == What::kMarked) return MarkedUnknown(acquired, at);
    if (log_[at].what == What::kReleased) return UnknownAt(acquired);
  }
  return Started(acquired, end) ? LapsedUnknown(acquired, end) : UnknownAt(acquired);
}

const std::string& NaiveModel::Worker(size_t acquired, size_t end) const {
  const std::string* worker = &std::get<ReserveCommand>(log_[acquired].command).owner.worker;
  for (size_t at = acquired + 1; at < end && log_[at].what != What::kAcquired; ++at) {
    const auto* renew = std::get_if<RenewCommand>(&log_[at].command);
    if (renew != nullptr && renew->owner.has_value()) worker = &renew->owner->worker;
  }
  return *worker;
}

bool NaiveModel::Dispatched(const View& view) const {
  if (view.resolution == Resolution::kDeleted) return false;
  size_t at = FirstOfOperation(LastAcquired(log_.size()));
  for (; at < log_.size(); ++at) {
    const Happened& entry = log_[at];
    if (entry.what == What::kAcquired && Started(at, log_.size())) return true;
    if (entry.what == What::kCompleted || entry.what == What::kMarked) return true;
  }
  return false;
}

std::optional<std::string> NaiveModel::Progress(const View& view) const {
  std::optional<std::string> progress;
  for (size_t at = FirstOfMemory(); at < log_.size(); ++at) {
    const Happened& entry = log_[at];
    const auto* renew = std::get_if<RenewCommand>(&entry.command);
    if (renew != nullptr && renew->progress.has_value()) progress = renew->progress;
    if (entry.what == What::kDeleted || entry.start_over) progress.reset();
    if (entry.what != What::kCompleted && entry.what != What::kResolved) continue;
    // Not kept for an answer that has expired, nor where nothing is kept.
    View then;
    LookAtEnding(at, at + 1, entry.now, then);
    const auto* resolve = std::get_if<ResolveCommand>(&entry.command);
    const bool not_executed = resolve != nullptr && resolve->resolution == Resolution::kNotExecuted;
    if (then.state == State::kFreed && !not_executed) progress.reset();
    const size_t before = LastEnding(LastAcquired(at), at);
    if (before == at) continue;
    View replaced;
    LookAtEnding(before, at, entry.now, replaced);
    if (replaced.state == State::kExpired) progress.reset();
  }
  if (view.state == State::kExpired) return std::nullopt;
  return progress;
}

std::string NaiveModel::ProviderRequestId() const {
  std::string id;
  for (size_t at = FirstOfOperation(LastAcquired(log_.size())); at < log_.size(); ++at) {
    const Happened& entry = log_[at];
    std::string said;
    if (entry.what == What::kDeleted) id.clear();
    if (entry.what == What::kCompleted) {
      said = std::get<CompleteCommand>(entry.command).provider_request_id;
    } else if (entry.what == What::kMarked) {
      said = std::get<MarkUnresolvedCommand>(entry.command).provider_request_id;
    } else if (entry.what == What::kResolved) {
      const auto& resolve = std::get<ResolveCommand>(entry.command);
      if (resolve.resolution != Resolution::kNotExecuted) said = resolve.provider_request_id;
    }
    if (!said.empty()) id = said;
  }
  return id;
}

Fingerprint NaiveModel::Request() const {
  Fingerprint request;
  for (size_t at = FirstOfOperation(LastAcquired(log_.size())); at < log_.size(); ++at) {
    if (log_[at].what == What::kDeleted) request = Fingerprint{};
    if (log_[at].what != What::kAcquired || request.given()) continue;
    request = std::get<ReserveCommand>(log_[at].command).fingerprint;
  }
  return request;
}

// Time never runs backwards for a record.
Now NaiveModel::Held(Now now) const {
  for (const Happened& entry : log_) {
    const Duration behind = std::max(entry.now.latest - now.latest, Duration::zero());
    now.earliest += behind;
    now.latest += behind;
    now.wall = std::max(now.wall, entry.now.latest);
  }
  return now;
}

// --- What is known ---------------------------------------------------------------------------

std::optional<NaiveModel::View> NaiveModel::Look(const Now& now) const {
  if (log_.empty()) return std::nullopt;
  View view = LookAt(now);
  if (IsSet(view.forget_time) && !now.in_doubt && now.earliest >= view.forget_time) {
    return std::nullopt;
  }
  return view;
}

NaiveModel::View NaiveModel::LookAt(const Now& now) const {
  const size_t acquired = LastAcquired(log_.size());
  const size_t ending = LastEnding(acquired, log_.size());
  View view;
  view.attempt = Attempt(acquired);
  if (ending == log_.size()) {
    if (!Lapsed(acquired, log_.size(), now)) {
      view.state = State::kPending;
    } else if (Started(acquired, log_.size()) || !log_[acquired].first) {
      view.unknown = UnknownAt(log_.size());
    } else {
      view.forget_time = LeaseEnd(acquired, log_.size()) + kFreedMemory;
    }
  } else {
    LookAtEnding(ending, log_.size(), now, view);
  }
  if (view.unknown.has_value()) {
    view.state = State::kUnresolved;
    view.attempt = view.unknown->attempt;
    const Terms& terms = TermsOf(acquired);
    if (terms.unknown_outcome == UnknownOutcome::kRerun && !view.unknown->reconcile_first) {
      const bool at_once = terms.retention == Duration::zero();
      const bool marked = ending != log_.size() && log_[ending].what == What::kMarked;
      const Time known = marked ? log_[ending].now.latest : view.unknown->since;
      view.forget_time = known + (at_once ? kFreedMemory : terms.retention);
      // A retried attempt that did nothing is itself remembered like a freed one.
      const bool released = ending != log_.size() && log_[ending].what == What::kReleased;
      const bool never_began = ending == log_.size() && !Started(acquired, log_.size());
      if (released) {
        view.forget_time = std::max(view.forget_time, log_[ending].now.latest + kFreedMemory);
      } else if (never_began) {
        view.forget_time =
            std::max(view.forget_time, LeaseEnd(acquired, log_.size()) + kFreedMemory);
      }
    }
  }
  return view;
}

void NaiveModel::LookAtEnding(size_t ending, size_t end, const Now& now, View& view) const {
  const Happened& entry = log_[ending];
  const size_t acquired = LastAcquired(ending);
  view.attempt = Attempt(acquired);
  view.forget_time = entry.now.latest + kFreedMemory;
  switch (entry.what) {
    case What::kMarked:
      view.unknown = UnknownAt(ending + 1);
      view.forget_time = Time{};
      return;
    case What::kReleased:
      if (log_[acquired].first) return;
      view.unknown = UnknownAt(ending + 1);
      view.forget_time = Time{};
      return;
    case What::kCompleted:
      LookAtAnswer(ending, end, now, view);
      return;
    case What::kResolved: {
      view.resolution = std::get<ResolveCommand>(entry.command).resolution;
      view.attempt = UnknownAt(ending).attempt;
      if (view.resolution != Resolution::kNotExecuted) {
        LookAtAnswer(ending, end, now, view);
        return;
      }
      view.forget_time = entry.now.latest + std::max(entry.policy.expired_memory, kFreedMemory);
      return;
    }
    case What::kDeleted: {
      NaiveModel before;
      before.log_.assign(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(ending));
      view.attempt = before.LookAt(entry.now).attempt;
      view.resolution = Resolution::kDeleted;
      return;
    }
    case What::kAcquired:
    case What::kRenewed:
    case What::kLate:
      return;
  }
}

void NaiveModel::LookAtAnswer(size_t ending, size_t end, const Now& now, View& view) const {
  const Happened& entry = log_[ending];
  Duration retention = entry.policy.terms.retention;
  Verdict verdict = Verdict::kAbandoned;
  Response response;
  if (const auto* complete = std::get_if<CompleteCommand>(&entry.command)) {
    retention = std::max(retention, complete->retention.value_or(retention));
    verdict = complete->verdict;
    response = complete->response;
  } else {
    const auto& resolve = std::get<ResolveCommand>(entry.command);
    response = resolve.response;
    if (resolve.resolution == Resolution::kCompleted) verdict = resolve.verdict;
  }
  retention = std::min(retention, entry.policy.max_retention);
  // What an operator had abandoned was promised to be remembered, and how long.
  View replaced;
  const size_t before = LastEnding(LastAcquired(ending), ending);
  if (before != ending) LookAtEnding(before, ending, entry.now, replaced);
  if (replaced.verdict == Verdict::kNone && retention == Duration::zero()) return;
  view.verdict = verdict;
  view.state = State::kComplete;
  view.response_end = std::max(entry.now.latest + retention, replaced.response_end);
  view.forget_time = view.response_end + entry.policy.expired_memory;
  if (replaced.verdict != Verdict::kNone) {
    const bool kept = view.response_end > entry.now.latest;
    view.forget_time =
        kept ? std::max(view.forget_time, replaced.forget_time) : replaced.forget_time;
    if (!kept) {
      view.state = State::kExpired;
      view.response_end = Time{};
      return;
    }
  }
  bool expired = !now.in_doubt && now.earliest >= view.response_end;
  for (size_t at = ending + 1; at < end; ++at) {
    const Now& then = log_[at].now;
    expired = expired || (!then.in_doubt && then.earliest >= view.response_end);
  }
  if (expired) {
    view.state = State::kExpired;
    view.response_end = Time{};
  } else {
    view.response = response;
  }
}

std::vector<NaiveModel::Ended> NaiveModel::EndedAttempts(const Now& now) const {
  std::vector<Ended> all;
  const size_t newest = LastAcquired(log_.size());
  const bool held = LookAt(now).state == State::kPending;
  for (size_t i = FirstOfMemory(); i < log_.size(); ++i) {
    if (log_[i].what != What::kAcquired || (i == newest && held)) continue;
    Ended ended{.token = log_[i].token,
                .attempt = Attempt(i),
                .attempt_id = std::get<ReserveCommand>(log_[i].command).attempt_id};
    for (size_t at = i + 1; at < log_.size(); ++at) {
      if (log_[at].token != ended.token) continue;
      const Command& command = log_[at].command;
      if (log_[at].what == What::kLate) ended.evidence = true;
      if (log_[at].what == What::kCompleted) {
        ended.verb = EndVerb::kCompleted;
        ended.content = std::get<CompleteCommand>(command).content;
      } else if (log_[at].what == What::kReleased) {
        ended.verb = log_[i].first ? EndVerb::kReleased : EndVerb::kReleasedUnknown;
        ended.content = std::get<ReleaseCommand>(command).content;
      } else if (log_[at].what == What::kMarked) {
        ended.verb = EndVerb::kMarkedUnresolved;
        ended.content = std::get<MarkUnresolvedCommand>(command).content;
      }
    }
    all.push_back(ended);
  }
  if (all.size() > 8) all.erase(all.begin(), all.end() - 8);
  return all;
}

NaiveModel::Column NaiveModel::ColumnOf(uint64_t token, const Now& now) const {
  const size_t acquired = LastAcquired(log_.size());
  if (token < log_[acquired].token) return Column::kOlder;
  const View view = LookAt(now);
  if (view.state == State::kPending) return Column::kLive;
  const EndVerb verb = EndedAttempts(now).back().verb;
  if (verb == EndVerb::kCompleted) return Column::kEnded;
  if (view.resolution == Resolution::kNotExecuted) return Column::kNotExecuted;
  const size_t ending = LastEnding(acquired, log_.size());
  const What what = ending == log_.size() ? What::kAcquired : log_[ending].what;
  if (what == What::kResolved || what == What::kDeleted) return Column::kSettled;
  if (verb == EndVerb::kLapsed) return Column::kLapsed;
  return verb == EndVerb::kMarkedUnresolved ? Column::kMarked : Column::kReleased;
}

// --- Commands --------------------------------------------------------------------------------

NaiveModel::Happened NaiveModel::Note(What what, const Command& command, const Policy& policy,
                                      const Now& now, uint64_t token) const {
  return Happened{.what = what, .now = now, .policy = policy, .command = command, .token = token};
}

NaiveModel::Told NaiveModel::Apply(const Command& command, const Policy& policy, const Now& raw,
                                   uint64_t token_floor) {
  const Now now = Held(raw);
  if (const auto* reserve = std::get_if<ReserveCommand>(&command)) {
    return Reserve(*reserve, policy, now, token_floor);
  }
  if (const auto* get = std::get_if<GetCommand>(&command)) {
    return Get(&get->fingerprint, policy, now);
  }
  if (std::holds_alternative<InspectCommand>(command)) return Get(nullptr, policy, now);
  if (const auto* resolve = std::get_if<ResolveCommand>(&command)) {
    return Resolve(*resolve, policy, now);
  }
  if (const auto* del = std::get_if<DeleteCommand>(&command)) return Delete(*del, policy, now);
  if (!std::holds_alternative<ReclaimCommand>(command)) return Verb(command, policy, now);
  if (log_.empty() || Look(now).has_value()) return {"reclaimed", Effect::kKeep};
  log_.clear();
  return {"reclaimed", Effect::kErase};
}

std::string NaiveModel::LeaseText(size_t acquired, const View& view, uint32_t attempt) const {
  const std::optional<std::string> progress = Progress(view);
  return Join({Number("token", log_[acquired].token), Number("attempt", attempt),
               Maybe("until", LeaseEnd(acquired, log_.size())),
               progress.has_value() ? Pair("progress", *progress) : ""});
}

NaiveModel::Told NaiveModel::Acquire(const ReserveCommand& c, const Policy& policy, const Now& now,
                                     uint64_t floor, bool fresh, bool first, bool start_over,
                                     Time limit) {
  uint64_t token = std::max<uint64_t>(floor, 1);
  if (!fresh) token = std::max(token, log_[LastAcquired(log_.size())].token + 1);
  if (token >= uint64_t{1} << 53) return Error(Reason::kStoreFull);
  Happened entry = Note(What::kAcquired, c, policy, now, token);
  entry.fresh = fresh;
  entry.first = first;
  entry.start_over = start_over;
  entry.lease_end = now.latest + std::min(c.lease, policy.max_hold);
  if (IsSet(limit)) entry.lease_end = std::min(entry.lease_end, limit);
  log_.push_back(entry);
  const View view = LookAt(now);
  return {Join({"ACQUIRED PROCEED", LeaseText(log_.size() - 1, view, view.attempt)}),
          Effect::kWrite};
}

NaiveModel::Told NaiveModel::ReserveAbsent(const ReserveCommand& c, const Policy& policy,
                                           const Now& now, uint64_t floor) {
  if (c.refuse_new == Reason::kInvalidField) return Error(c.refuse_new, "field=id.key");
  if (c.refuse_new == Reason::kNamespaceNotFound) return Error(c.refuse_new, "field=id.namespace");
  const Duration memory = policy.terms.retention == Duration::zero()
                              ? kFreedMemory
                              : policy.terms.retention + policy.expired_memory;
  if (!c.start_over && c.operation_age.value_or(Duration::zero()) > memory) {
    return {"TOO_OLD RECONCILE_FIRST", Effect::kKeep};
  }
  if (c.refuse_new != Reason::kNone) return Error(c.refuse_new, "retry=1s");
  return Acquire(c, policy, now, floor, true, true, false, Time{});
}

NaiveModel::Told NaiveModel::Reserve(const ReserveCommand& c, const Policy& policy, const Now& now,
                                     uint64_t floor) {
  const std::optional<View> view = Look(now);
  if (!view.has_value()) return ReserveAbsent(c, policy, now, floor);
  const Fingerprint request = Request();
  const State state = view->state;
  if (state != State::kFreed && !Same(request, c.fingerprint, policy)) {
    return {Join({"FINGERPRINT_MISMATCH", MismatchStep(state, request, c.fingerprint),
                  Pair("state", std::string(Name(state)))}),
            Effect::kKeep};
  }
  const size_t acquired = LastAcquired(log_.size());
  if (state == State::kPending) {
    const Time end = LeaseEnd(acquired, log_.size());
    const bool same = std::get<ReserveCommand>(log_[acquired].command).attempt_id == c.attempt_id;
    if (same && now.latest < end) {
      return {
          Join({"ALREADY_HELD PROCEED_UNLESS_STARTED", LeaseText(acquired, *view, view->attempt)}),
          Effect::kKeep};
    }
    return {Join({"IN_PROGRESS RESERVE_AGAIN",
                  Retry(std::min<Duration>(end - now.earliest, std::chrono::seconds(1)))}),
            Effect::kKeep};
  }
  if (state == State::kComplete || (state == State::kExpired && !c.start_over)) {
    const bool reveal = !request.given() || request == c.fingerprint;
    const bool by_operator = view->resolution != Resolution::kNone;
    const std::string outcome = state == State::kComplete ? "COMPLETED" : "EXPIRED";
    return {Join({outcome, AnswerStep(state, view->verdict, view->response, by_operator, reveal),
                  EndingText(*view, reveal)}),
            Effect::kKeep};
  }
  if (state == State::kUnresolved) return ReserveUnresolved(*view, c, policy, now, floor);
  for (const Ended& ended : EndedAttempts(now)) {
    if (ended.attempt_id == c.attempt_id) {
      return Error(Reason::kAttemptFinished, "field=attempt_id");
    }
  }
  return Acquire(c, policy, now, floor, false, true, state == State::kExpired, Time{});
}

NaiveModel::Told NaiveModel::ReserveUnresolved(const View& view, const ReserveCommand& c,
                                               const Policy& policy, const Now& now,
                                               uint64_t floor) {
  const size_t acquired = LastAcquired(log_.size());
  const Permission p = Permitted(TermsOf(acquired), policy.terms, *view.unknown,
                                 log_[FirstOfOperation(acquired)].now.latest, now);
  const std::vector<Ended> ended = EndedAttempts(now);
  const bool has_ended = std::any_of(ended.begin(), ended.end(),
                                     [&](const Ended& e) { return e.attempt_id == c.attempt_id; });
  if (p.now && !has_ended) return Acquire(c, policy, now, floor, false, false, false, p.limit);
  std::string next = WaitOrReconcile(p, now);
  std::string retry;
  if (const size_t space = next.find(' '); space != std::string::npos) {
    retry = next.substr(space + 1);
    next.resize(space);
  }
  const Ended& last = ended.back();
  std::string lease;
  if (last.verb == EndVerb::kLapsed && last.attempt_id == c.attempt_id) {
    lease = Join({Number("token", last.token), Number("attempt", last.attempt),
                  Maybe("until", LeaseEnd(acquired, log_.size()))});
  }
  return {Join({"UNRESOLVED", next, lease, retry,
                Pair("cause", std::string(Name(view.unknown->cause)))}),
          Effect::kKeep};
}

NaiveModel::Told NaiveModel::Late(const Command& command, const Policy& policy, const Now& now,
                                  uint64_t token) {
  for (const Ended& ended : EndedAttempts(now)) {
    if (ended.token != token || ended.evidence) continue;
    log_.push_back(Note(What::kLate, command, policy, now, token));
    Told told = Stale(true);
    told.effect = Effect::kWrite;
    return told;
  }
  return Stale(true);
}

NaiveModel::Told NaiveModel::Renew(const RenewCommand& c, const Policy& policy, const Now& now) {
  const size_t acquired = LastAcquired(log_.size());
  if (now.latest >= LeaseEnd(acquired, log_.size())) return Error(Reason::kLeaseLapsed);
  const bool started = Started(acquired, log_.size()) || c.dispatched;
  Happened entry = Note(What::kRenewed, c, policy, now, c.token);
  entry.lease_end = std::min(now.latest + c.lease, log_[acquired].now.latest + policy.max_hold);
  if (!log_[acquired].first && !started) {
    for (const Terms& terms : {TermsOf(acquired), policy.terms}) {
      if (terms.unknown_outcome != UnknownOutcome::kRetrySameKey) continue;
      const Time first_attempt = log_[FirstOfOperation(acquired)].now.latest;
      entry.lease_end = std::min(entry.lease_end, first_attempt + terms.protection_window);
    }
  }
  const bool news = entry.lease_end > LeaseEnd(acquired, log_.size()) ||
                    started != Started(acquired, log_.size()) ||
                    (c.progress.has_value() && c.progress != Progress(LookAt(now))) ||
                    (c.owner.has_value() && c.owner->worker != Worker(acquired, log_.size()));
  if (news) log_.push_back(entry);
  const View view = LookAt(now);
  return {Join({"renewed", LeaseText(acquired, view, view.attempt)}),
          news ? Effect::kWrite : Effect::kKeep};
}

std::string NaiveModel::EndingText(const View& view, bool reveal) const {
  if (view.verdict == Verdict::kNone) return "";
  std::string body =
      view.response.bytes.present() ? "'" + std::string(view.response.bytes.view()) + "'" : "none";
  if (view.response.body_omitted) body = "omitted";
  if (!reveal) body = "hidden";
  return Join(
      {std::string(Name(view.verdict)), view.state == State::kComplete ? Pair("body", body) : ""});
}

std::string NaiveModel::MarkText(const View& view, const Policy& policy, const Now& now) const {
  const std::string state(Name(view.state));
  const size_t acquired = LastAcquired(log_.size());
  switch (view.state) {
    case State::kUnresolved:
      return Join(
          {state, WaitOrReconcile(Permitted(TermsOf(acquired), policy.terms, *view.unknown,
                                            log_[FirstOfOperation(acquired)].now.latest, now),
                                  now)});
    case State::kPending:
      return Join({state, "RESERVE_AGAIN",
                   Retry(std::min<Duration>(LeaseEnd(acquired, log_.size()) - now.earliest,
                                            std::chrono::seconds(1)))});
    case State::kComplete:
    case State::kExpired:
      return Join({state, view.verdict == Verdict::kAbandoned ? "STOP" : "LOOK_UP_ANSWER"});
    case State::kFreed:
      return Join({state, "PROCEED"});
  }
  return state;
}

// Puts an accepted end into the list and says what it has led to.
NaiveModel::Told NaiveModel::Finish(What what, const Command& command, const Policy& policy,
                                    const Now& now, uint64_t token) {
  log_.push_back(Note(what, command, policy, now, token));
  const View view = LookAt(now);
  if (what == What::kMarked) return {MarkText(view, policy, now), Effect::kWrite};
  const std::string verdict = view.verdict == Verdict::kNone ? "" : std::string(Name(view.verdict));
  return {Join({std::string(Name(view.state)), verdict}), Effect::kWrite};
}

NaiveModel::Told NaiveModel::Verb(const Command& command, const Policy& policy, const Now& now) {
  constexpr std::array<What, 4> kWhat{What::kRenewed, What::kCompleted, What::kReleased,
                                      What::kMarked};
  const size_t row = command.index() - 1;  // Reserve comes first in Command
  uint64_t token = 0;
  Digest content;
  if (const auto* renew = std::get_if<RenewCommand>(&command)) token = renew->token;
  if (const auto* c = std::get_if<CompleteCommand>(&command)) {
    token = c->token;
    content = c->content;
  } else if (const auto* r = std::get_if<ReleaseCommand>(&command)) {
    token = r->token;
    content = r->content;
  } else if (const auto* m = std::get_if<MarkUnresolvedCommand>(&command)) {
    token = m->token;
    content = m->content;
  }
  if (token == 0) return Error(Reason::kInvalidField, "field=fencing_token");
  const std::optional<View> view = Look(now);
  if (!view.has_value()) return Error(Reason::kOperationNotFound);
  const std::string state(Name(view->state));
  const std::string verdict =
      view->verdict == Verdict::kNone ? "" : std::string(Name(view->verdict));
  for (const Ended& ended : EndedAttempts(now)) {
    if (ended.token != token || ended.content != content) continue;
    if (row == 1 && ended.verb == EndVerb::kCompleted) {
      return {Join({"already", state, verdict}), Effect::kKeep};
    }
    if (row == 2 && ended.verb == EndVerb::kReleased) return {"FREED", Effect::kKeep};
    if (row == 2 && ended.verb == EndVerb::kReleasedUnknown) return {"UNRESOLVED", Effect::kKeep};
    if (row == 3 && ended.verb == EndVerb::kMarkedUnresolved) {
      return {MarkText(*view, policy, now), Effect::kKeep};
    }
  }
  if (token > log_[LastAcquired(log_.size())].token) {
    return Error(Reason::kUnknownFencingToken, "field=fencing_token");
  }
  switch (kTable[row][static_cast<size_t>(ColumnOf(token, now))]) {
    case Cell::kDo:
      if (row == 0) return Renew(std::get<RenewCommand>(command), policy, now);
      return Finish(kWhat[row], command, policy, now, token);
    case Cell::kOk:
      return {row == 2 ? state : MarkText(*view, policy, now), Effect::kKeep};
    case Cell::kLapsed:
      return Error(Reason::kLeaseLapsed);
    case Cell::kComplete:
      return Error(Reason::kAlreadyComplete);
    case Cell::kStale:
      return Stale();
    case Cell::kEvidence:
      return Late(command, policy, now, token);
    case Cell::kUnknown:
      return Error(Reason::kOutcomeUnknown);
    case Cell::kFinished:
      return Error(Reason::kAttemptFinished);
  }
  return {};
}

// `shown`: the caller's fingerprint; null: an operator asks, who may see everything.
NaiveModel::Told NaiveModel::Get(const Fingerprint* shown, const Policy& policy,
                                 const Now& now) const {
  const std::optional<View> view = Look(now);
  if (!view.has_value()) return Error(Reason::kOperationNotFound);
  const Fingerprint request = Request();
  const bool reveal = shown == nullptr || !request.given() || request == *shown;
  std::string step = MarkText(*view, policy, now);
  step.erase(0, std::string(Name(view->state)).size() + 1);
  // MarkUnresolved never says PROCEED: its caller has just given up. A Reserve would be told so.
  if (step == "RESERVE_AGAIN retry=0" && view->state == State::kUnresolved) step = "PROCEED";
  if (view->verdict != Verdict::kNone) {
    step = AnswerStep(view->state, view->verdict, view->response,
                      view->resolution != Resolution::kNone, true);
  }
  if (shown != nullptr && shown->given() && view->state != State::kFreed &&
      !Same(request, *shown, policy)) {
    step = MismatchStep(view->state, request, *shown);
  }
  return {Join({std::string(Name(view->state)), step, EndingText(*view, reveal)}), Effect::kKeep};
}

NaiveModel::Told NaiveModel::Resolve(const ResolveCommand& c, const Policy& policy,
                                     const Now& now) {
  const std::optional<View> view = Look(now);
  if (!view.has_value()) return Error(Reason::kOperationNotFound);
  const std::string before = Join({std::string(Name(view->state)), EndingText(*view, true)});
  const size_t acquired = LastAcquired(log_.size());
  if (view->resolution != Resolution::kNone && view->resolution == c.resolution) {
    const size_t ending = LastEnding(acquired, log_.size());
    const auto& first = std::get<ResolveCommand>(log_[ending].command);
    if (c.resolution != Resolution::kCompleted || first.content == c.content) {
      return {before, Effect::kKeep};
    }
  }
  if (view->state == State::kPending) {
    return Error(Reason::kLeaseLive, Retry(LeaseEnd(acquired, log_.size()) - now.earliest));
  }
  const bool replaces =
      view->verdict == Verdict::kAbandoned && c.resolution == Resolution::kCompleted;
  if (view->state != State::kUnresolved && !replaces) return Error(Reason::kWrongState);
  if (c.resolution == Resolution::kNotExecuted) {
    const Duration settle = std::max(TermsOf(acquired).settle, policy.terms.settle);
    const Duration left = view->unknown->since + settle - now.earliest;
    if (left > Duration::zero()) return Error(Reason::kNotSettled, Retry(left));
  }
  log_.push_back(Note(What::kResolved, c, policy, now, 0));
  const View after = LookAt(now);
  return {Join({std::string(Name(after.state)), EndingText(after, true)}), Effect::kWrite};
}

NaiveModel::Told NaiveModel::Delete(const DeleteCommand& c, const Policy& policy, const Now& now) {
  const std::optional<View> view = Look(now);
  if (!view.has_value()) {
    const Effect effect = log_.empty() ? Effect::kKeep : Effect::kErase;
    log_.clear();
    return {"deleted", effect};
  }
  if (view->resolution == Resolution::kDeleted) return {"deleted", Effect::kKeep};
  if (view->state == State::kPending) {
    const Time end = LeaseEnd(LastAcquired(log_.size()), log_.size());
    return Error(Reason::kLeaseLive, Retry(end - now.earliest));
  }
  if (view->state == State::kUnresolved && !c.force) {
    return Error(Reason::kWrongState, "field=force");
  }
  log_.push_back(Note(What::kDeleted, c, policy, now, 0));
  return {"deleted", Effect::kWrite};
}

// --- What an observer sees -------------------------------------------------------------------

std::string NaiveModel::Show(const Now& raw) const {
  const Now now = Held(raw);
  const std::optional<View> view = Look(now);
  if (!view.has_value()) return "absent";
  const size_t acquired = LastAcquired(log_.size());
  std::string open;
  if (view->state == State::kPending) {
    open = Join({Maybe("until", LeaseEnd(acquired, log_.size())),
                 Started(acquired, log_.size()) ? "" : "not_started"});
  }
  if (view->unknown.has_value()) {
    open =
        Join({Pair("cause", std::string(Name(view->unknown->cause))),
              Maybe("since", view->unknown->since), Maybe("next", view->unknown->next_attempt_time),
              view->unknown->reconcile_first ? "reconcile_first" : ""});
  }
  const std::optional<std::string> progress = Progress(*view);
  const std::string pid = ProviderRequestId();
  return Join({std::string(Name(view->state)), EndingText(*view, true),
               Number("token", log_[acquired].token), Number("attempt", view->attempt), open,
               Dispatched(*view) ? "dispatched" : "",
               progress.has_value() ? Pair("progress", *progress) : "",
               pid.empty() ? "" : Pair("pid", pid),
               view->resolution == Resolution::kNone
                   ? ""
                   : Pair("resolution", std::string(Name(view->resolution))),
               Maybe("expires", view->response_end), Maybe("forgotten", view->forget_time)});
}

namespace {

std::string EventText(EventKind kind, uint32_t attempt, Time time, const std::string& actor = "",
                      const std::string& detail = "", const std::string& pid = "") {
  std::string text(Name(kind));
  text += "#" + std::to_string(attempt) + "@" + Text(time);
  if (!actor.empty()) text += "/" + actor;
  if (!detail.empty()) text += "/'" + detail + "'";
  if (!pid.empty()) text += "/" + pid;
  return text;
}

}  // namespace

// The event of one entry; empty for one that leaves none.
std::string NaiveModel::EventOf(size_t at) const {
  const Happened& entry = log_[at];
  const size_t acquired = LastAcquired(at + 1);
  const Time time = entry.now.latest;
  const std::string& worker = Worker(acquired, at + 1);
  switch (entry.what) {
    case What::kAcquired:
      return EventText(EventKind::kAcquired, Attempt(at), time, worker);
    case What::kRenewed:
      if (Started(acquired, at) || !std::get<RenewCommand>(entry.command).dispatched) return "";
      return EventText(EventKind::kDispatched, Attempt(acquired), time, worker);
    case What::kCompleted:
      return EventText(EventKind::kCompleted, Attempt(acquired), time, worker, "",
                       std::get<CompleteCommand>(entry.command).provider_request_id);
    case What::kReleased:
      return EventText(EventKind::kReleased, Attempt(acquired), time, worker,
                       std::get<ReleaseCommand>(entry.command).detail);
    case What::kMarked: {
      const auto& mark = std::get<MarkUnresolvedCommand>(entry.command);
      return EventText(EventKind::kMarkedUnresolved, Attempt(acquired), time, worker, mark.detail,
                       mark.provider_request_id);
    }
    case What::kResolved: {
      const auto& resolve = std::get<ResolveCommand>(entry.command);
      return EventText(EventKind::kResolved, UnknownAt(at).attempt, time, resolve.actor,
                       std::string(Name(resolve.resolution)) + ": " + resolve.reason,
                       resolve.provider_request_id);
    }
    case What::kLate: {
      size_t i = at;
      while (log_[i].what != What::kAcquired || log_[i].token != entry.token) --i;
      return EventText(EventKind::kLateCompletion, Attempt(i), time, "", "",
                       std::get<CompleteCommand>(entry.command).provider_request_id);
    }
    case What::kDeleted:
      return "";
  }
  return "";
}

std::string NaiveModel::History(const Now& raw) const {
  const Now now = Held(raw);
  if (!Look(now).has_value()) return "absent";
  std::vector<std::string> events;
  const auto add_lapse = [&](size_t acquired, size_t end, const Now& then, bool& noted) {
    if (noted || !Lapsed(acquired, end, then)) return;
    noted = true;
    events.push_back(EventText(EventKind::kLeaseLapsed, Attempt(acquired), LeaseEnd(acquired, end),
                               Worker(acquired, end)));
  };
  size_t acquired = FirstOfMemory();
  bool ended = false;  // by a lapse in the list, or in some other way
  for (size_t at = acquired; at < log_.size(); ++at) {
    const Happened& entry = log_[at];
    if (at != acquired) add_lapse(acquired, at, entry.now, ended);
    if (entry.what == What::kAcquired) {
      acquired = at;
      ended = false;
      if (entry.start_over) {
        events.push_back(
            EventText(EventKind::kStartedOver, 1, entry.now.latest, Worker(at, at + 1)));
      }
    } else if (entry.what != What::kRenewed && entry.what != What::kLate) {
      ended = true;
    }
    std::string event = EventOf(at);
    if (!event.empty()) events.push_back(std::move(event));
    if (entry.what == What::kDeleted) events.clear();
  }
  add_lapse(acquired, log_.size(), now, ended);
  if (events.size() > 16) events.erase(events.begin() + 1, events.end() - 15);
  std::string line;
  for (const std::string& event : events) line = Join({line, event});
  return line;
}

}  // namespace idempotency::core
