#include "tests/proof/sim/linearizer.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "tests/keystore/core/core_text.h"
#include "tests/keystore/core/naive_model.h"
#include "tests/proof/sim/random.h"
#include "tests/proof/sim/sim_engine.h"

namespace idempotency::proof {
namespace {

// More than this takes a history in which nearly everything is unknown; it counts as broken, so
// that it is noticed.
constexpr size_t kMaxTrials = 1'000'000;

// When, and at what time, a command can have changed what is stored: as the change of that number.
struct Moment {
  size_t change = 0;
  core::Now now;
};

// A command as the search sees it.
struct Item {
  const core::Command* command = nullptr;
  const core::Policy* policy = nullptr;
  Seq invoked = 0;
  Seq returned = kNever;
  // It happened, and was answered like this.
  bool must = false;
  std::string answer;
  // The last look: what is shown is compared as well.
  bool look = false;
  core::RecordPtr shown;
  // What it may have been told if it changed nothing, and if it did.
  std::vector<core::Now> nows;
  std::vector<Moment> moments;
  // The tokens that it may have been granted.
  std::vector<uint64_t> floors;
  size_t op = 0;
  size_t replica = 0;
};

// Where a search has got to.
struct At {
  Seq latest_invoked = 0;
  size_t explained = 0;  // changes
  size_t depth = 0;
  uint64_t done = 0;     // a digest of what is done,
  uint64_t changes = 0;  // and of what has changed anything, in order
};

const core::Policy& AnyPolicy() {
  static const core::Policy kPolicy;
  return kPolicy;
}
const core::Command& ReclaimIt() {
  static const core::Command kReclaim = core::ReclaimCommand{};
  return kReclaim;
}

// The service compares etags, the model does not: a command that was refused for one did nothing.
bool RefusedForEtag(const Op& op) {
  const auto* refusal = std::get_if<core::Refusal>(&op.answer);
  return op.fate == Fate::kAnswered && refusal != nullptr &&
         refusal->reason == core::Reason::kEtagMismatch;
}

bool Acquired(const Op& op) {
  const auto* answer = std::get_if<core::ReserveAnswer>(&op.answer);
  return answer != nullptr && answer->outcome == core::ReserveOutcome::kAcquired;
}

// Whether an answer can be given without a change, and with one.
bool MayRead(const Op& op) {
  const auto* completed = std::get_if<core::CompleteAnswer>(&op.answer);
  return !Acquired(op) && (completed == nullptr || completed->already_complete);
}
bool MayWrite(const Op& op) {
  const auto* refusal = std::get_if<core::Refusal>(&op.answer);
  const auto* completed = std::get_if<core::CompleteAnswer>(&op.answer);
  if (refusal != nullptr) return refusal->late_completion;
  if (completed != nullptr) return !completed->already_complete;
  return !std::holds_alternative<core::GetAnswer>(op.answer) &&
         !std::holds_alternative<core::InspectAnswer>(op.answer) &&
         (!std::holds_alternative<core::ReserveAnswer>(op.answer) || Acquired(op));
}

class Search {
 public:
  Search(const History& history, size_t key) : history_(history), key_(key) { Collect(); }

  std::string Run();

 private:
  void Collect();
  void Add(const Op& op, size_t index);
  void AddAnswered(const Op& op, size_t index);
  void AddMaybe(const Op& op, size_t index);
  void AddReclaims();
  std::vector<core::Now> NowsOf(size_t replica, Seq from, Seq to) const;
  std::vector<Moment> MomentsOf(const Op& op) const;
  std::vector<uint64_t> TokensOf(const Op& op) const;
  size_t Doubts(const Op& op) const;
  void AddWhatWasGivenUp(Item& item) const;

  bool Go(core::NaiveModel model, const At& at);
  bool TryItem(size_t item, core::NaiveModel& model, const At& at, bool only);
  bool Try(size_t item, core::NaiveModel model, const At& at, const core::Now& now, uint64_t floor,
           const Moment* moment);
  bool MayBeNext(size_t item, Seq first_return, const At& at) const;
  size_t TrialsOf(size_t item, const At& at) const;
  bool EndsAChance(size_t item, Seq latest_invoked) const;
  std::string Unlike(const core::NaiveModel& model, const Item& item, const core::Now& now,
                     const std::string& told) const;

