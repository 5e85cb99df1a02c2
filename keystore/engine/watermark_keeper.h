// Keeps the watermark of an open store up to date, beside the commits and never in their way:
// every kWatermarkInterval on a thread of its own, after every flush (before RocksDB removes the
// log that the flush has made needless), and when the store is closed. What is acknowledged and
// lost within the interval goes unnoticed, and nothing older.
//
// A watermark that cannot be written is logged, and written the next time. Where a later run has
// written its own, this process is no longer the only one (a volume that two hosts have mounted,
// where no lock holds): it ends the engine.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_WATERMARK_KEEPER_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_WATERMARK_KEEPER_H_

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/store_health.h"
#include "keystore/engine/token_ceiling.h"
#include "keystore/engine/watermark.h"

namespace idempotency::keystore {

class WatermarkKeeper final : public rocksdb::EventListener {
 public:
  // `file` must have been loaded.
  WatermarkKeeper(std::unique_ptr<WatermarkFile> file, LogFunction log)
      : file_(std::move(file)), log_(std::move(log)) {}
  // Writes nothing: RocksDB may be what lets go of it last.
  ~WatermarkKeeper() override;

  // The store is open and nobody writes to it yet: stores the watermark of `base`'s epoch, token
  // and lost_before with what the store is now. It must outlive Close.
  absl::Status Open(rocksdb::DB* db, Watermark base) ABSL_LOCKS_EXCLUDED(mutex_);

  // Goes on by itself from here. Both must outlive Close. Interval zero: after flushes only.
  void Start(StoreHealth* health, const TokenCeiling* tokens, core::Duration interval)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // As of now, unless the store is dead: what is written then may not be durable.
  absl::Status Sync() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, written also where it says nothing new: whether it can be. UNAVAILABLE where the
  // store is dead.
  absl::Status Probe() ABSL_LOCKS_EXCLUDED(mutex_);

  // The last one of this run; then nothing more is written.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void StopThread() ABSL_LOCKS_EXCLUDED(mutex_);
  void Run(core::Duration interval) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status StoreNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SyncLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckTheOnlyOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is durable by now, whichever log it is in. False: nobody knows any more.
  bool TakeSequence() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeManifest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Complain(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<WatermarkFile> file_ ABSL_PT_GUARDED_BY(mutex_);
  const LogFunction log_;
  std::thread thread_;

  absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool complained_ ABSL_GUARDED_BY(mutex_) = false;
  rocksdb::DB* db_ ABSL_GUARDED_BY(mutex_) = nullptr;
  StoreHealth* health_ ABSL_GUARDED_BY(mutex_) = nullptr;
  const TokenCeiling* tokens_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Watermark now_ ABSL_GUARDED_BY(mutex_);
  Watermark stored_ ABSL_GUARDED_BY(mutex_);
  // The log that was written to when it was last asked, and a number that no write before has
  // exceeded.
  uint64_t log_number_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t log_begin_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_WATERMARK_KEEPER_H_
