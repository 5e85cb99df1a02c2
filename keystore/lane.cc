#include "keystore/lane.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "keystore/key_hash.h"

namespace idempotency::keystore {
namespace {

// Lapses reported, records reclaimed and looked at again in one batch, so that a burst of them
// delays no command for long. An outage ends leases by the hundred thousand: beside callers it is
// as many as those are, so that lapses keep up with the Reserves that they come from.
constexpr size_t kMaxLapsesAtOnce = 256;
constexpr size_t kMinLapsesBesideCallers = 32;
constexpr size_t kMaxReclaimedAtOnce = 256;
constexpr size_t kMaxLooksAtOnce = 256;
// Where some have sent much and others are about, batches are smaller, and the others sooner in
// one: whoever comes during a batch waits for all of it.
constexpr size_t kMaxSharedBatch = 256;
// For how many batches others are taken to be about.
constexpr size_t kSharedBatches = 64;
// When a record that could not or may not be reclaimed is looked at again.
constexpr core::Duration kReclaimAskedAgain = std::chrono::hours(1);
// When what is unresolved is looked at again, where another replica may have settled it.
constexpr core::Duration kUnresolvedAskedAgain = std::chrono::minutes(10);

// All that are found at a start, or lapse at once, would be due at once for ever.
core::Duration FirstLookAfter(const core::Key& key) {
  const auto span_ms = static_cast<size_t>(kUnresolvedAskedAgain / core::Duration(1));
  return core::Duration(1 + KeyHash()(key) % span_ms);
}

core::Answer Refused(core::Reason reason) {
  return core::Refusal{.reason = reason, .retry_after = core::kOverloadRetryAfter};
}

bool IsOpen(const core::Record* record) {
  return record != nullptr &&
         (record->state == core::State::kPending || record->state == core::State::kUnresolved);
}

// What settles an operation over its owner's head is not found again in what a later command of the
// batch has left.
bool IsLastOfItsKey(const core::Command& command) {
  return std::holds_alternative<core::ResolveCommand>(command) ||
         std::holds_alternative<core::DeleteCommand>(command);
}

core::Reason ReasonOf(const core::Answer& answer) {
  const auto* refusal = std::get_if<core::Refusal>(&answer);
  return refusal == nullptr ? core::Reason::kNone : refusal->reason;
}

// The answer says that somebody holds a live lease, and so does the record behind it; null
// for any other answer.
const core::Record* InProgress(const core::Answer& answer) {
  if (const auto* reserve = std::get_if<core::ReserveAnswer>(&answer)) {
    const bool in_progress = reserve->outcome == core::ReserveOutcome::kInProgress;
    return in_progress ? reserve->operation.get() : nullptr;
  }
  if (const auto* get = std::get_if<core::GetAnswer>(&answer)) {
    return get->operation->state == core::State::kPending ? get->operation.get() : nullptr;
  }
  return nullptr;
}

}  // namespace

core::Now Shared::Now() const {
  core::Now now = clock->Read();
  now.earliest -= traits.clock_skew;
  return now;
}

// --- Entering --------------------------------------------------------------------------------

bool Lane::Queue(std::vector<PendingCommandPtr> commands, uint64_t* first_id) {
  absl::MutexLock lock(&mutex_);
  uint64_t last_id = 0;
  const size_t count = commands.size();
  for (PendingCommandPtr& command : commands) last_id = queue_.Push(std::move(command));
  *first_id = last_id + 1 - count;
  return MayRun();
}

uint64_t Lane::Submit(PendingCommandPtr command) {
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = queue_.Push(std::move(command));
    if (!MayRun()) return id;
  }
  Run();
  return id;
}

template <typename Change>
void Lane::Ask(Change change) {
  {
    absl::MutexLock lock(&mutex_);
    change(errands_);
    if (!MayRun()) return;
  }
  Run();
}

void Lane::Cancel(uint64_t id) {
  PendingCommandPtr dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (const PendingCommand* const queued = queue_.Find(id)) {
      // Accepted finishing verbs are applied though their caller is gone.
      if (!MayBeDropped(queued->request.command)) return;
      dropped = queue_.Take(id);
    }
  }
  if (dropped == nullptr) return Ask([id](Errands& errands) { errands.cancel.push_back(id); });
  --shared_->queued;
  AnswerCancelled(*dropped);
}

