// One lane: a queue of commands and whoever happens to run it.
//
// A lane is idle or run by exactly one thread at a time. The runner takes what is queued as a
// batch, and for the batch: reads all keys -> steps the commands in order -> commits -> makes the
// answers. Then it leaves the lane, gives the answers to those who wait for them, and comes back
// to see what there is. Meanwhile the next that submits may run the lane: so one batch is synced
// while the answers of the last go out.
//
// Everything below "owned by the runner" is touched by nobody else; the queue alone is locked,
// and never across a call of the engine, the clock, the observer or a callback.
#ifndef IDEMPOTENCY_KEYSTORE_LANE_H_
#define IDEMPOTENCY_KEYSTORE_LANE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "keystore/command_queue.h"
#include "keystore/core/transition.h"
#include "keystore/drain_rate.h"
#include "keystore/handshake.h"
#include "keystore/key_store.h"
#include "keystore/open_leases.h"
#include "keystore/outstanding.h"
#include "keystore/pending_command.h"
#include "keystore/ready_commands.h"
#include "keystore/tenant_usage.h"
#include "keystore/unresolved.h"
#include "keystore/waiters.h"

namespace idempotency::keystore {

// What all lanes of a key store share.
struct Shared {
  Engine* engine = nullptr;
  Clock* clock = nullptr;
  Observer* observer = nullptr;  // never null
  KeyStoreOptions options;
  Traits traits;
  std::atomic<size_t> waiters{0};
  UnresolvedOperations unresolved;
  TenantUsage tenants;
  // Commands accepted and not yet answered, waiting ones included.
  Outstanding outstanding;
  // Commands queued, waiting ones not included.
  std::atomic<size_t> queued{0};
  std::atomic<bool> dead{false};
  std::atomic<bool> draining{false};
  // Called when a timer comes up that is earlier than all before.
  std::function<void()> on_earlier_timer;
  // EndWaits of every lane.
  std::function<void()> end_all_waits;

  core::Now Now() const;
};

class Lane {
 public:
  explicit Lane(Shared* shared) : shared_(shared) {}