  const History& history_;
  const size_t key_;
  std::vector<const Change*> changes_;  // that commands have made, in order
  std::vector<Item> items_;
  std::vector<bool> done_;
  std::unordered_set<uint64_t> tried_;
  // The read that was just placed, so that nothing else need be tried in its place.
  bool settled_ = false;
  size_t trials_ = 0;
  size_t deepest_ = 0;
  std::string deepest_text_;
};

// --- What there is to order --------------------------------------------------------------------

// Everything that the replica was told from the last reading before `from` on.
std::vector<core::Now> Search::NowsOf(size_t replica, Seq from, Seq to) const {
  std::vector<core::Now> nows;
  for (const Told& told : history_.told[replica]) {
    if (told.seq > to) break;
    if (told.seq < from) nows.clear();
    nows.push_back(told.now);
  }
  return nows;
}

std::vector<Moment> Search::MomentsOf(const Op& op) const {
  std::vector<Moment> moments;
  for (size_t i = 0; i < changes_.size(); ++i) {
    const Change& change = *changes_[i];
    if (change.replica != op.replica || change.asked < op.invoked || change.asked > op.returned)
      continue;
    moments.push_back(Moment{i, NowsOf(change.replica, change.asked, change.asked).back()});
  }
  return moments;
}

// Whatever was stored for the attempt.
std::vector<uint64_t> Search::TokensOf(const Op& op) const {
  const auto* reserve = std::get_if<core::ReserveCommand>(&op.command);
  if (reserve == nullptr) return {1};
  std::vector<uint64_t> tokens;
  const auto add = [&](const core::Digest& attempt_id, uint64_t token) {
    const bool known = std::find(tokens.begin(), tokens.end(), token) != tokens.end();
    if (attempt_id == reserve->attempt_id && !known) tokens.push_back(token);
  };
  for (const Change* change : changes_) {
    if (change->applied < op.invoked || change->after == nullptr) continue;
    add(change->after->attempt_id, change->after->token);
    for (const core::EndedAttempt& ended : change->after->ended) add(ended.attempt_id, ended.token);
  }
  return tokens;
}

// How often the key store was not told whether a write under the key took effect, meanwhile.
size_t Search::Doubts(const Op& op) const {
  const auto count =
      std::count_if(history_.doubts.begin(), history_.doubts.end(), [&](const Doubt& doubt) {
        return doubt.key == key_ && doubt.replica == op.replica && doubt.seq > op.invoked &&
               doubt.seq < op.returned;
      });
  return static_cast<size_t>(count);
}

// Of what nobody was told: it had an effect only where something was stored for it.
void Search::AddMaybe(const Op& op, size_t index) {
  Item item{.command = &op.command,
            .policy = op.policy.get(),
            .invoked = op.invoked,
            .moments = MomentsOf(op),
            .floors = TokensOf(op),
            .op = index};
  if (item.moments.empty() || item.floors.empty()) return;
  item.returned = std::min(op.returned, changes_[item.moments.back().change]->applied);
  AddWhatWasGivenUp(item);
  items_.push_back(std::move(item));
}

// A doubt does not bring back what has been given up before it: where an answer is gone from the
// disk, it may also have been judged by the time when that happened.
void Search::AddWhatWasGivenUp(Item& item) const {
  for (const Change& change : history_.changes) {
    if (change.key != key_ || !change.by_filter || change.lost) continue;
    if (change.applied > item.returned) continue;
    const core::Now then = NowsOf(change.replica, change.asked, change.asked).back();
    const auto judged = [&then](core::Now now) {
      now.earliest = then.earliest - kFilterMargin;
      now.in_doubt = false;
      return now;
    };
    for (size_t n = item.nows.size(); n > 0; --n) {
      if (item.nows[n - 1].in_doubt) item.nows.push_back(judged(item.nows[n - 1]));
    }
    for (size_t n = item.moments.size(); n > 0; --n) {
      const Moment moment = item.moments[n - 1];
      if (moment.now.in_doubt) item.moments.push_back(Moment{moment.change, judged(moment.now)});
    }
  }
}

void Search::AddAnswered(const Op& op, size_t index) {
  Item item{.command = &op.command,
            .policy = op.policy.get(),
            .invoked = op.invoked,
            .returned = op.returned,
            .must = true,
            .answer = core::Text(op.answer),
            .look = op.last_look,
            .floors = {1},
            .op = index,
            .replica = op.replica};
  if (MayRead(op)) item.nows = NowsOf(op.replica, op.invoked, op.returned);
  if (MayWrite(op)) item.moments = MomentsOf(op);
  if (Acquired(op)) item.floors = {std::get<core::ReserveAnswer>(op.answer).lease->token};
  const auto* inspected = std::get_if<core::InspectAnswer>(&op.answer);
  if (op.last_look && inspected != nullptr) item.shown = inspected->operation;
  AddWhatWasGivenUp(item);
  items_.push_back(std::move(item));
}

void Search::Add(const Op& op, size_t index) {
  // Whenever the key store asked again it may have had its effect before.
  for (size_t i = Doubts(op); i > 0; --i) AddMaybe(op, index);
  if (op.fate == Fate::kMaybe) AddMaybe(op, index);
  if (op.fate == Fate::kAnswered && !RefusedForEtag(op)) AddAnswered(op, index);
}

// Whether a record was erased, or something else has begun in its place in the same batch.
bool IsGone(const Change& change) {
  if (change.before == nullptr || change.after == nullptr) return change.before != nullptr;
  const std::vector<core::Event>& before = change.before->history;
  const std::vector<core::Event>& after = change.after->history;
  return before.empty() || after.empty() || before.front() != after.front();
}

// The sweeper's own commands and compactions: what is gone may have been given up because it was
// absent.
void Search::AddReclaims() {
  for (const Change& change : history_.changes) {
    if (change.key != key_ || change.lost || !IsGone(change)) continue;
    Item item{.command = &ReclaimIt(),
              .policy = &AnyPolicy(),
              .invoked = change.asked - 1,
              .returned = change.applied,
              .floors = {1},
              .op = history_.ops.size() + items_.size()};
    const auto made = std::find(changes_.begin(), changes_.end(), &change);
    item.moments.push_back(Moment{static_cast<size_t>(made - changes_.begin()),
                                  NowsOf(change.replica, change.asked, change.asked).back()});
    items_.push_back(std::move(item));
  }
}

void Search::Collect() {
  for (const Change& change : history_.changes) {
    const bool shrunk = change.by_filter && change.after != nullptr;
    if (change.key == key_ && !change.lost && !shrunk) changes_.push_back(&change);
  }
  for (size_t i = 0; i < history_.ops.size(); ++i) {
    const Op& op = history_.ops[i];
    if (op.key == key_ && op.fate != Fate::kNothing) Add(op, i);
  }
  AddReclaims();
  // What is known goes first, the earliest answered before the others.
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return std::pair(!a.must, a.returned) < std::pair(!b.must, b.returned);
  });
}