void Lane::Wake(core::Key key) {
  Ask([&key](Errands& errands) { errands.wake.push_back(std::move(key)); });
}

void Lane::RunTimers() {
  Ask([](Errands& errands) { errands.run_timers = true; });
}

void Lane::EndWaits() {
  Ask([](Errands& errands) { errands.end_waits = true; });
}

void Lane::Sweep() {
  Ask([](Errands& errands) { errands.sweep = true; });
}

void Lane::AwaitIdle() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Lane::IsIdle));
}

void Lane::NoteOpen(const core::Key& key, const core::Record& record) {
  shared_->tenants.SetOpen(key, true);
  if (record.state == core::State::kPending) {
    leases_.Set(key, record.lease_expire_time);
  } else {
    NoteUnresolved(key, record);
    if (core::IsSet(record.forget_time)) reclaimable_.Set(key, record.forget_time);
  }
  UpdateNextTimer();
}

// --- Running -----------------------------------------------------------------------------------

// A callback that submits must not run the lane inside the thread's own delivering: callbacks
// could nest without end. The thread looks at the lane again when it has delivered.
bool Lane::MayRun() {
  if (running_ || DeliversHere()) return false;
  running_ = true;
  return true;
}

void Lane::Run() {
  for (;;) {
    switch (stage_) {
      case Stage::kTake:
        if (!TakeBatch()) return;
        stage_ = Stage::kStep;
        if (!StartRead()) return;
        break;
      case Stage::kStep:
        StepBatch();
        stage_ = Stage::kAnswer;
        if (!StartCommit()) return;
        break;
      case Stage::kAnswer:
        AnswerBatch();
        stage_ = Stage::kTake;
        if (!Deliver()) return;
        break;
    }
  }
}

size_t Lane::AheadOf(const TenantId& tenant, size_t queued) const {
  absl::MutexLock lock(&mutex_);
  const size_t overtaken = queue_.size() - std::min(queue_.size(), queue_.AheadOf(tenant));
  return queued - std::min(queued, overtaken);
}

size_t Lane::QueuedOf(const TenantId& tenant) const {
  absl::MutexLock lock(&mutex_);
  return queue_.QueuedOf(tenant);
}

size_t Lane::BatchLimit() {
  const size_t most =
      std::min(shared_->options.max_batch_commands, shared_->traits.max_batch_writes);
  if (queue_.is_shared()) {
    shared_batches_left_ = kSharedBatches;
  } else if (shared_batches_left_ > 0) {
    --shared_batches_left_;
  }
  const bool small = shared_batches_left_ > 0 && queue_.has_long_lines();
  return small ? std::min(most, kMaxSharedBatch) : most;
}

bool Lane::BatchIsFull() const {
  return batch_.size() >= batch_limit_ || batch_response_bytes_ >= core::kMaxBatchResponseBytes;
}

void Lane::TakeIntoBatch(PendingCommandPtr command) {
  batch_response_bytes_ += ResponseBytes(command->request.command);
  const auto [entry, added] = slot_of_.try_emplace(&command->request.key, keys_.size());
  if (added) keys_.push_back(command->request.key);
  // Where nobody may know what became of the batch, it is stepped again on what it has left.
  if (!shared_->traits.exclusive && IsLastOfItsKey(command->request.command)) {
    closed_slots_.push_back(entry->second);
  }
  batch_.push_back(Stepped{.command = std::move(command), .slot = entry->second});
}

bool Lane::IsClosed(const core::Key& key) const {
  if (closed_slots_.empty()) return false;
  const auto slot = slot_of_.find(&key);
  return slot != slot_of_.end() &&
         std::find(closed_slots_.begin(), closed_slots_.end(), slot->second) != closed_slots_.end();
}

