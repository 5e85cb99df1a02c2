// One lane: a queue of commands and whoever happens to run it.
//
// A lane is idle or run by exactly one thread at a time. The runner takes what is queued as a
// batch, and for the batch: reads all keys -> steps the commands in order -> commits -> answers.
// Everything below "owned by the runner" is touched by nobody else; the queue alone is locked,
// and never across a call of the engine, the clock, the observer or a callback.
#ifndef IDEMPOTENCY_KEYSTORE_LANE_H_
#define IDEMPOTENCY_KEYSTORE_LANE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/transition.h"
#include "keystore/handshake.h"
#include "keystore/key_store.h"
#include "keystore/open_leases.h"
#include "keystore/pending_command.h"
#include "keystore/waiters.h"

namespace idempotency::keystore {

// What all lanes of a key store share.
struct Shared {
  Engine* engine = nullptr;
  Clock* clock = nullptr;
  Observer* observer = nullptr;  // never null
  KeyStoreOptions options;
  Traits traits;
  std::atomic<uint64_t> next_id{1};
  std::atomic<size_t> waiters{0};
  // Commands accepted and not yet answered, waiting ones included.
  std::atomic<size_t> outstanding{0};
  // Commands queued, waiting ones not included.
  std::atomic<size_t> queued{0};
  std::atomic<bool> dead{false};
  std::atomic<bool> draining{false};
  // Whoever answers the last outstanding command takes and leaves it, which wakes Drain.
  absl::Mutex idle_mutex;
  // Called when a timer comes up that is earlier than all before.
  std::function<void()> on_earlier_timer;
  // EndWaits of every lane.
  std::function<void()> end_all_waits;

  core::Now Now() const;
  // One command fewer is outstanding.
  void NoteAnswered() ABSL_LOCKS_EXCLUDED(idle_mutex);
};

class Lane {
 public:
  explicit Lane(Shared* shared) : shared_(shared) {}

  // Queues all, in order, and runs the lane if it is idle. Commands are admitted by then.
  void Submit(std::vector<PendingCommandPtr> commands) ABSL_LOCKS_EXCLUDED(mutex_);
  void Submit(PendingCommandPtr command) ABSL_LOCKS_EXCLUDED(mutex_);

  void Cancel(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Another replica may have ended what is waited for.
  void Wake(core::Key key) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sees to what is due by the clock.
  void RunTimers() ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets no command wait any more.
  void EndWaits() ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives back what is absent by now.
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when nobody runs the lane.
  void AwaitIdle() ABSL_LOCKS_EXCLUDED(mutex_);
  // What LoadOpen found. Before the first command only.
  void NoteOpen(const core::Key& key, const core::Record& record);

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
    size_t write = 0;        // dirty: its place in the commit
  };

  struct Stepped {
    PendingCommandPtr command;
    core::Answer answer;
    size_t slot = 0;
    bool waits = false;
  };

  template <typename Change>
  void Ask(Change change) ABSL_LOCKS_EXCLUDED(mutex_);

  void Run();
  bool TakeBatch() ABSL_LOCKS_EXCLUDED(mutex_);
  bool BatchIsFull() const;
  void TakeIntoBatch(PendingCommandPtr command);
  bool StartRead();
  void StepBatch();
  void StepOne(Stepped& stepped, const core::Now& now);
  bool StartCommit();
  void AnswerBatch();
  void NoteWritten(const core::Key& key, const core::RecordPtr& record);
  void NoteDoubtful(const core::Key& key, const core::RecordPtr& record, WriteOutcome outcome);

  void RunErrands(Errands errands);
  void RunDueTimers();
  void SweepDue();
  void ReportLapse(const core::Key& key);
  void SeeToLapse(const core::Key& key, const core::Answer& answer, core::Time now);
  void Park(Stepped stepped, core::Time server_time);
  bool MayWait(const Stepped& stepped) const;
  void MakeReady(std::vector<PendingCommandPtr> commands);
  void StepAgain(std::vector<PendingCommandPtr> commands);
  void WakeAll(std::vector<PendingCommandPtr> waiters);
  PendingCommandPtr TakeReady(uint64_t id);
  void StopWaiting(uint64_t id);
  void SubmitInternal(core::Key key, core::Command command, ReplyCallback done);
  void Answer(PendingCommand& command, core::Answer answer, core::Time server_time);
  void AnswerCancelled(PendingCommand& command);
  void FailBatch();
  void Die();
  void UpdateNextTimer();

  Shared* const shared_;

  mutable absl::Mutex mutex_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<PendingCommandPtr> queue_ ABSL_GUARDED_BY(mutex_);
  Errands errands_ ABSL_GUARDED_BY(mutex_);

  // --- Owned by the runner ------------------------------------------------------------------
  Stage stage_ = Stage::kTake;
  Handshake handshake_;
  // To be taken before what is queued: woken waiters and commands to be stepped again.
  std::deque<PendingCommandPtr> ready_;
  std::vector<Stepped> batch_;
  size_t batch_response_bytes_ = 0;
  std::vector<core::Key> keys_;
  std::unordered_map<core::Key, size_t, KeyHash> slot_of_;
  std::vector<Slot> slots_;
  uint64_t token_floor_ = 1;
  absl::StatusOr<ReadResult> read_result_;
  std::vector<size_t> written_slots_;
  std::vector<WriteOutcome> write_outcomes_;
  Waiters waiters_;
  OpenLeases leases_;
  // When open records can go.
  OpenLeases reclaimable_;
  // More of them may be due than the last batch took.
  bool sweeping_ = false;

  std::atomic<int64_t> next_timer_ms_{core::kMaxTime.time_since_epoch().count()};
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_LANE_H_
