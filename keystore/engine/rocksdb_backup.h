// Takes a backup of a RocksDB that is open (backup.h).
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_BACKUP_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_BACKUP_H_

#include "absl/status/statusor.h"
#include "keystore/engine/backup.h"

namespace rocksdb {
class DB;
}

namespace idempotency::keystore {

// Flushes, copies what is not in the directory yet, reads every record of the copy back, and only
// then removes the backups that are no longer kept. A backup that was not read back to its end, or
// is damaged, is not kept itself. Errors as in backup.h.
absl::StatusOr<VerifiedBackup> TakeBackup(rocksdb::DB& db, const BackupFacts& facts,
                                          const BackupOptions& options, const EngineOptions& engine,
                                          const TellBackup& tell);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_BACKUP_H_
