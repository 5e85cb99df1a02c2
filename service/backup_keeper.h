// Takes backups of the open store, one at a time, on a thread of its own.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_SERVICE_BACKUP_KEEPER_H_
#define IDEMPOTENCY_SERVICE_BACKUP_KEEPER_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/backup_values.h"
#include "keystore/engine/engine.h"
#include "service/metrics.h"
#include "service/worker.h"

namespace idempotency::service {

class BackupKeeper {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<keystore::VerifiedBackup>) &&>;

  // Both must outlive it. `directory` empty: none are taken.
  BackupKeeper(keystore::Engine* engine, Metrics* metrics, std::string directory, size_t keep);
  // Gives up what is being taken.
  ~BackupKeeper() { Stop(); }
  BackupKeeper(const BackupKeeper&) = delete;
  BackupKeeper& operator=(const BackupKeeper&) = delete;

  // Begins one; `tell` and, once, `done` are called on the keeper's thread. An error, and neither
  // is called: FAILED_PRECONDITION where there is no directory, ABORTED while one is being taken,
  // CANCELLED when stopping.
  absl::Status Start(keystore::TellBackup tell, Done done) ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads files. Errors as keystore::ListBackups'.
  absl::StatusOr<std::vector<keystore::Backup>> List() const;
  // What is being taken ends soon, CANCELLED; nothing more is begun.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status CheckDirectory() const;
  absl::StatusOr<keystore::VerifiedBackup> Take(const keystore::TellBackup& tell);
  void TellNewest();

  keystore::Engine* const engine_;
  Metrics* const metrics_;
  const std::string directory_;
  const size_t keep_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> stopping_{false};
  absl::Mutex mutex_;
  // Null once it has stopped. The last member: its thread uses the others.
  std::unique_ptr<Worker> worker_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_BACKUP_KEEPER_H_
