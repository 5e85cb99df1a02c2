#include "keystore/lane.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace idempotency::keystore {
namespace {

// Lapses reported and records reclaimed in one batch, so that a burst of them delays no command
// for long.
constexpr size_t kMaxLapsesAtOnce = 256;
constexpr size_t kMaxReclaimedAtOnce = 256;
// When a record that could not or may not be reclaimed is looked at again.
constexpr core::Duration kReclaimAskedAgain = std::chrono::hours(1);

core::Answer Refused(core::Reason reason) {
  return core::Refusal{.reason = reason, .retry_after = core::kOverloadRetryAfter};
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

void Shared::NoteAnswered() {
  // Under the lock: Drain must not find the last one gone, return and take the lock away.
  absl::MutexLock lock(&idle_mutex);
  --outstanding;
}

// --- Entering --------------------------------------------------------------------------------

void Lane::Submit(std::vector<PendingCommandPtr> commands) {
  {
    absl::MutexLock lock(&mutex_);
    for (PendingCommandPtr& command : commands) queue_.push_back(std::move(command));
    if (running_) return;
    running_ = true;
  }
  Run();
}

void Lane::Submit(PendingCommandPtr command) {
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(command));
    if (running_) return;
    running_ = true;
  }
  Run();
}

template <typename Change>
void Lane::Ask(Change change) {
  {
    absl::MutexLock lock(&mutex_);
    change(errands_);
    if (running_) return;
    running_ = true;
  }
  Run();
}

void Lane::Cancel(uint64_t id) {
  PendingCommandPtr dropped;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = std::find_if(queue_.begin(), queue_.end(),
                                    [id](const auto& command) { return command->id == id; });
    if (place != queue_.end()) {
      // Accepted finishing verbs are applied though their caller is gone.
      if (!MayBeDropped((*place)->request.command)) return;
      dropped = std::move(*place);
      queue_.erase(place);
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
  mutex_.Await(absl::Condition(
      +[](bool* running) { return !*running; }, &running_));
}

void Lane::NoteOpen(const core::Key& key, const core::Record& record) {
  if (record.state == core::State::kPending) {
    leases_.Set(key, record.lease_expire_time);
  } else if (core::IsSet(record.forget_time)) {
    reclaimable_.Set(key, record.forget_time);
  }
  UpdateNextTimer();
}

// --- Running -----------------------------------------------------------------------------------

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
        break;
    }
  }
}

bool Lane::BatchIsFull() const {
  const size_t most =
      std::min(shared_->options.max_batch_commands, shared_->traits.max_batch_writes);
  return batch_.size() >= most || batch_response_bytes_ >= core::kMaxBatchResponseBytes;
}

void Lane::TakeIntoBatch(PendingCommandPtr command) {
  batch_response_bytes_ += ResponseBytes(command->request.command);
  const auto [entry, added] = slot_of_.try_emplace(command->request.key, keys_.size());
  if (added) keys_.push_back(command->request.key);
  batch_.push_back(Stepped{.command = std::move(command), .slot = entry->second});
}

// Makes a batch of what there is to do; false, and the lane idle, where there is nothing.
bool Lane::TakeBatch() {
  batch_.clear();
  keys_.clear();
  slot_of_.clear();
  batch_response_bytes_ = 0;
  if (sweeping_) SweepDue();
  // Who waits goes before who comes after the lease has ended, however late the timers are.
  if (waiters_.size() != 0 && next_timer() <= shared_->Now().latest) {
    RunErrands(Errands{.run_timers = true});
  }
  for (;;) {
    Errands errands;
    {
      absl::MutexLock lock(&mutex_);
      if (errands_.any()) {
        std::swap(errands, errands_);
      } else {
        size_t taken = 0;
        for (; !ready_.empty() && !BatchIsFull(); ++taken, ready_.pop_front()) {
          TakeIntoBatch(std::move(ready_.front()));
        }
        for (; !queue_.empty() && !BatchIsFull(); ++taken, queue_.pop_front()) {
          TakeIntoBatch(std::move(queue_.front()));
        }
        shared_->queued -= taken;
        if (batch_.empty()) running_ = false;
        return running_;
      }
    }
    RunErrands(std::move(errands));
  }
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
  slots_.clear();
  if (!read_result_.ok() || shared_->dead) {
    FailBatch();
    // The engine may have died of something else than a write of ours.
    if (!shared_->engine->pressure().alive) Die();
    return;
  }
  slots_.resize(keys_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].stored = std::move(read_result_->entries[i].stored);
    slots_[i].version = read_result_->entries[i].version;
    if (std::holds_alternative<core::Unreadable>(slots_[i].stored)) {
      shared_->observer->OnUnreadable(keys_[i]);
    }
  }
  for (const Stepped& stepped : batch_) ++slots_[stepped.slot].uses_left;
  token_floor_ = read_result_->token_floor;
  const core::Now now = shared_->Now();
  for (Stepped& stepped : batch_) StepOne(stepped, now);
}

