// A RocksDB of ours, open: its families, what format it says it has, and how it is closed.
//
// Thread safety: immutable once open; RocksDB itself may be used from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STORE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STORE_H_

#include <rocksdb/db.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/engine/rocksdb_options.h"
#include "keystore/engine/stored_value.h"

namespace idempotency::keystore {

// The key of the default family that holds the format of all the others, in decimal.
inline constexpr char kFormatVersionKey[] = "format_version";
inline constexpr int kFormatVersion = 1;

class RocksDbStore {
 public:
  // Opens the store at `path`; where `create`, also makes it, or goes on making it.
  // FAILED_PRECONDITION where it is not one of ours or made by a newer version, DATA_LOSS where
  // it is damaged, UNAVAILABLE for I/O errors.
  static absl::StatusOr<std::unique_ptr<RocksDbStore>> Open(const std::string& path, bool create,
                                                            const StoreTuning& tuning);
  // Closes it; call Flush first where the next opening should be quick.
  ~RocksDbStore();
  RocksDbStore(const RocksDbStore&) = delete;
  RocksDbStore& operator=(const RocksDbStore&) = delete;

  rocksdb::DB& db() const { return *db_; }
  rocksdb::ColumnFamilyHandle* family(Family family) const;

  // Writes the memtables to files, so that no WAL has to be replayed.
  rocksdb::Status Flush() const;

 private:
  RocksDbStore(std::unique_ptr<rocksdb::DB> db, std::vector<rocksdb::ColumnFamilyHandle*> handles)
      : db_(std::move(db)), handles_(std::move(handles)) {}

  absl::Status CheckFormat(bool create) const;

  const std::unique_ptr<rocksdb::DB> db_;
  // Owned, as RocksDB wants it: given back before the database is closed.
  const std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_STORE_H_