// Makes a batch of what there is to do; false, and the lane idle, where there is nothing.
bool Lane::TakeBatch() {
  batch_.clear();
  keys_.clear();
  slot_of_.clear();
  closed_slots_.clear();
  batch_response_bytes_ = 0;
  if (sweeping_) SweepDue();
  // Who waits goes before who comes after the lease has ended, however late the timers are.
  const core::Time now = shared_->Now().latest;
  if (lapsing_ || (waiters_.size() != 0 && next_timer() <= now)) {
    RunErrands(Errands{.run_timers = true});
  }
  for (;;) {
    Errands errands;
    std::vector<PendingCommandPtr> late;
    {
      absl::MutexLock lock(&mutex_);
      if (errands_.any()) {
        std::swap(errands, errands_);
      } else {
        FillBatch(now, &late);
        if (batch_.empty() && late.empty()) running_ = false;
        if (late.empty()) return running_;
      }
    }
    for (const PendingCommandPtr& command : late) AnswerCancelled(*command);
    if (!batch_.empty()) return true;
    RunErrands(std::move(errands));
  }
}

void Lane::FillBatch(core::Time now, std::vector<PendingCommandPtr>* late) {
  std::vector<PendingCommandPtr> held_back;
  const auto take = [&](PendingCommandPtr command) {
    if (IsLate(*command, now)) return late->push_back(std::move(command));
    if (IsClosed(command->request.key)) return held_back.push_back(std::move(command));
    TakeIntoBatch(std::move(command));
  };
  batch_limit_ = BatchLimit();
  size_t taken = 0;
  // A long line behind one Resolve would be moved through here with every batch.
  const auto is_full = [&] { return BatchIsFull() || held_back.size() >= batch_limit_; };
  for (; !ready_.empty() && !is_full(); ++taken) take(ready_.Pop());
  callers_in_batch_ = 0;
  for (; !queue_.empty() && !is_full(); ++taken, ++callers_in_batch_) take(queue_.Pop());
  shared_->queued -= taken;
  if (queue_.empty()) {
    drain_rate_.OnEmptied();
  } else {
    drain_rate_.OnTaken(taken - held_back.size(), now);
  }
  // They begin the next batch.
  StepAgain(std::move(held_back));
}

bool Lane::StartRead() {
  handshake_.Reset();
  shared_->engine->Read(keys_, [this](absl::StatusOr<ReadResult> result) {
    read_result_ = std::move(result);
    if (handshake_.Arrive()) Run();
  });
  return handshake_.Arrive();
}

void Lane::StepBatch() {
  written_slots_.clear();
  write_outcomes_.clear();
  commit_time_ = {};
  slots_.clear();
  if (!read_result_.ok() || shared_->dead) {
    FailBatch();
    // The engine may have died of something else than a write of ours.
    if (!shared_->engine->pressure().alive) Die();
    return;
  }
  slots_.resize(keys_.size());
  bool any_put_off = false;
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].stored = std::move(read_result_->entries[i].stored);
    slots_[i].version = read_result_->entries[i].version;
    any_put_off |= read_result_->entries[i].put_off;
    if (std::holds_alternative<core::Unreadable>(slots_[i].stored)) {
      shared_->observer->OnUnreadable(keys_[i]);
    }
  }
  if (any_put_off) PutOff();
  for (const Stepped& stepped : batch_) ++slots_[stepped.slot].uses_left;
  token_floor_ = read_result_->token_floor;
  const core::Now now = shared_->Now();
  for (size_t i = 0; i < slots_.size(); ++i) NoteIfLapsed(keys_[i], slots_[i], now);
  if (!shared_->traits.exclusive) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (!read_result_->entries[i].put_off) NoteRead(keys_[i], slots_[i].stored, now);
    }
  }
  for (Stepped& stepped : batch_) StepOne(stepped, now);
}

// The command that is first to find a lease ended may also be the one that settles the operation,
// long before a timer comes by.
void Lane::NoteIfLapsed(const core::Key& key, Slot& slot, const core::Now& now) const {
  const auto* record = std::get_if<core::Record>(&slot.stored);
  if (record == nullptr || !core::LeaseHasEnded(*record, now)) return;
  if (!leases_.Contains(key) && !ended_leases_.contains(key)) return;
  const auto lapsed = std::make_shared<core::Record>(*record);
  core::Lapse(*lapsed);
  slot.lapsed = lapsed;
}