void Lane::StepOne(Stepped& stepped, const core::Now& now) {
  Slot& slot = slots_[stepped.slot];
  const bool last_use = --slot.uses_left == 0;
  core::Stored stored = last_use ? std::move(slot.stored) : slot.stored;
  const Request& request = stepped.command->request;
  core::Decision decision =
      shared_->options.step(std::move(stored), request.command, *request.policy, now, token_floor_);
  stepped.answer = std::move(decision.answer);
  stepped.waits = MayWait(stepped);
  if (decision.effect == core::Effect::kKeep) return;
  if (!slot.dirty) {
    slot.dirty = true;
    slot.write = written_slots_.size();
    written_slots_.push_back(stepped.slot);
  }
  slot.record = decision.effect == core::Effect::kWrite ? std::move(decision.record) : nullptr;
  // A later command of the batch must not be given a token that was used in it.
  if (slot.record != nullptr) token_floor_ = std::max(token_floor_, slot.record->token + 1);
  if (last_use) return;
  if (slot.record != nullptr) {
    slot.stored = *slot.record;
  } else {
    slot.stored = core::Absent{};
  }
}

bool Lane::StartCommit() {
  if (written_slots_.empty()) return true;
  std::vector<GuardedWrite> writes;
  writes.reserve(written_slots_.size());
  for (const size_t slot : written_slots_) {
    writes.push_back(GuardedWrite{keys_[slot], slots_[slot].version, slots_[slot].record});
  }
  handshake_.Reset();
  shared_->engine->Commit(std::move(writes), [this](std::vector<WriteOutcome> outcomes) {
    write_outcomes_ = std::move(outcomes);
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
  shared_->observer->OnCommit(batch_.size(), written_slots_.size());
  const core::Time server_time = shared_->Now().latest;
  std::vector<PendingCommandPtr> again;
  for (Stepped& stepped : batch_) {
    const Slot& slot = slots_[stepped.slot];
    const WriteOutcome outcome =
        slot.dirty ? write_outcomes_[slot.write] : WriteOutcome::kCommitted;
    if (outcome != WriteOutcome::kCommitted) {
      // Lost a race, or nobody knows: stepping the same command on what is stored by now gives
      // the answer, since every command is idempotent.
      stepped.command->may_have_effect |= outcome == WriteOutcome::kUnknown;
      again.push_back(std::move(stepped.command));
    } else if (stepped.waits) {
      Park(std::move(stepped), server_time);
    } else {
      Answer(*stepped.command, std::move(stepped.answer), server_time);
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

// Keeps the tables in memory, and wakes who has waited for this.
void Lane::NoteWritten(const core::Key& key, const core::RecordPtr& record) {
  reclaimable_.Erase(key);
  if (record != nullptr && record->state == core::State::kPending) {
    leases_.Set(key, record->lease_expire_time);
    return;
  }
  leases_.Erase(key);
  if (record != nullptr && record->state == core::State::kUnresolved &&
      core::IsSet(record->forget_time)) {
    reclaimable_.Set(key, record->forget_time);
  }
  WakeAll(waiters_.TakeKey(key));
}

// Something else is stored, or this may be: who waits looks again, behind the commands that are
// stepped again and may find that they have nothing more to write. A lease that may have begun
// is looked at when it ends.
void Lane::NoteDoubtful(const core::Key& key, const core::RecordPtr& record, WriteOutcome outcome) {
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
    return Answer(*stepped.command, std::move(stepped.answer), server_time);
  }
  // Another replica may hold the lease: its end wakes the waiter all the same.
  leases_.Set(stepped.command->request.key, InProgress(stepped.answer)->lease_expire_time);
  ++shared_->waiters;
  waiters_.Add(std::move(stepped.command));
}

void Lane::MakeReady(std::vector<PendingCommandPtr> commands) {
  shared_->queued += commands.size();
  for (PendingCommandPtr& command : commands) ready_.push_back(std::move(command));
}

// Before all that is ready: it was submitted earlier.
void Lane::StepAgain(std::vector<PendingCommandPtr> commands) {
  shared_->queued += commands.size();
  ready_.insert(ready_.begin(), std::make_move_iterator(commands.begin()),
                std::make_move_iterator(commands.end()));
}

void Lane::WakeAll(std::vector<PendingCommandPtr> waiters) {
  shared_->waiters -= waiters.size();
  MakeReady(std::move(waiters));
}

PendingCommandPtr Lane::TakeReady(uint64_t id) {
  const auto place = std::find_if(ready_.begin(), ready_.end(), [id](const auto& command) {
    return command->id == id && MayBeDropped(command->request.command) && !command->may_have_effect;
  });
  if (place == ready_.end()) return nullptr;
  PendingCommandPtr taken = std::move(*place);
  ready_.erase(place);
  --shared_->queued;
  return taken;
}

// A cancelled command that may have had its effect is answered, but waits for nothing more.
void Lane::StopWaiting(uint64_t id) {
  for (const PendingCommandPtr& command : ready_) {
    if (command->id == id) command->wait_until = core::Time{};
  }
}

void Lane::RunErrands(Errands errands) {
  for (const uint64_t id : errands.cancel) {
    if (PendingCommandPtr waiter = waiters_.Take(id)) {
      --shared_->waiters;
      AnswerCancelled(*waiter);
    } else if (PendingCommandPtr woken = TakeReady(id)) {
      AnswerCancelled(*woken);
    } else {
      StopWaiting(id);
    }
  }
  for (const core::Key& key : errands.wake) WakeAll(waiters_.TakeKey(key));
  if (errands.end_waits) WakeAll(waiters_.TakeAll());
  if (errands.run_timers) RunDueTimers();
  if (errands.sweep) SweepDue();
  UpdateNextTimer();
}

void Lane::RunDueTimers() {
  const core::Now now = shared_->Now();
  for (const core::Key& key : leases_.TakeDue(now.earliest, kMaxLapsesAtOnce)) {
    // First, since who is woken may acquire the key.
    ReportLapse(key);
    WakeAll(waiters_.TakeKey(key));
  }
  std::vector<PendingCommandPtr> due = waiters_.TakeDue(now.latest);
  for (PendingCommandPtr& command : due) command->wait_until = core::Time{};
  WakeAll(std::move(due));
}

// Reads the record that has lapsed: what is reported is what is stored, not what was planned.
void Lane::ReportLapse(const core::Key& key) {
  SubmitInternal(key, core::InspectCommand{},
                 [this, key](Reply reply) { SeeToLapse(key, reply.answer, reply.server_time); });
}

void Lane::SeeToLapse(const core::Key& key, const core::Answer& answer, core::Time now) {
  const auto* inspect = std::get_if<core::InspectAnswer>(&answer);
  if (inspect == nullptr) {
    const core::Reason reason = ReasonOf(answer);
    // It could not be read: look again.
    const bool again = reason == core::Reason::kStoreUnavailable && !shared_->dead;
    if (again) leases_.Set(key, core::Add(now, core::kOverloadRetryAfter));
    // The lease ended so long ago that it is forgotten.
    if (reason == core::Reason::kOperationNotFound) reclaimable_.Set(key, now);
    return;
  }
  const core::Record& record = *inspect->operation;
  if (record.state == core::State::kPending) {
    // It was renewed or taken up by another replica: it is not over.
    leases_.Set(key, record.lease_expire_time);
    return;
  }
  const bool lapsed = !record.ended.empty() && record.ended.back().token == record.token &&
                      record.ended.back().verb == core::EndVerb::kLapsed;
  if (!lapsed) return;
  if (core::IsSet(record.forget_time)) reclaimable_.Set(key, record.forget_time);
  shared_->observer->OnLapse(key, record);
}

// A part of what is due for every batch, until there is no more.
void Lane::SweepDue() {
  sweeping_ = false;
  const core::Now now = shared_->Now();
  if (now.in_doubt) return;
  const std::vector<core::Key> due = reclaimable_.TakeDue(now.earliest, kMaxReclaimedAtOnce);
  sweeping_ = due.size() == kMaxReclaimedAtOnce;
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
  pending->id = shared_->next_id++;
  pending->request = Request{std::move(key), std::move(command), kPolicy};
  pending->done = std::move(done);
  pending->internal = true;
  ++shared_->outstanding;
  std::vector<PendingCommandPtr> one;
  one.push_back(std::move(pending));
  MakeReady(std::move(one));
}

void Lane::UpdateNextTimer() {
  core::Time next = core::kMaxTime;
  // Where clocks differ, others may act only when the lease has ended by the slowest of them.
  if (const auto due = leases_.NextDue()) {
    next = std::min(next, core::Add(*due, shared_->traits.clock_skew));
  }
  if (const auto due = waiters_.NextDue()) next = std::min(next, *due);
  const int64_t next_ms = next.time_since_epoch().count();
  const int64_t last_ms = next_timer_ms_.exchange(next_ms);
  if (next_ms < last_ms && shared_->on_earlier_timer) shared_->on_earlier_timer();
}

// --- Answering -----------------------------------------------------------------------------------

void Lane::Answer(PendingCommand& command, core::Answer answer, core::Time server_time) {
  if (!command.internal) shared_->observer->OnAnswer(command.request, answer);
  std::move(command.done)(Reply{.answer = std::move(answer), .server_time = server_time});
  shared_->NoteAnswered();
}

void Lane::AnswerCancelled(PendingCommand& command) {
  std::move(command.done)(
      Reply{.answer = Refused(core::Reason::kStoreUnavailable), .cancelled = true});
  shared_->NoteAnswered();
}

void Lane::FailBatch() {
  const core::Time server_time = shared_->Now().latest;
  for (Stepped& stepped : batch_) {
    Answer(*stepped.command, Refused(core::Reason::kStoreUnavailable), server_time);
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
