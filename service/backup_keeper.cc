#include "service/backup_keeper.h"

#include <utility>

#include "keystore/engine/backup.h"

namespace idempotency::service {

BackupKeeper::BackupKeeper(keystore::Engine* engine, Metrics* metrics, std::string directory,
                           size_t keep)
    : engine_(engine),
      metrics_(metrics),
      directory_(std::move(directory)),
      keep_(keep),
      // A look at what is kept, and a backup.
      worker_(std::make_unique<Worker>(/*max_queued=*/2)) {
  if (!directory_.empty()) (void)worker_->Run([this] { TellNewest(); });
}

// How old the newest is counts from earlier runs, too.
void BackupKeeper::TellNewest() {
  const auto list = keystore::ListBackups(directory_);
  if (!list.ok() || list->empty()) return;
  metrics_->OnNewestBackup(list->back().facts.made, list->back().bytes);
}

absl::StatusOr<keystore::VerifiedBackup> BackupKeeper::Take(const keystore::TellBackup& tell) {
  keystore::BackupOptions options;
  options.directory = directory_;
  options.keep = keep_;
  options.stopped = [this] { return stopping_.load(); };
  absl::StatusOr<keystore::VerifiedBackup> taken = engine_->BackUp(options, tell);
  metrics_->OnBackup(taken.ok());
  if (taken.ok()) metrics_->OnNewestBackup(taken->backup.facts.made, taken->backup.bytes);
  return taken;
}

absl::Status BackupKeeper::CheckDirectory() const {
  if (!directory_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this server takes no backups; start it with --backup_dir=DIRECTORY, on another volume than "
      "the store's");
}

absl::Status BackupKeeper::Start(keystore::TellBackup tell, Done done) {
  if (absl::Status status = CheckDirectory(); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  if (worker_ == nullptr) {
    return absl::CancelledError("the server is stopping; ask again when it is back");
  }
  if (busy_.exchange(true)) {
    return absl::AbortedError("a backup is being taken already; wait for its end");
  }
  const bool queued =
      worker_->Run([this, tell = std::move(tell), done = std::move(done)]() mutable {
        absl::StatusOr<keystore::VerifiedBackup> backup = Take(tell);
        // Whoever hears of the end may begin the next.
        busy_ = false;
        std::move(done)(std::move(backup));
      });
  if (queued) return absl::OkStatus();
  busy_ = false;
  return absl::AbortedError("a backup is being taken already; wait for its end");
}

absl::StatusOr<std::vector<keystore::Backup>> BackupKeeper::List() const {
  if (absl::Status status = CheckDirectory(); !status.ok()) return status;
  return keystore::ListBackups(directory_);
}

void BackupKeeper::Stop() {
  stopping_ = true;
  std::unique_ptr<Worker> worker;
  {
    absl::MutexLock lock(&mutex_);
    worker = std::move(worker_);
  }
  // Waits for its thread, without the lock.
}

}  // namespace idempotency::service
