#include "keystore/engine/watermark_keeper.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "keystore/engine/rocksdb_status.h"

namespace idempotency::keystore {
namespace {

constexpr std::string_view kManifestPrefix = "/MANIFEST-";

// The log that is being written to; 0 where RocksDB does not say.
uint64_t CurrentLog(rocksdb::DB& db) {
  std::unique_ptr<rocksdb::LogFile> file;
  return db.GetCurrentWalFile(&file).ok() && file != nullptr ? file->LogNumber() : 0;
}

}  // namespace

WatermarkKeeper::~WatermarkKeeper() { StopThread(); }

absl::Status WatermarkKeeper::Open(rocksdb::DB* db, Watermark base) {
  absl::MutexLock lock(&mutex_);
  db_ = db;
  now_ = std::move(base);
  if (const rocksdb::Status status = db->GetDbIdentity(now_.store_id); !status.ok()) {
    return ToStatus(status, "cannot read the identity of the store");
  }
  // What was in the logs is in files by now.
  now_.wal_last = 0;
  log_number_ = CurrentLog(*db);
  log_begin_ = now_.sequence = db->GetLatestSequenceNumber();
  now_.manifest = ManifestMark{};
  TakeManifest();
  if (now_.manifest.name.empty()) {
    return absl::UnavailableError(absl::StrCat("cannot read the manifest of ", db->GetName()));
  }
  if (absl::Status status = file_->Store(now_); !status.ok()) return status;
  stored_ = now_;
  return absl::OkStatus();
}

void WatermarkKeeper::Start(StoreHealth* health, const TokenCeiling* tokens,
                            core::Duration interval) {
  {
    absl::MutexLock lock(&mutex_);
    health_ = health;
    tokens_ = tokens;
  }
  if (interval > core::Duration::zero()) thread_ = std::thread([this, interval] { Run(interval); });
}

void WatermarkKeeper::Run(core::Duration interval) {
  absl::MutexLock lock(&mutex_);
  while (
      !mutex_.AwaitWithTimeout(absl::Condition(&closing_), absl::Milliseconds(interval.count()))) {
    Complain(SyncLocked());
  }
}

absl::Status WatermarkKeeper::Sync() {
  absl::MutexLock lock(&mutex_);
  return SyncLocked();
}

void WatermarkKeeper::StopThread() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void WatermarkKeeper::Close() {
  StopThread();
  absl::MutexLock lock(&mutex_);
  Complain(SyncLocked());
  db_ = nullptr;
}

void WatermarkKeeper::OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& /*info*/) {
  absl::MutexLock lock(&mutex_);
  if (db_ == nullptr) return;
  // Behind the edit that this flush has made the log is not needed any more, and is about to go.
  TakeManifest();
  Complain(SyncLocked());
}

absl::Status WatermarkKeeper::SyncLocked() {
  if (db_ == nullptr || !TakeSequence() || now_ == stored_) return absl::OkStatus();
  return StoreNow();
}

absl::Status WatermarkKeeper::Probe() {
  absl::MutexLock lock(&mutex_);
  if (db_ == nullptr || !TakeSequence()) {
    return absl::UnavailableError("a store that has died stores none");
  }
  return StoreNow();
}

absl::Status WatermarkKeeper::StoreNow() {
  if (absl::Status status = CheckTheOnlyOne(); !status.ok()) return status;
  if (absl::Status status = file_->Store(now_); !status.ok()) return status;
  stored_ = now_;
  return absl::OkStatus();
}

absl::Status WatermarkKeeper::CheckTheOnlyOne() {
  const uint64_t newest = file_->NewestEpoch();
  if (newest <= now_.epoch) return absl::OkStatus();
  const std::string why = absl::StrCat("run ", newest, " has opened the store that run ",
                                       now_.epoch, " writes to; only one may have the volume");
  health_->Die(why);
  return absl::FailedPreconditionError(why);
}

bool WatermarkKeeper::TakeSequence() {
  const uint64_t sequence = db_->GetLatestSequenceNumber();
  // Asked afterwards: a write that fails is counted by RocksDB, but not before it has been said
  // that the store is dead.
  if (health_ == nullptr || !health_->alive()) return false;
  const uint64_t token = tokens_->floor() - 1;
  uint64_t oldest_needed = 0;
  db_->GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &oldest_needed);
  const uint64_t log = CurrentLog(*db_);
  if (log != 0 && log == log_number_) {
    // The same log before and after: all writes in between are in it.
    if (sequence > log_begin_) now_.wal_last = log;
  } else if (log != 0) {
    log_number_ = log;
    log_begin_ = db_->GetLatestSequenceNumber();
  }
  if (now_.wal_last < oldest_needed) now_.wal_last = 0;
  now_.sequence = sequence;
  now_.token = std::max(now_.token, token);
  return true;
}

void WatermarkKeeper::TakeManifest() {
  std::vector<std::string> files;
  uint64_t bytes = 0;
  if (!db_->GetLiveFiles(files, &bytes, false).ok()) return;
  const auto name = std::find_if(files.begin(), files.end(), [](const std::string& file) {
    return file.substr(0, kManifestPrefix.size()) == kManifestPrefix;
  });
  if (name == files.end()) return;
  const auto mark = MarkManifest(db_->GetName(), name->substr(1), bytes, now_.manifest);
  if (mark.has_value()) now_.manifest = *mark;
}

void WatermarkKeeper::Complain(const absl::Status& status) {
  if (status.ok()) {
    complained_ = false;
    return;
  }
  if (std::exchange(complained_, true)) return;
  log_(kLogWarning, absl::StrCat("the watermark is not kept: ", std::string(status.message())));
}

}  // namespace idempotency::keystore