// Another replica may have ended what is counted here as open.
void Lane::NoteRead(const core::Key& key, const core::Stored& stored, const core::Now& now) {
  if (std::holds_alternative<core::Unreadable>(stored)) return;
  const auto* const record = std::get_if<core::Record>(&stored);
  if (!IsOpen(record)) shared_->tenants.SetOpen(key, false);
  const bool is_pending = record != nullptr && record->state == core::State::kPending;
  // What has lapsed is stored as PENDING, and is unresolved.
  const bool is_unresolved = IsOpen(record) && !(is_pending && !core::LeaseHasEnded(*record, now));
  if (!is_unresolved) shared_->unresolved.Erase(key);
}

// The next batch begins with those whose keys were not read.
void Lane::PutOff() {
  std::vector<PendingCommandPtr> put_off;
  for (Stepped& stepped : batch_) {
    if (read_result_->entries[stepped.slot].put_off) put_off.push_back(std::move(stepped.command));
  }
  batch_.erase(std::remove_if(batch_.begin(), batch_.end(),
                              [](const Stepped& stepped) { return stepped.command == nullptr; }),
               batch_.end());
  StepAgain(std::move(put_off));
}

void Lane::StepOne(Stepped& stepped, const core::Now& now) {
  Slot& slot = slots_[stepped.slot];
  const bool last_use = --slot.uses_left == 0;
  core::Stored stored = last_use ? std::move(slot.stored) : slot.stored;
  AskQuotas(stepped.command.get(), now.latest);
  const Request& request = stepped.command->request;
  core::Decision decision =
      shared_->options.step(std::move(stored), request.command, *request.policy, now, token_floor_);
  if (stepped.command->doubted != 0) SettleDoubt(slot, *stepped.command, decision);
  stepped.answer = std::move(decision.answer);
  stepped.waits = MayWait(stepped);
  if (decision.effect == core::Effect::kKeep) return;
  if (!slot.dirty) {
    slot.dirty = true;
    slot.write = written_slots_.size();
    written_slots_.push_back(stepped.slot);
  }
  slot.record = decision.effect == core::Effect::kWrite ? std::move(decision.record) : nullptr;
  // At once: the next command of the batch may be of the same tenant.
  shared_->tenants.SetOpen(request.key, IsOpen(slot.record.get()));
  // A later command of the batch must not be given a token that was used in it.
  if (slot.record != nullptr) token_floor_ = std::max(token_floor_, slot.record->token + 1);
  if (last_use) return;
  if (slot.record != nullptr) {
    slot.stored = *slot.record;
  } else {
    slot.stored = core::Absent{};
  }
}

// What settles an operation over its owner's head is stepped again, and something else is stored by
// now: its own doing, or that of others, or what others have made of its doing. Where it finds
// itself done, that is the answer. Else the same command would settle, or be refused for, an
// operation that began after it.
void Lane::SettleDoubt(const Slot& slot, PendingCommand& command, core::Decision& decision) {
  if (slot.version == command.doubted) {
    command.doubted = 0;  // nothing was written
    return;
  }
  const bool is_done = decision.effect == core::Effect::kKeep &&
                       !std::holds_alternative<core::Refusal>(decision.answer);
  if (!is_done) decision = core::Decision{.answer = Refused(core::Reason::kStoreUnavailable)};
}

// Whether a new key would be one too many is asked anew each time that the command is stepped.
void Lane::AskQuotas(PendingCommand* command, core::Time now) {
  auto* const reserve = std::get_if<core::ReserveCommand>(&command->request.command);
  if (reserve == nullptr) return;
  if (command->quota) reserve->refuse_new = core::Reason::kNone;
  if (reserve->refuse_new != core::Reason::kNone) return;
  const Request& request = command->request;
  const bool counts = !std::exchange(command->metered, true);
  command->quota = shared_->tenants.Ask(request.key, *request.policy, now, counts);
  if (command->quota) reserve->refuse_new = core::Reason::kQuotaExceeded;
}

