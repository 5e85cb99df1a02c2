#include "tests/proof/network/orders.h"

#include <algorithm>
#include <bitset>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "tests/keystore/core/core_text.h"
#include "tests/keystore/core/naive_model.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof::network {
namespace {

using core::Duration;
using core::NaiveModel;
using core::Time;

// Two servers on one machine round its clock each by itself.
constexpr Duration kClocksApart{3};

bool StartsWith(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// Calls `visit` with each word.
template <typename Visit>
void EachWord(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    if (space > 0) visit(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
}

void AddWord(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  text += word;
}

// The model's answer, without what answers on the wire do not say, or time alone decides.
std::string WithoutTimes(std::string_view answer, bool hides_body) {
  std::string left;
  EachWord(answer, [&](std::string_view word) {
    for (const std::string_view prefix :
         {"until=", "retry=", "field=", "late_completion", "body=hidden", "body=none"}) {
      if (StartsWith(word, prefix)) return;
    }
    if (hides_body && StartsWith(word, "body=")) return;
    AddWord(left, word);
  });
  return left;
}

// What answers show of an operation, out of NaiveModel::Show.
std::string ShownOf(std::string_view show, bool with_token) {
  std::string left;
  EachWord(show, [&](std::string_view word) {
    const bool shown = StartsWith(word, "attempt=") || StartsWith(word, "cause=") ||
                       StartsWith(word, "pid=") || word == "dispatched" ||
                       (with_token && StartsWith(word, "token="));
    if (shown) AddWord(left, word);
  });
  return left;
}

// "ACQUIRED#1@1s/worker" -> "ACQUIRED#1/worker".
std::string HistoryWithoutTimes(std::string_view history) {
  std::string left;
  EachWord(history, [&](std::string_view event) {
    const size_t at = event.find('@');
    const size_t end = std::min(event.find('/', at), event.size());
    AddWord(left, std::string(event.substr(0, at)) + std::string(event.substr(end)));
  });
  return left;
}

std::optional<Time> TimeIn(std::string_view show, std::string_view name) {
  std::optional<Time> time;
  EachWord(show, [&](std::string_view word) {
    if (!StartsWith(word, name)) return;
    const std::optional<Duration> span = core::ParseDuration(word.substr(name.size()));
    if (span.has_value()) time = core::kStart + *span;
  });
  return time;
}

// The end of a lease or of a retention, which is somewhere between two of the server's times.
struct Deadline {
  bool is_set = false;
  // It may come before anything that is asked.
  bool is_short = false;
  bool of_lease = false;
  Time earliest;
  Time latest;
  Time model;  // to the state machine

  friend bool operator==(const Deadline&, const Deadline&) = default;
};

using Calls = std::bitset<kMaxCalls>;

// What may be so, after some of the calls.
struct State {
  std::shared_ptr<const NaiveModel> model;
  Time model_now = core::kStart;
  // By the server's clock it is at least so late.
  Time at;
  Deadline deadline;
  Calls done;
  // Had their effect, and are still to be answered.
  Calls early;
  uint64_t changes = 0;  // a digest of what has changed anything, in order
  uint64_t lapses = 0;
  uint64_t lost_effects = 0;
};

class Search {
 public:
  Search(const KeyHistory& history, uint64_t max_trials);
  Verdict Run();

 private:
  bool Go(State state);
  bool GoOn(const State& state, Moment first_received);
  // Each goes on from what may come next, but for what is better tried later.
  bool TryAnswered(const State& state, size_t call, std::vector<State>& later);
  bool TryLost(const State& state, size_t call, std::vector<State>& later);
  bool TryEarly(const State& state, size_t call, std::vector<State>& later);
  bool TryLapse(const State& state, std::vector<State>& later);
  bool GoOrPutOff(std::optional<State> next, std::vector<State>& later);
  bool LeadsToWhatIsShown(const State& state) const;

  Moment FirstReceived(const State& state) const;
  bool MayBeNext(const State& state, size_t call, Moment first_received) const;
  void PlaceReads(State& state);
  bool PlaceRead(State& state, size_t call);
  bool PlaceLateRead(State& state, size_t call);
  std::optional<State> Place(const State& state, size_t call, const Call& c, uint64_t token);
  bool Agrees(const State& state, size_t call, const NaiveModel& model,
              const NaiveModel::Told& told);
  std::optional<Time> Since(const State& state, const Call& call) const;
  bool SetDeadline(const State& before, const Call& call, const NaiveModel::Told& told,
                   State& after) const;
  bool NewDeadline(const State& before, const Call& call, State& after) const;
  void Explain(const State& state, size_t call, const std::string& why);
  uint64_t Digest(const State& state) const;
  std::string Tell() const;

  const KeyHistory& history_;
  const uint64_t max_trials_;
  // How much earlier than by one server's clock it may be by another's.
  const Duration apart_;
  std::vector<size_t> answered_;  // by when they were
  std::vector<size_t> lost_;
  std::vector<uint64_t> unclaimed_tokens_;
  std::unordered_set<uint64_t> been_;
  uint64_t trials_ = 0;
  State found_;
  size_t deepest_ = 0;
  std::set<std::string> in_the_way_;  // where it got deepest
};

bool Acquires(const Call& call) { return StartsWith(call.told.answer, "ACQUIRED"); }

// Answers that are given without a change, whatever the state. Others may be given with one and
// without, such as a deletion's.
bool NeverWrites(const Call& call) {
  const std::string& answer = call.told.answer;
  if (std::holds_alternative<core::ReserveCommand>(call.command)) return !Acquires(call);
  if (std::holds_alternative<core::GetCommand>(call.command)) return true;
  if (std::holds_alternative<core::InspectCommand>(call.command)) return true;
  const bool completes = std::holds_alternative<core::CompleteCommand>(call.command);
  // The first of a superseded owner leaves evidence.
  const bool evidence = completes && answer == "error STALE_FENCING_TOKEN";
  return (StartsWith(answer, "error") && !evidence) || (completes && StartsWith(answer, "already"));
}

bool IsRead(const Call& call) {
  return std::holds_alternative<core::GetCommand>(call.command) ||
         std::holds_alternative<core::InspectCommand>(call.command);
}

Search::Search(const KeyHistory& history, uint64_t max_trials)
    : history_(history),
      max_trials_(max_trials),
      apart_(history.shared ? kClocksApart : Duration::zero()) {
  std::set<uint64_t> tokens;
  for (size_t i = 0; i < history.calls.size(); ++i) {
    const Call& call = history.calls[i];
    if (call.ended == Ended::kAnswered) answered_.push_back(i);
    // A read that nobody saw has no effect.
    if (call.ended == Ended::kLost && !IsRead(call)) lost_.push_back(i);
    if (call.told.token != 0) tokens.insert(call.told.token);
  }
  for (const Call& call : history.calls) {
    if (Acquires(call)) tokens.erase(call.told.token);
  }
  // One that no answer ever shows is as good as any that fits: none.
  unclaimed_tokens_.assign(tokens.begin(), tokens.end());
  unclaimed_tokens_.push_back(0);
  std::sort(answered_.begin(), answered_.end(), [&](size_t a, size_t b) {
    return history.calls[a].received < history.calls[b].received;
  });
}

Verdict Search::Run() {
  Verdict verdict;
  if (history_.calls.size() > kMaxCalls) {
    verdict.wrong = history_.key + ": more calls than can be ordered";
    return verdict;
  }
  State first;
  first.model = std::make_shared<const NaiveModel>();
  const bool found = Go(std::move(first));
  verdict.trials = trials_;
  verdict.lapses = found_.lapses;
  verdict.lost_effects = found_.lost_effects;
  verdict.undecided = !found && trials_ > max_trials_;
  if (!found) verdict.wrong = Tell();
  return verdict;
}

// --- The search ---------------------------------------------------------------------------------

bool Search::Go(State state) {
  PlaceReads(state);
  const Moment first_received = FirstReceived(state);
  if (first_received == kNever) {
    found_ = std::move(state);
    return true;
  }
  if (trials_ > max_trials_ || !been_.insert(Digest(state)).second) return false;
  return GoOn(state, first_received);
}

bool Search::GoOn(const State& state, Moment first_received) {
  std::vector<State> later;
  for (const size_t call : answered_) {
    if (MayBeNext(state, call, first_received) && TryAnswered(state, call, later)) return true;
  }
  if (TryLapse(state, later)) return true;
  for (const size_t call : lost_) {
    if (MayBeNext(state, call, first_received) && TryLost(state, call, later)) return true;
  }
  for (const size_t call : answered_) {
    if (!history_.calls[call].perhaps_twice || state.early[call]) continue;
    if (MayBeNext(state, call, first_received) && TryEarly(state, call, later)) return true;
  }
  return std::any_of(later.begin(), later.end(),
                     [this](State& next) { return Go(std::move(next)); });
}

// The history of an operation only grows, unless it is forgotten. Whatever puts an event into it
// that the next answer which shows it does not have is hardly ever right; and to find that out can
// take every order of all lost calls.
bool Search::LeadsToWhatIsShown(const State& state) const {
  const auto shows = std::find_if(answered_.begin(), answered_.end(), [&](size_t call) {
    return !state.done[call] && history_.calls[call].told.history.has_value();
  });
  if (shows == answered_.end()) return true;
  const std::string so_far = HistoryWithoutTimes(state.model->History(core::At(state.model_now)));
  return StartsWith(*history_.calls[*shows].told.history, so_far);
}

bool Search::GoOrPutOff(std::optional<State> next, std::vector<State>& later) {
  if (!next.has_value()) return false;
  if (LeadsToWhatIsShown(*next)) return Go(*std::move(next));
  later.push_back(*std::move(next));
  return false;
}

bool Search::TryAnswered(const State& state, size_t call, std::vector<State>& later) {
  const Call& c = history_.calls[call];
  return GoOrPutOff(Place(state, call, c, c.told.token), later);
}

bool Search::TryLost(const State& state, size_t call, std::vector<State>& later) {
  const bool acquires = std::holds_alternative<core::ReserveCommand>(history_.calls[call].command);
  for (const uint64_t token : unclaimed_tokens_) {
    if (!acquires && token != 0) continue;
    if (GoOrPutOff(Place(state, call, history_.calls[call], token), later)) return true;
  }
  return false;
}

// It has its effect as if nobody had been told, and is answered when it is stepped again.
bool Search::TryEarly(const State& state, size_t call, std::vector<State>& later) {
  Call unheard = history_.calls[call];
  const uint64_t token = unheard.told.token;
  unheard.ended = Ended::kLost;
  unheard.told = Told{};
  std::optional<State> next = Place(state, call, unheard, token);
  if (!next.has_value()) return false;
  next->done.reset(call);
  next->early.set(call);
  return GoOrPutOff(std::move(next), later);
}

bool Search::TryLapse(const State& state, std::vector<State>& later) {
  if (!state.deadline.is_set || !state.deadline.is_short) return false;
  State next = state;
  next.model_now = state.deadline.model;
  next.at = std::max(state.at, state.deadline.earliest - apart_);
  next.deadline = Deadline{};
  next.changes = Mix(state.changes ^ Mix(kMaxCalls));
  ++next.lapses;
  return GoOrPutOff(std::move(next), later);
}

Moment Search::FirstReceived(const State& state) const {
  for (const size_t call : answered_) {
    if (!state.done[call]) return history_.calls[call].received;
  }
  return kNever;
}

bool Search::MayBeNext(const State& state, size_t call, Moment first_received) const {
  const Call& c = history_.calls[call];
  if (state.done[call] || c.sent > first_received) return false;
  // Nobody knows of a call whose answer was lost whether it came to anything.
  const bool waits = c.behind.has_value() && !state.done[*c.behind] &&
                     history_.calls[*c.behind].ended == Ended::kAnswered;
  return !waits;
}

// Those that change nothing and are right as things are can as well be placed now.
void Search::PlaceReads(State& state) {
  bool again = true;
  while (again) {
    again = false;
    // Each that is placed may let another one be next.
    const Moment first_received = FirstReceived(state);
    for (const size_t call : answered_) {
      const Call& c = history_.calls[call];
      if (!NeverWrites(c) || !MayBeNext(state, call, first_received)) continue;
      again = PlaceRead(state, call) || PlaceLateRead(state, call) || again;
    }
  }
}

bool Search::PlaceRead(State& state, size_t call) {
  const Call& c = history_.calls[call];
  if (c.told.not_before - apart_ > state.at) return false;
  std::optional<State> next = Place(state, call, c, 0);
  const bool pure = next.has_value() && next->changes == state.changes && next->at == state.at &&
                    next->deadline == state.deadline;
  if (pure) state = *std::move(next);
  return pure;
}

// Of several servers one may judge by a clock that it read after the record: it tells of a lapse
// that another still prevents.
bool Search::PlaceLateRead(State& state, size_t call) {
  const Call& c = history_.calls[call];
  const Deadline& deadline = state.deadline;
  if (!history_.shared || !deadline.is_set || !deadline.is_short) return false;
  if (core::IsSet(c.told.not_after) && c.told.not_after < deadline.earliest) return false;
  State lapsed = state;
  lapsed.model_now = deadline.model;
  lapsed.deadline = Deadline{};
  const std::optional<State> next = Place(lapsed, call, c, 0);
  if (!next.has_value() || next->changes != lapsed.changes) return false;
  state.done.set(call);
  return true;
}

uint64_t Search::Digest(const State& state) const {
  uint64_t digest = Mix(state.changes);
  const auto add = [&digest](int64_t value) {
    digest = Mix(digest ^ static_cast<uint64_t>(value));
  };
  add(state.at.time_since_epoch().count());
  add(state.deadline.earliest.time_since_epoch().count());
  add(state.deadline.latest.time_since_epoch().count());
  add(static_cast<int64_t>(std::hash<Calls>{}(state.done)));
  add(static_cast<int64_t>(std::hash<Calls>{}(state.early)));
  return digest;
}

// --- One call
// -------------------------------------------------------------------------------------

// The state after the call, if it may be next, as `c`. `token`: of a grant; 0: any that fits.
std::optional<State> Search::Place(const State& state, size_t call, const Call& c, uint64_t token) {
  ++trials_;
  const std::optional<Time> at = Since(state, c);
  if (!at.has_value()) {
    Explain(state, call, "by the server's times");
    return std::nullopt;
  }
  auto model = std::make_shared<NaiveModel>(*state.model);
  const NaiveModel::Told told =
      model->Apply(c.command, history_.space->policy, core::At(state.model_now), token);
  const bool writes = told.effect != core::Effect::kKeep;
  State next = state;
  next.at = *at;
  next.done.set(call);
  if (c.ended == Ended::kAnswered && !Agrees(state, call, *model, told)) return std::nullopt;
  if (c.ended == Ended::kLost) {
    if (!writes) return std::nullopt;
    ++next.lost_effects;
  }
  if (writes) {
    next.model = std::move(model);
    next.changes = Mix(state.changes ^ Mix(call) ^ Mix(~token));
    next.model_now += Duration{1};
  }
  if (SetDeadline(state, c, told, next)) return next;
  Explain(state, call, "by the end of the lease or the answer");
  return std::nullopt;
}

// When it was decided at the earliest, if it can have been decided in this state.
std::optional<Time> Search::Since(const State& state, const Call& call) const {
  Time at = std::max(state.at, call.told.not_before - apart_);
  const Deadline& deadline = state.deadline;
  const bool renews = std::holds_alternative<core::RenewCommand>(call.command);
  const bool moved = core::IsSet(call.told.lease_end) &&
                     (Acquires(call) || (renews && call.told.lease_end > deadline.latest));
  if (moved) at = std::max(at, call.told.lease_end - call.span - apart_);
  if (core::IsSet(call.told.not_after) && at > call.told.not_after) return std::nullopt;
  // What has ended by then has to end first.
  if (deadline.is_set && deadline.is_short && at >= deadline.latest) return std::nullopt;
  return at;
}

bool Search::Agrees(const State& state, size_t call, const NaiveModel& model,
                    const NaiveModel::Told& told) {
  const Call& c = history_.calls[call];
  const bool hides_body = std::holds_alternative<core::ResolveCommand>(c.command);
  const std::string answer = WithoutTimes(told.answer, hides_body);
  if (answer != c.told.answer) {
    Explain(state, call, "the state machine says " + answer);
    return false;
  }
  const core::Now now = core::At(state.model_now);
  if (!c.told.shown.empty()) {
    const bool with_token = std::holds_alternative<core::InspectCommand>(c.command);
    const std::string shown = ShownOf(model.Show(now), with_token);
    if (shown != c.told.shown) {
      Explain(state, call, "the state machine shows " + shown);
      return false;
    }
  }
  if (!c.told.history.has_value()) return true;
  const std::string history = HistoryWithoutTimes(model.History(now));
  if (history == *c.told.history) return true;
  Explain(state, call, "the state machine's history is " + history);
  return false;
}

// False: an end that was shown is none that it can have.
bool Search::SetDeadline(const State& before, const Call& call, const NaiveModel::Told& told,
                         State& after) const {
  if (after.changes != before.changes) {
    const std::string show = after.model->Show(core::At(before.model_now));
    const bool pending = StartsWith(show, "PENDING");
    const bool complete = StartsWith(show, "COMPLETE");
    const bool leases = std::holds_alternative<core::ReserveCommand>(call.command) ||
                        std::holds_alternative<core::RenewCommand>(call.command);
    if (!pending && !complete) {
      after.deadline = Deadline{};
    } else if (!StartsWith(told.answer, "error") && leases == pending) {
      const Time model = TimeIn(show, pending ? "until=" : "expires=").value_or(Time{});
      after.deadline.is_set = true;
      after.deadline.of_lease = pending;
      after.deadline.model = model;
      after.deadline.is_short = model - before.model_now < 2 * kModelShort;
      if (!NewDeadline(before, call, after)) return false;
    }
  }
  Deadline& deadline = after.deadline;
  if (!deadline.is_set) return true;
  const Time shown = deadline.of_lease ? call.told.lease_end : call.told.answer_end;
  if (!core::IsSet(shown)) return true;
  if (shown < deadline.earliest || shown > deadline.latest) return false;
  deadline.earliest = deadline.latest = shown;
  // At its end it is dead.
  return !deadline.is_short || after.at < shown;
}

// When a lease or a retention that has just begun, or was prolonged, ends.
bool Search::NewDeadline(const State& before, const Call& call, State& after) const {
  Deadline& deadline = after.deadline;
  const bool renews = std::holds_alternative<core::RenewCommand>(call.command);
  Duration span = call.span;
  if (!deadline.of_lease) span = std::max(span, history_.space->retention);
  deadline.earliest = after.at + span;
  if (renews) deadline.earliest = std::max(deadline.earliest, before.deadline.earliest);
  deadline.latest = core::kMaxTime;
  if (!core::IsSet(call.told.not_after)) return true;
  deadline.latest = call.told.not_after + span;
  if (renews) deadline.latest = std::max(deadline.latest, before.deadline.latest);
  return deadline.earliest <= deadline.latest;
}

// --- What stands in the way
// -------------------------------------------------------------------------

void Search::Explain(const State& state, size_t call, const std::string& why) {
  const size_t depth = state.done.count();
  if (depth < deepest_ || history_.calls[call].ended != Ended::kAnswered) return;
  if (depth > deepest_) in_the_way_.clear();
  deepest_ = depth;
  in_the_way_.insert("#" + std::to_string(call) + " cannot be next: " + why);
}

std::string TextOf(const Call& call) {
  std::string text = std::to_string(call.sent) + "..";
  text += call.received == kNever ? "?" : std::to_string(call.received);
  text += " " + call.by + ": " + core::Text(call.command);
  if (call.behind.has_value()) text += " (behind #" + std::to_string(*call.behind) + ")";
  if (call.ended == Ended::kLost) return text + " -> ?";
  if (call.ended == Ended::kNoEffect) return text + " -> no effect";
  text += " -> " + call.told.answer + " [" + call.told.shown + "]";
  const auto add = [&text](std::string_view name, Time time) {
    if (!core::IsSet(time)) return;
    text += " " + std::string(name) + "=" +
            std::to_string(time.time_since_epoch().count() % 10'000'000);
  };
  add("not_before", call.told.not_before);
  add("not_after", call.told.not_after);
  add("lease_end", call.told.lease_end);
  add("answer_end", call.told.answer_end);
  if (call.told.history.has_value()) text += "\n        history: " + *call.told.history;
  return text;
}

std::string Search::Tell() const {
  std::string text = history_.key + " in " + history_.space->name + ": ";
  text += trials_ > max_trials_ ? "undecided within the budget" : "no order explains all answers";
  for (const std::string& why : in_the_way_) text += "\n    " + why;
  for (size_t i = 0; i < history_.calls.size(); ++i) {
    text += "\n    #" + std::to_string(i) + " " + TextOf(history_.calls[i]);
  }
  return text;
}

}  // namespace

Verdict FindOrder(const KeyHistory& history, uint64_t max_trials) {
  return Search(history, max_trials).Run();
}

}  // namespace idempotency::proof::network
