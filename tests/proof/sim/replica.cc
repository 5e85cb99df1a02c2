#include "tests/proof/sim/replica.h"

#include <algorithm>
#include <string>
#include <variant>

#include "keystore/core/limits.h"
#include "tests/keystore/core/core_text.h"

namespace idempotency::proof {
namespace {

core::Reason ReasonOf(const core::Answer& answer) {
  const auto* refusal = std::get_if<core::Refusal>(&answer);
  return refusal == nullptr ? core::Reason::kNone : refusal->reason;
}

}  // namespace

Replica::~Replica() {
  if (up()) Kill();
}

// --- Life --------------------------------------------------------------------------------------

void Replica::Start() {
  History& history = *shared_->history;
  gone_ = dying_ = false;
  const core::Time high_water = mark_;
  clock_ =
      std::make_unique<SimClock>(&history, index_, &machine_, high_water, shared_->mutant->clock);
  engine_ = std::make_unique<SimEngine>(&history, shared_->disk, shared_->random, index_,
                                        shared_->manners);
  keystore::KeyStoreOptions options;
  // With several, which of them has a key is drawn anew in every process.
  options.lanes = 1;
  options.max_batch_commands = 8;
  options.max_waiters_per_key = 3;
  options.max_waiters = 4;
  options.step = shared_->mutant->step;
  store_ = std::make_unique<keystore::KeyStore>(engine_.get(), clock_.get(), this, options);
  if (core::IsSet(high_water)) NoteForward();
  const core::Now now = ReadClock();
  if (core::IsSet(high_water) && now.latest < high_water) {
    history.Break("I9: time runs backwards across a restart");
  }
  NoteBack();
  // Written about once a second, and first of all.
  KeepMark();
  // Not being able to read is not the end of a start in the simulation: nothing is loaded.
  (void)store_->LoadOpen();
  ++history.counts.restarts;
}

void Replica::Reset() {
  store_.reset();
  engine_.reset();
  last_read_ = clock_->last().latest;
  last_read_at_ = clock_->last_at();
  clock_.reset();
  open_.clear();
}

void Replica::Kill() {
  History& history = *shared_->history;
  ++history.counts.crashes;
  gone_ = true;
  LoseUnsynced();
  engine_->Vanish();
  const Seq now = history.Next();
  for (Op& op : history.ops) {
    // What a database was asked for may still come.
    if (op.replica != index_ || op.fate != Fate::kMaybe || op.returned != kNever) continue;
    if (history.exclusive) op.returned = now;
    op.returned_at = history.at;
  }
  Reset();
}

// Some of it may have reached the disk all the same.
void Replica::LoseUnsynced() {
  if (!shared_->history->exclusive) return;
  shared_->disk->Crash(shared_->random->Below(shared_->disk->unsynced() + 1));
}

void Replica::Stop() {
  engine_->StopBeingLate();
  store_->Drain();
  KeepMark();
  LoseUnsynced();
  Reset();
}

// --- Commands ----------------------------------------------------------------------------------

keystore::Request Replica::RequestOf(Op& op, core::Duration wait) {
  // What admission adds to a reservation, so that the history says what was stepped.
  auto* reserve = std::get_if<core::ReserveCommand>(&op.command);
  const keystore::Pressure pressure = engine_->pressure();
  if (reserve != nullptr && pressure.full && reserve->refuse_new == core::Reason::kNone) {
    reserve->refuse_new = core::Reason::kStoreFull;
  }
  return keystore::Request{.key = shared_->history->keys[op.key],
                           .command = op.command,
                           .policy = op.policy,
                           .wait = wait};
}

void Replica::Submit(const std::vector<std::pair<size_t, core::Duration>>& ops) {
  History& history = *shared_->history;
  const bool dead = !engine_->pressure().alive;
  std::vector<std::pair<keystore::Request, keystore::ReplyCallback>> requests;
  requests.reserve(ops.size());
  for (const auto& [index, wait] : ops) {
    Op& op = history.ops[index];
    // A dead engine takes nothing more: whatever is answered, nothing happens.
    if (dead) op.fate = Fate::kNothing;
    requests.emplace_back(RequestOf(op, wait), [this, index = index](keystore::Reply reply) {
      Answered(index, std::move(reply));
    });
  }
  const std::vector<keystore::CancelHandle> handles =
      ops.size() == 1 ? std::vector<keystore::CancelHandle>{store_->Submit(
                            std::move(requests[0].first), std::move(requests[0].second))}
                      : store_->SubmitAll(std::move(requests));
  history.counts.waited += store_->waiters();
  for (size_t i = 0; i < ops.size(); ++i) {
    const Op& op = history.ops[ops[i].first];
    if (op.fate == Fate::kMaybe && op.returned == kNever)
      open_.emplace_back(ops[i].first, handles[i]);
  }
}

void Replica::Answered(size_t index, keystore::Reply reply) {
  if (gone_) return;
  History& history = *shared_->history;
  Op& op = history.ops[index];
  if (op.fate == Fate::kAnswered) history.Break("a command is answered twice");
  const core::Reason reason = ReasonOf(reply.answer);
  const bool unknown = reason == core::Reason::kStoreUnavailable;
  const Seq now = history.Next();
  op.returned_at = history.at;
  open_.erase(std::remove_if(open_.begin(), open_.end(),
                             [index](const auto& open) { return open.first == index; }),
              open_.end());
  if (reply.cancelled || reason == core::Reason::kOverloaded) {
    op.fate = Fate::kNothing;
  } else if (!unknown && op.fate != Fate::kNothing) {
    op.fate = Fate::kAnswered;
  }
  // Of an unknown outcome nobody knows until when it may come; a crash of the only writer says.
  if (op.fate != Fate::kMaybe) op.returned = now;
  op.answer = std::move(reply.answer);
  if (!reply.cancelled && shared_->on_answer) shared_->on_answer(index);
}

void Replica::Cancel(Random& random) {
  if (open_.empty()) return;
  ++shared_->history->counts.cancels;
  store_->Cancel(random.Any(open_).second);
}

// --- Time --------------------------------------------------------------------------------------

core::Now Replica::ReadClock() { return clock_->Read(); }

void Replica::KeepMark() { mark_ = std::max(mark_, ReadClock().latest); }

core::Time Replica::Expected() const {
  const bool running = clock_ != nullptr && core::IsSet(clock_->last().latest);
  const core::Time read = running ? clock_->last().latest : last_read_;
  const core::Duration at = running ? clock_->last_at() : last_read_at_;
  return read + (shared_->history->at - at);
}

void Replica::NoteForward() {
  const core::Time wall = core::kStart + shared_->history->at + machine_.wall_offset;
  const core::Time guarded = Expected();
  if (wall <= guarded) return;
  // A restart looks at what it has written down, which may be long ago.
  const bool running = clock_ != nullptr && core::IsSet(clock_->last().latest);
  const core::Time known = running ? guarded : mark_;
  if (wall > known + core::kMaxClockJump && !machine_.synchronised) return;
  shared_->history->forward[index_].push_back(Shift{shared_->history->at, wall - guarded});
}

void Replica::NoteBack() {
  if (!core::IsSet(last_read_)) return;
  const core::Time before = last_read_ + (shared_->history->at - last_read_at_);
  const core::Time now = clock_->last().latest;
  if (now < before) {
    shared_->history->back[index_].push_back(Shift{shared_->history->at, before - now});
  }
}

void Replica::Confirm() {
  ++shared_->history->counts.confirmations;
  const core::Time wall = core::kStart + shared_->history->at + machine_.wall_offset;
  const core::Time guarded = Expected();
  if (wall > guarded) {
    shared_->history->forward[index_].push_back(Shift{shared_->history->at, wall - guarded});
  }
  clock_->Confirm();
  ReadClock();
}

// --- What the key store tells ------------------------------------------------------------------

void Replica::OnAnswer(const keystore::Request&, const core::Answer&) {}

void Replica::OnLapse(const core::Key&, const core::Record& record) {
  if (gone_) return;
  ++shared_->history->counts.lapses_reported;
  const bool lapsed = !record.ended.empty() && record.ended.back().token == record.token &&
                      record.ended.back().verb == core::EndVerb::kLapsed;
  if (!lapsed) shared_->history->Break("I6: a lapse is reported of what has not lapsed");
}

void Replica::OnUnreadable(const core::Key&) {
  shared_->history->Break("a record is called unreadable");
}

}  // namespace idempotency::proof