bool Lane::StartCommit() {
  if (written_slots_.empty()) return true;
  std::vector<GuardedWrite> writes;
  writes.reserve(written_slots_.size());
  for (const size_t slot : written_slots_) {
    writes.push_back(GuardedWrite{keys_[slot], slots_[slot].version, slots_[slot].record});
  }
  handshake_.Reset();
  commit_time_ = ReadElapsed();
  shared_->engine->Commit(std::move(writes), [this](std::vector<WriteOutcome> outcomes) {
    write_outcomes_ = std::move(outcomes);
    commit_time_ = ReadElapsed() - commit_time_;
    if (handshake_.Arrive()) Run();
  });
  return handshake_.Arrive();
}

void Lane::AnswerBatch() {
  if (slots_.empty()) return UpdateNextTimer();  // it has failed as a whole
  const bool unknown = std::any_of(write_outcomes_.begin(), write_outcomes_.end(),
                                   [](WriteOutcome o) { return o == WriteOutcome::kUnknown; });
  if (unknown && shared_->traits.exclusive) {
    FailBatch();
    return Die();
  }
  shared_->observer->OnCommit(batch_.size(), written_slots_.size(), commit_time_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].lapsed != nullptr) ReportLapse(keys_[i], slots_[i]);
  }
  const core::Time server_time = shared_->Now().latest;
  std::vector<PendingCommandPtr> again;
  for (Stepped& stepped : batch_) {
    const Slot& slot = slots_[stepped.slot];
    const WriteOutcome outcome =
        slot.dirty ? write_outcomes_[slot.write] : WriteOutcome::kCommitted;
    if (outcome != WriteOutcome::kCommitted) {
      // Lost a race, or nobody knows: stepping the same command on what is stored by now gives
      // the answer, since every command is idempotent.
      if (outcome == WriteOutcome::kUnknown) {
        stepped.command->may_have_effect = true;
        const bool is_last = IsLastOfItsKey(stepped.command->request.command);
        if (is_last) stepped.command->doubted = slot.version;
      }
      again.push_back(std::move(stepped.command));
    } else if (stepped.waits) {
      Park(std::move(stepped), server_time);
    } else {
      Answer(std::move(stepped.command), std::move(stepped.answer), server_time);
    }
  }
  StepAgain(std::move(again));
  for (const size_t i : written_slots_) {
    const WriteOutcome outcome = write_outcomes_[slots_[i].write];
    if (outcome == WriteOutcome::kCommitted) {
      NoteWritten(keys_[i], slots_[i].record);
    } else {
      NoteDoubtful(keys_[i], slots_[i].record, outcome);
    }
  }
  UpdateNextTimer();
}

void Lane::ReportLapse(const core::Key& key, const Slot& slot) {
  // Another replica has written meanwhile: what was read holds no more, and is read again.
  if (slot.dirty && write_outcomes_[slot.write] == WriteOutcome::kLostRace) return;
  leases_.Erase(key);
  ended_leases_.erase(key);
  const core::Record& record = *slot.lapsed;
  if (!slot.dirty) {
    // No timer comes by for them any more.
    WakeAll(waiters_.TakeKey(key));
    shared_->tenants.SetOpen(key, IsOpen(&record));
    NoteUnresolved(key, record);
    if (core::IsSet(record.forget_time)) reclaimable_.Set(key, record.forget_time);
  }
  shared_->observer->OnLapse(key, record);
}

// Keeps the tables in memory, and wakes who has waited for this.
void Lane::NoteWritten(const core::Key& key, const core::RecordPtr& record) {
  reclaimable_.Erase(key);
  if (record != nullptr && record->state == core::State::kPending) {
    shared_->unresolved.Erase(key);
    leases_.Set(key, record->lease_expire_time);
    return;
  }
  leases_.Erase(key);
  if (record != nullptr && record->state == core::State::kUnresolved) {
    NoteUnresolved(key, *record);
    if (core::IsSet(record->forget_time)) reclaimable_.Set(key, record->forget_time);
  } else {
    shared_->unresolved.Erase(key);
  }
  WakeAll(waiters_.TakeKey(key));
}

