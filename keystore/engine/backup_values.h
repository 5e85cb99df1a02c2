// What is said of backups (backup.h).
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_BACKUP_VALUES_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_BACKUP_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "keystore/core/time.h"

namespace idempotency::keystore {

// What RocksDB does not know of a backup.
struct BackupFacts {
  uint64_t epoch = 0;
  uint64_t token_ceiling = 1;
  core::Time made;

  friend bool operator==(const BackupFacts&, const BackupFacts&) = default;
};

struct Backup {
  uint32_t id = 0;  // rises from 1
  BackupFacts facts;
  uint64_t bytes = 0;  // of its files, those that it shares with others included
  uint32_t files = 0;
};

// How many records a backup holds, by the state that they are stored in.
struct BackupContents {
  uint64_t pending = 0;
  uint64_t unresolved = 0;
  uint64_t complete = 0;
  uint64_t expired = 0;
  uint64_t freed = 0;
  // Of all these: those whose response cannot be opened, for its key is not here.
  uint64_t key_missing = 0;
  // In none of these: damaged.
  uint64_t unreadable = 0;

  uint64_t records() const { return pending + unresolved + complete + expired + freed; }
};

enum class BackupStage : uint8_t { kCopying, kVerifying, kRestoring };

struct BackupProgress {
  BackupStage stage = BackupStage::kCopying;
  uint64_t bytes = 0;            // copied so far
  uint64_t records = 0;          // looked at so far
  uint64_t estimated_bytes = 0;  // roughly how many there are at most; shared ones are not copied
  uint64_t estimated_records = 0;
};
// Called on the thread that does the work. Must not block for long.
using TellBackup = std::function<void(const BackupProgress&)>;

struct BackupOptions {
  std::string directory;  // made if its parent exists
  // How many are kept, the newest, once the new one is whole; at least 1.
  size_t keep = 7;
  // Asked now and then, from any thread: whether to give up.
  std::function<bool()> stopped = [] { return false; };
};

struct VerifiedBackup {
  Backup backup;
  BackupContents contents;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_BACKUP_VALUES_H_
