#include "service/transfer_keeper.h"

#include <utility>

namespace idempotency::service {
namespace {

absl::Status Busy() {
  return absl::AbortedError("records are being moved already; wait for the end of that");
}

}  // namespace

TransferKeeper::TransferKeeper(keystore::Engine* engine, keystore::Clock* clock, TransferMode mode,
                               std::string engine_name)
    : engine_(engine),
      clock_(clock),
      mode_(mode),
      engine_name_(std::move(engine_name)),
      // The end of one may still run when the next is begun.
      worker_(std::make_unique<Worker>(/*max_queued=*/2)) {}

absl::Status TransferKeeper::CheckMode(TransferMode wanted) const {
  if (mode_ == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(
      wanted == TransferMode::kExport
          ? "this server's records may change while they are read; stop every server of the store, "
            "and start one with --transfer=export"
          : "this server answers from its store, or hands it over; stop every server of the store, "
            "and start one with --transfer=import");
}

absl::Status TransferKeeper::Start(TransferMode wanted, Work work) {
  if (absl::Status status = CheckMode(wanted); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  if (worker_ == nullptr) {
    return absl::CancelledError("the server is stopping; ask again when it is back");
  }
  if (cancel_) return Busy();
  cancel_ = work.cancel;
  if (worker_->Run([this, work = std::move(work)]() mutable { Do(std::move(work)); })) {
    return absl::OkStatus();
  }
  cancel_ = nullptr;
  return Busy();
}

void TransferKeeper::Do(Work work) {
  absl::Status status = absl::CancelledError("the server is stopping; run this again");
  if (!stopping_) status = std::move(work.run)();
  {
    absl::MutexLock lock(&mutex_);
    cancel_ = nullptr;
  }
  std::move(work.end)(std::move(status));
}

void TransferKeeper::Stop() {
  stopping_ = true;
  std::unique_ptr<Worker> worker;
  {
    absl::MutexLock lock(&mutex_);
    if (cancel_) cancel_();
    worker = std::move(worker_);
  }
  // Waits for its thread, without the lock.
}

}  // namespace idempotency::service