void Lane::NoteUnresolved(const core::Key& key, const core::Record& record) {
  if (record.state != core::State::kUnresolved || !record.unknown) return;
  shared_->unresolved.Set(key, record.unknown->since);
  if (!shared_->traits.exclusive) LookLater(key, FirstLookAfter(key), shared_->Now().latest);
}

// Whoever settles it elsewhere tells of it, and that may get lost.
void Lane::LookLater(const core::Key& key, core::Duration span, core::Time now) {
  unresolved_looks_.Set(key, core::Add(now, span));
}

// Something else is stored, or this may be: who waits looks again, behind the commands that are
// stepped again and may find that they have nothing more to write. A lease that may have begun
// is looked at when it ends.
void Lane::NoteDoubtful(const core::Key& key, const core::RecordPtr& record, WriteOutcome outcome) {
  // Nobody knows: what is stepped again says it anew, where it writes.
  shared_->tenants.SetOpen(key, false);
  const bool pending = record != nullptr && record->state == core::State::kPending;
  if (pending && outcome == WriteOutcome::kUnknown) leases_.Set(key, record->lease_expire_time);
  WakeAll(waiters_.TakeKey(key));
}

// --- Waiting and timers ----------------------------------------------------------------------

bool Lane::MayWait(const Stepped& stepped) const {
  const PendingCommand& command = *stepped.command;
  if (!core::IsSet(command.wait_until) || shared_->draining) return false;
  return InProgress(stepped.answer) != nullptr &&
         waiters_.CountOf(command.request.key) < shared_->options.max_waiters_per_key &&
         shared_->waiters < shared_->options.max_waiters;
}

void Lane::Park(Stepped stepped, core::Time server_time) {
  // The bounds are asked again: the whole batch was stepped before the first was parked.
  if (!MayWait(stepped) || stepped.command->wait_until <= server_time) {
    return Answer(std::move(stepped.command), std::move(stepped.answer), server_time);
  }
  // Another replica may hold the lease: its end wakes the waiter all the same.
  const core::Time lease_end = InProgress(stepped.answer)->lease_expire_time;
  leases_.Set(stepped.command->request.key, lease_end);
  awaited_leases_.Set(stepped.command->request.key, lease_end);
  stepped.command->has_waited = true;
  ++shared_->waiters;
  waiters_.Add(std::move(stepped.command));
}

void Lane::MakeReady(std::vector<PendingCommandPtr> commands) {
  shared_->queued += commands.size();
  ready_.Add(std::move(commands));
}

// Before all that is ready: it was submitted earlier.
void Lane::StepAgain(std::vector<PendingCommandPtr> commands) {
  shared_->queued += commands.size();
  ready_.AddFirst(std::move(commands));
}

void Lane::WakeAll(std::vector<PendingCommandPtr> waiters) {
  shared_->waiters -= waiters.size();
  MakeReady(std::move(waiters));
}

// Lets go of a command that waits, or is ready. One that may have had its effect is answered all
// the same, with what holds, but waits for nothing more.
void Lane::CancelHeld(uint64_t id) {
  if (PendingCommandPtr waiter = waiters_.Take(id)) {
    std::vector<PendingCommandPtr> one;
    one.push_back(std::move(waiter));
    WakeAll(std::move(one));
  }
  PendingCommand* const command = ready_.Find(id);
  if (command == nullptr) return;
  command->wait_until = core::Time{};
  if (!MayBeDropped(command->request.command) || command->may_have_effect) return;
  --shared_->queued;
  AnswerCancelled(*ready_.Take(id));
}

void Lane::RunErrands(Errands errands) {
  for (const uint64_t id : errands.cancel) CancelHeld(id);
  for (const core::Key& key : errands.wake) {
    WakeAll(waiters_.TakeKey(key));
    LookAtUnresolved(key);
  }
  if (errands.end_waits) WakeAll(waiters_.TakeAll());
  if (errands.run_timers) RunDueTimers();
  if (errands.sweep) SweepDue();
  UpdateNextTimer();
}

