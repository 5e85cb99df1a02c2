// Moves all records out of the open store or into it, or reads them all to retire it, one such work
// at a time, on a thread of its own; and says whether this server may.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_SERVICE_TRANSFER_KEEPER_H_
#define IDEMPOTENCY_SERVICE_TRANSFER_KEEPER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "keystore/clock.h"
#include "keystore/engine/engine.h"
#include "service/transfer_mode.h"
#include "service/worker.h"

namespace idempotency::service {

class TransferKeeper {
 public:
  struct Work {
    // What is done, on the keeper's thread.
    absl::AnyInvocable<absl::Status() &&> run;
    // Makes `run` end soon, from any thread, while it runs. Must not block.
    std::function<void()> cancel;
    // Called once, behind `run`, with how it ended; the next transfer may begin by then.
    absl::AnyInvocable<void(absl::Status) &&> end;
  };

  // Both must outlive it. `engine_name`: as --engine has it.
  TransferKeeper(keystore::Engine* engine, keystore::Clock* clock, TransferMode mode,
                 std::string engine_name);
  // Gives up what is under way.
  ~TransferKeeper() { Stop(); }
  TransferKeeper(const TransferKeeper&) = delete;
  TransferKeeper& operator=(const TransferKeeper&) = delete;

  keystore::Engine* engine() const { return engine_; }
  const std::string& engine_name() const { return engine_name_; }
  core::Time Now() const { return clock_->Read().latest; }
  bool stopping() const { return stopping_; }

  // Begins `work`. An error, and nothing of it is called: FAILED_PRECONDITION by a server that was
  // started for anything else than `wanted`, ABORTED while another transfer is under way, CANCELLED
  // when stopping.
  absl::Status Start(TransferMode wanted, Work work) ABSL_LOCKS_EXCLUDED(mutex_);
  // What is under way ends soon; nothing more is begun.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status CheckMode(TransferMode wanted) const;
  void Do(Work work) ABSL_LOCKS_EXCLUDED(mutex_);

  keystore::Engine* const engine_;
  keystore::Clock* const clock_;
  const TransferMode mode_;
  const std::string engine_name_;
  std::atomic<bool> stopping_{false};
  absl::Mutex mutex_;
  // Of what is under way; unset: nothing is.
  std::function<void()> cancel_ ABSL_GUARDED_BY(mutex_);
  // Null once it has stopped. The last member: its thread uses the others.
  std::unique_ptr<Worker> worker_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_TRANSFER_KEEPER_H_
