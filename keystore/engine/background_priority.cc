#include "keystore/engine/background_priority.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace idempotency::keystore {
namespace {

// Linux has a nice value for each thread. One that cannot be set costs speed and nothing else.
void LowerThisThread(int by) {
  thread_local bool done = false;
  if (done) return;
  done = true;
  // A job in a thread of the process's own (a tool's, say) is what that thread is there for.
  if (gettid() == getpid()) return;
  const int own = getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), std::min(own + by, 19));
}

}  // namespace

void BackgroundPriority::OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  LowerThisThread(kFlushNice);
}

void BackgroundPriority::OnCompactionBegin(rocksdb::DB* db,
                                           const rocksdb::CompactionJobInfo& info) {
  LowerThisThread(kCompactionNice);
}

}  // namespace idempotency::keystore