void Lane::RunDueTimers() {
  const core::Now now = shared_->Now();
  // However many others have ended before them.
  for (const core::Key& key : awaited_leases_.TakeDue(now.earliest, SIZE_MAX)) {
    const std::optional<core::Time> end = leases_.EndOf(key);
    if (end.has_value() && *end <= now.earliest) {
      leases_.Erase(key);
      SeeLeaseEnd(key);
    } else if (end.has_value() && waiters_.CountOf(key) > 0) {
      awaited_leases_.Set(key, *end);
    }
  }
  const bool has_callers = HasCallers();
  const size_t most = has_callers
                          ? std::clamp(callers_in_batch_, kMinLapsesBesideCallers, kMaxLapsesAtOnce)
                          : kMaxLapsesAtOnce;
  const size_t more = most - std::min(most, ended_leases_.size());
  for (const core::Key& key : leases_.TakeDue(now.earliest, more)) SeeLeaseEnd(key);
  // Beside callers a part of them for every batch, until there is no more; else the timer comes
  // again, so that whoever runs the lane gets away, and a server that drains ends.
  const std::optional<core::Time> next = leases_.NextDue();
  lapsing_ = has_callers && next.has_value() && *next <= now.earliest;
  std::vector<PendingCommandPtr> due = waiters_.TakeDue(now.latest);
  for (PendingCommandPtr& command : due) command->wait_until = core::Time{};
  WakeAll(std::move(due));
}

bool Lane::HasCallers() const {
  absl::MutexLock lock(&mutex_);
  return !queue_.empty();
}

void Lane::SeeLeaseEnd(const core::Key& key) {
  // First, since who is woken may acquire the key.
  LookAtLapse(key);
  WakeAll(waiters_.TakeKey(key));
}

// Reads the record that has lapsed: what is reported is what is stored, not what was planned.
void Lane::LookAtLapse(const core::Key& key) {
  ended_leases_.insert(key);
  SubmitInternal(key, core::InspectCommand{},
                 [this, key](Reply reply) { SeeToLapse(key, reply.answer, reply.server_time); });
}

// Where another replica has settled it, whoever reads it takes it off the books; nobody else may
// come by for long.
void Lane::LookAtUnresolved(const core::Key& key) {
  if (!shared_->unresolved.Contains(key)) return;
  SubmitInternal(key, core::InspectCommand{}, [this, key](const Reply& reply) {
    if (!shared_->unresolved.Contains(key)) return;
    LookLater(key, kUnresolvedAskedAgain, reply.server_time);
  });
}

// What the batch that has read the record could not report.
void Lane::SeeToLapse(const core::Key& key, const core::Answer& answer, core::Time now) {
  if (ended_leases_.erase(key) == 0) return;
  const auto* inspect = std::get_if<core::InspectAnswer>(&answer);
  if (inspect == nullptr) {
    // It could not be read: look again.
    const bool again = ReasonOf(answer) == core::Reason::kStoreUnavailable && !shared_->dead;
    if (again) leases_.Set(key, core::Add(now, core::kOverloadRetryAfter));
    return;
  }
  // It was renewed or taken up by another replica: it is not over. Or marked by one.
  const core::Record& record = *inspect->operation;
  if (record.state == core::State::kPending) leases_.Set(key, record.lease_expire_time);
  NoteUnresolved(key, record);
}

// A part of what is due for every batch, until there is no more.
void Lane::SweepDue() {
  sweeping_ = false;
  const core::Now now = shared_->Now();
  if (now.in_doubt) return;
  const std::vector<core::Key> due = reclaimable_.TakeDue(now.earliest, kMaxReclaimedAtOnce);
  const std::vector<core::Key> looks = unresolved_looks_.TakeDue(now.earliest, kMaxLooksAtOnce);
  sweeping_ = due.size() == kMaxReclaimedAtOnce || looks.size() == kMaxLooksAtOnce;
  for (const core::Key& key : looks) LookAtUnresolved(key);
  for (const core::Key& key : due) {
    const auto& may_reclaim = shared_->options.may_reclaim;
    if (may_reclaim && !may_reclaim(key.name_space)) {
      reclaimable_.Set(key, core::Add(now.latest, kReclaimAskedAgain));
      continue;
    }
    SubmitInternal(key, core::ReclaimCommand{}, [this, key](Reply reply) {
      const bool again = ReasonOf(reply.answer) == core::Reason::kStoreUnavailable;
      if (again) reclaimable_.Set(key, core::Add(reply.server_time, kReclaimAskedAgain));
    });
  }
}

