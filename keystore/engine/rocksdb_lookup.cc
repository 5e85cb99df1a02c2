#include "keystore/engine/rocksdb_lookup.h"

#include <rocksdb/options.h>
#include <rocksdb/snapshot.h>

namespace idempotency::keystore {

RocksDbLookup::RocksDbLookup(const RocksDbStore& store, const std::vector<std::string>& stored_keys,
                             size_t max_bytes)
    : values_(2 * stored_keys.size()), statuses_(2 * stored_keys.size()) {
  std::vector<rocksdb::Slice> slices;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  slices.reserve(values_.size());
  families.reserve(values_.size());
  for (const std::string& key : stored_keys) {
    for (const Family family : {Family::kOpen, Family::kFinished}) {
      slices.emplace_back(key);
      families.push_back(store.family(family));
    }
  }
  if (slices.empty()) return;
  // Both families as of one moment. RocksDB would find one by itself, but where it has to try
  // three times it lets go of the wrong version of a family (mended in 8.7, its change 11830). It
  // has to under load, and always after a run whose last write filled a memtable.
  rocksdb::ManagedSnapshot snapshot(&store.db());
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.snapshot();
  options.value_size_soft_limit = max_bytes;
  store.db().MultiGet(options, slices.size(), families.data(), slices.data(), values_.data(),
                      statuses_.data());
}

rocksdb::Status RocksDbLookup::status() const {
  for (const rocksdb::Status& status : statuses_) {
    const bool known = status.ok() || status.IsNotFound() || status.IsCorruption();
    if (!known && !status.IsAborted()) return status;
  }
  return rocksdb::Status::OK();
}

Find RocksDbLookup::At(size_t i) const {
  if (statuses_[i].IsNotFound()) return Find{};
  if (!statuses_[i].ok()) return Find{.kind = Find::Kind::kDamaged};
  return Find{.kind = Find::Kind::kBytes, .bytes = {values_[i].data(), values_[i].size()}};
}

}  // namespace idempotency::keystore
