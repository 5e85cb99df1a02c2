// Keeps callers busy, whatever the way of calling: closed loop (each slot starts its next
// operations as soon as it is free) or open loop (operations start at a fixed rate, and where no
// slot is free then, their latency counts from when they should have started).
//
//   PipelineLoad load(&plan);        // or UnaryLoad, ClientLoad
//   const Result result = load.Run();
#ifndef IDEMPOTENCY_TESTS_BENCH_LOAD_H_
#define IDEMPOTENCY_TESTS_BENCH_LOAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/bench/clock.h"
#include "tests/bench/meter.h"
#include "tests/bench/plan.h"

namespace idempotency::bench {

// What came of a run, in the part of it that counts.
struct Result {
  Meter meter;
  double seconds = 0;
  double client_cpu_seconds = 0;
  double server_cpu_seconds = 0;
  Usage server;  // at the end
  // Shares of the machine's CPU time: what neither we nor the server used (unknown, zero, without
  // --server-pid), and what was taken from the machine as a whole.
  double others_share = 0;
  double stolen_share = 0;
};

// Callers whose calls travel together: one for unary calls, as many as a message has commands
// for Batch and Pipeline. They go on together once all have been answered.
//
// Thread safety: none. Whoever handles the answer has it, then whoever sends it again.
struct Slot {
  virtual ~Slot() = default;

  std::vector<Caller> callers;
  std::vector<uint32_t> active;  // whose calls are in flight
  std::vector<uint32_t> next;    // who of them has another call to make
  std::vector<uint8_t> open;     // by caller: whether its call is still to be answered
  size_t unanswered = 0;
  bool lost = false;  // its connection is gone: no more is to be sent
  int64_t begun = 0;  // when the operations started, or should have
  int64_t sent = 0;   // likewise the calls
  Meter* meter = nullptr;
};

// Thread safety: the hooks are called by several threads at once, for different slots.
class Load {
 public:
  virtual ~Load() = default;
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // Runs from warm-up to end. Ends the process where nothing moves any more.
  Result Run();

 protected:
  explicit Load(Plan* plan);

  // Makes what is needed, connected, and its slots known by AddSlot.
  virtual void Open() = 0;
  // Starts the calls of the active callers. The slot may be in other hands before it returns.
  virtual void Send(Slot* slot) = 0;
  // Every slot has ended.
  virtual void Close() = 0;

  // Before the load starts. The slot must live as long as the load.
  void AddSlot(Slot* slot, size_t callers, Meter* meter);
  // The call of active caller `index` has been answered, or has failed.
  void OnAnswer(Slot* slot, uint32_t index, const Answer& answer, int64_t now);
  void OnFailure(Slot* slot, uint32_t index, const std::string& why, int64_t now);
  Meter* NewMeter();

  Plan* plan() const { return plan_; }
  const Options& options() const { return plan_->options(); }

 private:
  bool Begin(Slot* slot, int64_t begun);
  void Start(Slot* slot, int64_t begun);
  bool IsOver(int64_t now) const;
  void OnCallsSent(Slot* slot);
  void OnEnded(Slot* slot, uint32_t index, bool over, int64_t now);
  void OnFree(Slot* slot, int64_t now) ABSL_LOCKS_EXCLUDED(mutex_);
  void Retire();
  // Open loop: gives out the next start that is due; false where none is.
  bool TakeDue(int64_t now, int64_t* begun) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pace() ABSL_LOCKS_EXCLUDED(mutex_);
  void SetWindow();
  void AwaitEnd(Result* result);
  // False where all slots have ended by then. Ends the process where it hangs.
  bool RunsUntil(int64_t moment);
  void CheckHotKeys();

  Plan* const plan_;
  Window window_;
  std::vector<Slot*> slots_;
  std::deque<Meter> meters_;
  int64_t interval_ = 0;  // between starts; 0: closed loop
  std::atomic<int64_t> live_{0};
  std::atomic<uint64_t> progress_{0};
  absl::Notification ended_;

  absl::Mutex mutex_;
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);
  uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_LOAD_H_
