// Backups of a store: each is all of it at one moment, taken while it is in use. They are kept
// beside each other in one directory and share the tables that have not changed between them.
//
// What RocksDB does not know of a backup is kept with it, as text:
//
//   idempotency backup 1
//   epoch 3                  the run that took it
//   token_ceiling 3145729    no fencing token at or above was given when it was begun
//   made 1800000000000       when it was begun, by the guarded clock, in ms
//
// A backup is older than what it was taken of, and nothing in it says what has happened since. So
// restoring is accepting a loss (accepted_loss.h): what the backup has as PENDING becomes
// unresolved, what was begun before the restore and is unknown is TOO_OLD, and the next fencing
// token is above any that can have been given meanwhile.
//
// Thread safety: one call at a time may write to a directory of backups.
// Errors: INVALID_ARGUMENT, NOT_FOUND for a backup that is not there, FAILED_PRECONDITION where
// the directory is not fit, DATA_LOSS where a backup is damaged, CANCELLED where it was stopped,
// UNAVAILABLE for I/O errors. The message says what to do next.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_BACKUP_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_BACKUP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/engine/backup_values.h"
#include "keystore/engine/open_engine.h"

namespace idempotency::keystore {

// By which a restore raises the ceiling of fencing tokens above the backup's: more than are given
// in four months at 100,000 a second. There are 2^53 of them.
inline constexpr uint64_t kTokensSkippedByRestore = uint64_t{1} << 40;

std::string EncodeBackupFacts(const BackupFacts& facts);
// nullopt for anything but exactly what EncodeBackupFacts makes.
std::optional<BackupFacts> DecodeBackupFacts(std::string_view text);

// All that can be read, the oldest first; none where the directory has none.
absl::StatusOr<std::vector<Backup>> ListBackups(const std::string& directory);

// Reads every file of a backup and compares its checksum, opens the copy and reads every record
// of it. `id` 0: the newest. `options` as for OpenEngine; its data_dir is not used. DATA_LOSS
// where anything is damaged, records included.
absl::StatusOr<VerifiedBackup> VerifyBackup(const std::string& directory, uint32_t id,
                                            const EngineOptions& options, const TellBackup& tell);

// Adds what belongs to a store and is no engine's to its directory.
using CompleteStore = std::function<absl::Status(const std::string& store, const BackupFacts&)>;

// Makes the store options.data_dir out of a backup, and verifies it. Nothing may be there yet but
// an empty directory, and whatever goes wrong, or ends the process, leaves that so: the copy is
// made and completed in `data_dir`.restoring, and gets its name at the end. The service can be
// started on it afterwards as if it had stopped cleanly.
absl::StatusOr<VerifiedBackup> RestoreBackup(const std::string& directory, uint32_t id,
                                             const EngineOptions& options, const TellBackup& tell,
                                             const CompleteStore& complete);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_BACKUP_H_
