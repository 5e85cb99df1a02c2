// A hostile disk as its callers share it: who judges their calls, what is not durable yet, and
// whose syncs are lies.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_TESTS_PROOF_CRASH_JUDGED_DISK_H_
#define IDEMPOTENCY_TESTS_PROOF_CRASH_JUDGED_DISK_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "tests/proof/crash/hostile_disk.h"
#include "tests/proof/crash/unsynced.h"

namespace idempotency::proof {

class JudgedDisk {
 public:
  explicit JudgedDisk(const std::string& graveyard) : unsynced_(graveyard) {}

  Unsynced& unsynced() { return unsynced_; }

  DiskVerdict Ask(DiskCall call, const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_) {
    DiskJudge judge;
    {
      absl::MutexLock lock(&mutex_);
      judge = judge_;
    }
    return judge ? judge(call, path) : DiskVerdict{};
  }
  void SetJudge(DiskJudge judge) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    judge_ = std::move(judge);
  }
  void LieAboutSyncs(const std::string& suffix) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    lie_ = suffix;
  }

  // Asks, and syncs the file as far as the verdict goes.
  rocksdb::IOStatus Sync(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_) {
    const DiskVerdict verdict = Ask(DiskCall::kSync, path);
    const bool done = verdict.status.ok() || verdict.half_done;
    if (done && !LiesAbout(path)) unsynced_.Synced(path);
    return verdict.status;
  }
  rocksdb::IOStatus SyncDirectory(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_) {
    const DiskVerdict verdict = Ask(DiskCall::kSyncDirectory, path);
    const bool done = verdict.status.ok() || verdict.half_done;
    if (done && !LiesAbout(path)) unsynced_.SyncedDirectory(path);
    return verdict.status;
  }

 private:
  bool LiesAbout(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return !lie_.empty() && absl::EndsWith(path, lie_);
  }

  Unsynced unsynced_;
  absl::Mutex mutex_;
  DiskJudge judge_ ABSL_GUARDED_BY(mutex_);
  std::string lie_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_CRASH_JUDGED_DISK_H_
