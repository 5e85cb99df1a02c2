// A RocksDB of ours, open: its families, what format it says it has, and how it is closed.
//
// Thread safety: immutable once open; RocksDB itself may be used from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STORE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STORE_H_

#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/wal_filter.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/engine/log_ahead.h"
#include "keystore/engine/rocksdb_options.h"
#include "keystore/engine/stored_value.h"

namespace idempotency::keystore {

// The key of the default family that holds the format of all the others, in decimal: 2 once a
// record may have been sealed, which versions that know only 1 could not read.
inline constexpr char kFormatVersionKey[] = "format_version";
inline constexpr int kPlainFormatVersion = 1;
inline constexpr int kSealedFormatVersion = 2;
// The key of the default family that names the keys that records may be sealed with: their ids,
// with a space between each two.
inline constexpr char kKeyIdsKey[] = "key_ids";

// How an existing store is opened; the default is what a crash asks for.
struct Recovery {
  // Replay the log up to the first damage or hole, and forget the rest.
  bool cut_at_damage = false;
  // Told of flushes, besides the listener of the tuning; may be null.
  std::shared_ptr<rocksdb::EventListener> flushes;
};

class RocksDbStore {
 public:
  // FAILED_PRECONDITION where there is another RocksDB at `path`, or one of a newer version.
  // Changes nothing.
  static absl::Status CheckIsOurs(const std::string& path, const StoreTuning& tuning);

  // Opens the store at `path`; where `create`, also makes it, or goes on making it.
  // FAILED_PRECONDITION where it is not one of ours or made by a newer version, or where a key is
  // missing that records may be sealed with; DATA_LOSS where it is damaged, UNAVAILABLE for I/O
  // errors.
  static absl::StatusOr<std::unique_ptr<RocksDbStore>> Open(const std::string& path, bool create,
                                                            const StoreTuning& tuning,
                                                            const Recovery& recovery = {});
  // Closes it; call Flush first where the next opening should be quick.
  ~RocksDbStore();
  RocksDbStore(const RocksDbStore&) = delete;
  RocksDbStore& operator=(const RocksDbStore&) = delete;

  rocksdb::DB& db() const { return *db_; }
  rocksdb::ColumnFamilyHandle* family(Family family) const;
  const RecordSealer& sealer() const { return *sealer_; }

  // What records may be sealed with, as the store says.
  absl::StatusOr<std::vector<std::string>> KeyIds() const;
  // Durable when it returns. To be called before the first record is sealed with a key, and with
  // less only when none is any more.
  absl::Status SetKeyIds(const std::vector<std::string>& ids) const;

  // Writes the memtables to files, so that no WAL has to be replayed.
  rocksdb::Status Flush() const;

 private:
  RocksDbStore(std::unique_ptr<LogAhead> log_ahead, std::unique_ptr<rocksdb::WalFilter> replay,
               std::unique_ptr<rocksdb::DB> db, std::vector<rocksdb::ColumnFamilyHandle*> handles,
               std::shared_ptr<const RecordSealer> sealer)
      : log_ahead_(std::move(log_ahead)),
        replay_(std::move(replay)),
        db_(std::move(db)),
        handles_(std::move(handles)),
        sealer_(std::move(sealer)) {}

  absl::Status CheckFormat(bool create) const;
  absl::Status CheckKeys(const std::vector<std::string>& lost_keys) const;
  absl::Status PutMeta(const char* key, const std::string& value) const;

  // RocksDB keeps a pointer to each; they may be null.
  const std::unique_ptr<LogAhead> log_ahead_;
  const std::unique_ptr<rocksdb::WalFilter> replay_;
  const std::unique_ptr<rocksdb::DB> db_;
  // Owned, as RocksDB wants it: given back before the database is closed.
  const std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  const std::shared_ptr<const RecordSealer> sealer_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STORE_H_