// --- The search --------------------------------------------------------------------------------

std::string Search::Unlike(const core::NaiveModel& model, const Item& item, const core::Now& now,
                           const std::string& told) const {
  if (told != item.answer) {
    return "#" + std::to_string(item.op) + " " + core::Text(*item.command) +
           "\n  answered: " + item.answer + "\n  expected: " + told + " (" + core::Text(now) +
           ")\n";
  }
  if (!item.look) return {};
  const std::string shown = item.shown == nullptr ? "absent" : core::Text(*item.shown);
  const std::string history = item.shown == nullptr ? "absent" : core::HistoryText(*item.shown);
  if (shown == model.Show(now) && history == model.History(now)) return {};
  return "the last look\n  shows:    " + shown + " | " + history +
         "\n  expected: " + model.Show(now) + " | " + model.History(now) + "\n";
}

// Whether something that may have happened can no longer come behind this item.
bool Search::EndsAChance(size_t index, Seq latest_invoked) const {
  for (size_t i = 0; i < items_.size(); ++i) {
    const bool chance = !done_[i] && !items_[i].must && items_[i].returned > latest_invoked;
    if (chance && items_[i].returned < items_[index].invoked) return true;
  }
  return false;
}

bool Search::MayBeNext(size_t i, Seq first_return, const At& at) const {
  const Item& item = items_[i];
  if (done_[i] || item.invoked >= first_return || item.returned <= at.latest_invoked) return false;
  for (size_t earlier = 0; earlier < i; ++earlier) {
    const Item& other = items_[earlier];
    if (done_[earlier] || other.must != item.must) continue;
    // A lane answers in the order in which it has stepped; of several times that a command may
    // have had its effect the first comes first.
    if (item.must ? other.replica == item.replica : other.op == item.op) return false;
  }
  return true;
}