  // Queues the command, and runs the lane if it is idle. Commands are admitted by then. Gives the
  // command's id.
  uint64_t Submit(PendingCommandPtr command) ABSL_LOCKS_EXCLUDED(mutex_);
  // Queues all, in order; *first_id is the id of the first, and each other has one more than the
  // one before. True: the calling thread has become the runner, and must call Run.
  bool Queue(std::vector<PendingCommandPtr> commands, uint64_t* first_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Run();

  void Cancel(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Another replica may have ended what is waited for.
  void Wake(core::Key key) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sees to what is due by the clock.
  void RunTimers() ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets no command wait any more.
  void EndWaits() ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives back what is absent by now.
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when nobody runs the lane or gives its answers.
  void AwaitIdle() ABSL_LOCKS_EXCLUDED(mutex_);
  // What LoadOpen found. Before the first command only.
  void NoteOpen(const core::Key& key, const core::Record& record);

  // How long a command would be queued behind so many others, as far as is known.
  core::Duration TimeFor(size_t queued) const { return drain_rate_.TimeFor(queued); }

  // How many of `queued` commands would be decided before one that this tenant sends now.
  size_t AheadOf(const TenantId& tenant, size_t queued) const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t QueuedOf(const TenantId& tenant) const ABSL_LOCKS_EXCLUDED(mutex_);

  // How many leases are known to be live.
  size_t pending() const { return pending_.load(std::memory_order_relaxed); }

  // When RunTimers should be called; core::kMaxTime: not at all.
  core::Time next_timer() const { return core::Time(core::Duration(next_timer_ms_.load())); }

 private:
  enum class Stage : uint8_t { kTake, kStep, kAnswer };

  // What is asked of the runner besides commands.
  struct Errands {
    std::vector<uint64_t> cancel;
    std::vector<core::Key> wake;
    bool run_timers = false;
    bool end_waits = false;
    bool sweep = false;

    bool any() const {
      return run_timers || end_waits || sweep || !cancel.empty() || !wake.empty();
    }
  };

  // A key of the batch: what is stored as far as stepped, and whether that is to be written.
  struct Slot {
    core::Stored stored;
    Version version = 0;
    size_t uses_left = 0;
    bool dirty = false;
    core::RecordPtr record;  // dirty: what to write, null to erase
    // What the end of a lease made of the record that was read, where the observer was not told
    // of it yet; null otherwise.
    core::RecordPtr lapsed;
    size_t write = 0;  // dirty: its place in the commit
  };

  struct Stepped {
    PendingCommandPtr command;
    core::Answer answer;
    size_t slot = 0;
    bool waits = false;
  };

  // An answer that may be given: what it says is durable.
  struct Delivery {
    PendingCommandPtr command;
    core::Answer answer;
    core::Time server_time;
  };

  template <typename Change>
  void Ask(Change change) ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes the calling thread the runner, unless there is one, or it will come by anyway.
  bool MayRun() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeBatch() ABSL_LOCKS_EXCLUDED(mutex_);
  // Leaves out, in *late, what nobody would receive the answer of.
  void FillBatch(core::Time now, std::vector<PendingCommandPtr>* late)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool BatchIsFull() const;
  size_t BatchLimit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeIntoBatch(PendingCommandPtr command);
  // Whether a command on this key has to wait for the next batch.
  bool IsClosed(const core::Key& key) const;
  bool StartRead();
  void StepBatch();
  void PutOff();
  void StepOne(Stepped& stepped, const core::Now& now);
  static void SettleDoubt(const Slot& slot, PendingCommand& command, core::Decision& decision);
  void AskQuotas(PendingCommand* command, core::Time now);
  bool StartCommit();
  void AnswerBatch();
  // Leaves the lane and gives all answers; true where the thread is the runner again.
  bool Deliver() ABSL_LOCKS_EXCLUDED(mutex_);
  bool DeliversHere() const;
  bool IsIdle() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !running_ && deliverers_ == 0; }
  void NoteWritten(const core::Key& key, const core::RecordPtr& record);
  void NoteIfLapsed(const core::Key& key, Slot& slot, const core::Now& now) const;
  void NoteRead(const core::Key& key, const core::Stored& stored, const core::Now& now);
  void ReportLapse(const core::Key& key, const Slot& slot);
  void NoteUnresolved(const core::Key& key, const core::Record& record);
  void LookLater(const core::Key& key, core::Duration span, core::Time now);
  void NoteDoubtful(const core::Key& key, const core::RecordPtr& record, WriteOutcome outcome);

  void RunErrands(Errands errands);
  void RunDueTimers();
  void SweepDue();
  bool HasCallers() const;
  void SeeLeaseEnd(const core::Key& key);
  void LookAtLapse(const core::Key& key);
  void LookAtUnresolved(const core::Key& key);
  void SeeToLapse(const core::Key& key, const core::Answer& answer, core::Time now);
  void Park(Stepped stepped, core::Time server_time);
  bool MayWait(const Stepped& stepped) const;
  void MakeReady(std::vector<PendingCommandPtr> commands);
  void StepAgain(std::vector<PendingCommandPtr> commands);
  void WakeAll(std::vector<PendingCommandPtr> waiters);
  void CancelHeld(uint64_t id);
  void SubmitInternal(core::Key key, core::Command command, ReplyCallback done);
  void Answer(PendingCommandPtr command, core::Answer answer, core::Time server_time);
  void Give(Delivery delivery);
  void AnswerCancelled(PendingCommand& command);
  void FailBatch();
  void Die();
  void UpdateNextTimer();

  Shared* const shared_;

  mutable absl::Mutex mutex_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  // Threads that have left the lane and give its answers.
  size_t deliverers_ ABSL_GUARDED_BY(mutex_) = 0;
  CommandQueue queue_ ABSL_GUARDED_BY(mutex_);
  Errands errands_ ABSL_GUARDED_BY(mutex_);

  // --- Owned by the runner ------------------------------------------------------------------
  Stage stage_ = Stage::kTake;
  Handshake handshake_;
  ReadyCommands ready_;
  std::vector<Stepped> batch_;
  size_t batch_response_bytes_ = 0;
  size_t batch_limit_ = 0;
  // Batches for which it still counts that tenants shared the queue a while ago.
  size_t shared_batches_left_ = 0;
  std::vector<core::Key> keys_;
  // The keys are those of the batch's commands.
  absl::flat_hash_map<const core::Key*, size_t, KeyPointerHash, KeyPointerEqual> slot_of_;
  // Slots of keys that nothing more is taken for.
  std::vector<size_t> closed_slots_;
  std::vector<Slot> slots_;
  uint64_t token_floor_ = 1;
  absl::StatusOr<ReadResult> read_result_;
  std::vector<size_t> written_slots_;
  std::vector<WriteOutcome> write_outcomes_;
  // When the commit began; then, how long it took.
  std::chrono::nanoseconds commit_time_{0};
  std::vector<Delivery> deliveries_;
  Waiters waiters_;
  OpenLeases leases_;
  // Those of them that somebody waits for; one may have moved since, or nobody wait any more.
  OpenLeases awaited_leases_;
  // Those of them that have ended, and are being read to see what became of the operation.
  absl::flat_hash_set<core::Key, KeyHash> ended_leases_;
  // When open records can go.
  OpenLeases reclaimable_;
  // When what is unresolved is read again. Empty where there are no other replicas.
  OpenLeases unresolved_looks_;
  // More of them may be due than the last batch took.
  bool sweeping_ = false;
  // Leases have ended that are still to be looked at, some with each batch.
  bool lapsing_ = false;
  // Of the last batch, those that came out of the queue.
  size_t callers_in_batch_ = 0;
  DrainRate drain_rate_;

  std::atomic<size_t> pending_{0};
  std::atomic<int64_t> next_timer_ms_{core::kMaxTime.time_since_epoch().count()};
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_LANE_H_