void Lane::SubmitInternal(core::Key key, core::Command command, ReplyCallback done) {
  static const auto kPolicy = std::make_shared<const core::Policy>();
  auto pending = std::make_unique<PendingCommand>();
  pending->request = Request{std::move(key), std::move(command), kPolicy};
  pending->done = std::move(done);
  pending->internal = true;
  shared_->outstanding.Enter();
  std::vector<PendingCommandPtr> one;
  one.push_back(std::move(pending));
  MakeReady(std::move(one));
}

void Lane::UpdateNextTimer() {
  core::Time next = core::kMaxTime;
  // Where clocks differ, others may act only when the lease has ended by the slowest of them.
  // What is due already, and has to wait for its turn, comes with the batches.
  if (const auto due = leases_.NextDue(); due.has_value() && !lapsing_) {
    next = std::min(next, core::Add(*due, shared_->traits.clock_skew));
  }
  if (const auto due = waiters_.NextDue()) next = std::min(next, *due);
  pending_.store(leases_.size(), std::memory_order_relaxed);
  const int64_t next_ms = next.time_since_epoch().count();
  const int64_t last_ms = next_timer_ms_.exchange(next_ms);
  if (next_ms < last_ms && shared_->on_earlier_timer) shared_->on_earlier_timer();
}

// --- Answering -----------------------------------------------------------------------------------

void Lane::Answer(PendingCommandPtr command, core::Answer answer, core::Time server_time) {
  const bool internal = command->internal;
  Delivery delivery{std::move(command), std::move(answer), server_time};
  // What the lane asks of itself changes what its runner owns.
  if (internal) return Give(std::move(delivery));
  deliveries_.push_back(std::move(delivery));
}

void Lane::Give(Delivery delivery) {
  PendingCommand& command = *delivery.command;
  if (!command.internal) shared_->observer->OnAnswer(command.request, delivery.answer);
  std::move(command.done)(Reply{.answer = std::move(delivery.answer),
                                .server_time = delivery.server_time,
                                .has_waited = command.has_waited,
                                .quota = command.quota});
  shared_->outstanding.Leave();
}

namespace {

// The lanes whose answers the thread is giving at the moment, the innermost first.
struct Delivering {
  const Lane* lane;
  const Delivering* outer;
};
thread_local const Delivering* delivering = nullptr;

}  // namespace

bool Lane::DeliversHere() const {
  for (const Delivering* at = delivering; at != nullptr; at = at->outer) {
    if (at->lane == this) return true;
  }
  return false;
}

bool Lane::Deliver() {
  if (deliveries_.empty()) return true;
  std::vector<Delivery> deliveries = std::exchange(deliveries_, {});
  {
    absl::MutexLock lock(&mutex_);
    running_ = false;
    ++deliverers_;
  }
  const Delivering here{this, delivering};
  delivering = &here;
  for (Delivery& delivery : deliveries) Give(std::move(delivery));
  delivering = here.outer;
  absl::MutexLock lock(&mutex_);
  --deliverers_;
  return MayRun();
}

void Lane::AnswerCancelled(PendingCommand& command) {
  std::move(command.done)(
      Reply{.answer = Refused(core::Reason::kStoreUnavailable), .cancelled = true});
  shared_->outstanding.Leave();
}

void Lane::FailBatch() {
  const core::Time server_time = shared_->Now().latest;
  for (Stepped& stepped : batch_) {
    Answer(std::move(stepped.command), Refused(core::Reason::kStoreUnavailable), server_time);
  }
  slots_.clear();
}

// After a failed write nothing more is acknowledged, and nothing that is read can be trusted to
// be durable: every batch fails from now on. Those who wait are told, too.
void Lane::Die() {
  if (shared_->dead.exchange(true)) return;
  shared_->observer->OnEngineDead();
  shared_->end_all_waits();
}

}  // namespace idempotency::keystore
