// Both families of a store as one row of stored keys in order, at one moment, so that a record
// that moves between them during a scan over several pages is still met.
//
// Thread safety: one caller. The store must outlive it.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_SCAN_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_SCAN_H_

#include <rocksdb/iterator.h>
#include <rocksdb/snapshot.h>

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "keystore/engine/rocksdb_store.h"
#include "keystore/engine/scan.h"
#include "keystore/engine/stored_value.h"

namespace idempotency::keystore {

class RocksDbScan final : public ScanSource {
 public:
  // open_only: leaves out the family `finished`.
  RocksDbScan(const RocksDbStore& store, bool open_only);

  void Seek(std::string_view target) override;
  void Next() override;
  bool Valid() const override;
  std::string_view key() const override;
  core::Stored Load(size_t* bytes) const override;

  // Why the scan ended before its time: DATA_LOSS or UNAVAILABLE.
  absl::Status status() const;

 private:
  std::unique_ptr<rocksdb::Iterator> NewIterator(Family family);

  const RocksDbStore& store_;
  rocksdb::ManagedSnapshot snapshot_;
  const std::unique_ptr<rocksdb::Iterator> open_;
  const std::unique_ptr<rocksdb::Iterator> finished_;  // null: left out
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_SCAN_H_
