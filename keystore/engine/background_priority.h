// Makes flushes and compactions give way to commits where both want the processor: their threads
// run at a lower priority (a higher nice value). They still get their share, so that they cannot
// fall behind for ever: without it, writes would stop once the memtables are full.
//
// Thread safety: RocksDB calls it on its own threads.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_BACKGROUND_PRIORITY_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_BACKGROUND_PRIORITY_H_

#include <rocksdb/listener.h>

namespace idempotency::keystore {

// Nice values above the process's own. With every processor busy, a thread of them gets about a
// third, and a tenth, of what one of those that answer gets.
inline constexpr int kFlushNice = 5;
inline constexpr int kCompactionNice = 10;

class BackgroundPriority final : public rocksdb::EventListener {
 public:
  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_BACKGROUND_PRIORITY_H_