// A change is explained by the commands that it is made of, one change after the other.
bool Fits(const Moment& moment, const At& at) {
  return moment.change == at.explained || moment.change + 1 == at.explained;
}

size_t Search::TrialsOf(size_t i, const At& at) const {
  const Item& item = items_[i];
  const auto fitting = std::count_if(item.moments.begin(), item.moments.end(),
                                     [&](const Moment& moment) { return Fits(moment, at); });
  return (item.nows.size() + static_cast<size_t>(fitting)) * item.floors.size();
}

// Places the item next, at this time, as a read or as a part of a change; whether the rest can be
// placed behind it.
bool Search::Try(size_t index, core::NaiveModel model, const At& at, const core::Now& now,
                 uint64_t floor, const Moment* moment) {
  const Item& item = items_[index];
  ++trials_;
  const core::NaiveModel::Told told = model.Apply(*item.command, *item.policy, now, floor);
  const bool reads = told.effect == core::Effect::kKeep;
  const std::string unlike = item.must ? Unlike(model, item, now, told.answer) : std::string();
  if (!unlike.empty() && (deepest_text_.empty() || at.depth > deepest_)) {
    deepest_ = at.depth;
    deepest_text_ = unlike;
  }
  if (!unlike.empty() || reads != (moment == nullptr)) return false;
  At then = at;
  then.latest_invoked = std::max(at.latest_invoked, item.invoked);
  ++then.depth;
  then.done ^= Mix(index);
  if (moment != nullptr) {
    then.explained = moment->change + 1;
    then.changes = Mix(at.changes ^ Mix(index * 64 + moment->change) ^ floor);
  }
  done_[index] = true;
  if (Go(std::move(model), then)) return true;
  done_[index] = false;
  // What can change nothing might as well come now, if nothing has to come before it.
  settled_ = item.moments.empty() && !EndsAChance(index, at.latest_invoked);
  return false;
}

// only: nothing else can come next, so that the model is not needed again.
bool Search::TryItem(size_t index, core::NaiveModel& model, const At& at, bool only) {
  settled_ = false;
  for (const uint64_t floor : items_[index].floors) {
    for (const core::Now& now : items_[index].nows) {
      if (Try(index, only ? std::move(model) : model, at, now, floor, nullptr)) return true;
      if (settled_) return false;
    }
    for (const Moment& moment : items_[index].moments) {
      if (!Fits(moment, at)) continue;
      if (Try(index, only ? std::move(model) : model, at, moment.now, floor, &moment)) return true;
    }
  }
  return false;
}

bool Search::Go(core::NaiveModel model, const At& at) {
  // The same commands done, and the same changes in the same order: it has been tried.
  const bool again = !tried_.insert(Mix(at.done ^ Mix(at.changes))).second;
  if (again || trials_ > kMaxTrials) return false;
  Seq first_return = kNever;
  size_t trials = 0;
  bool left = at.explained < changes_.size();
  for (size_t i = 0; i < items_.size(); ++i) {
    if (done_[i] || !items_[i].must) continue;
    left = true;
    first_return = std::min(first_return, items_[i].returned);
  }
  if (!left) return true;
  for (size_t i = 0; i < items_.size(); ++i) {
    if (MayBeNext(i, first_return, at)) trials += TrialsOf(i, at);
  }
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!MayBeNext(i, first_return, at)) continue;
    if (TryItem(i, model, at, trials == 1)) return true;
    if (settled_) break;
  }
  settled_ = false;
  return false;
}

std::string Search::Run() {
  done_.assign(items_.size(), false);
  if (Go(core::NaiveModel(), At{})) return {};
  const std::string key = "key " + std::to_string(key_);
  if (trials_ > kMaxTrials) return "I12: too much is unknown to tell, " + key + "\n";
  if (deepest_text_.empty()) deepest_text_ = "something is stored that nobody has asked for\n";
  return "I12: no order explains all answers, " + key + "\n" + deepest_text_;
}

}  // namespace

std::string NotLinearizable(const History& history) {
  for (size_t key = 0; key < history.keys.size(); ++key) {
    std::string broken = Search(history, key).Run();
    if (!broken.empty()) return broken;
  }
  return {};
}

}  // namespace idempotency::proof
