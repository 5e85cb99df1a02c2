#include "keystore/engine/accepted_loss.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/loss.h"
#include "keystore/engine/durable_file.h"
#include "keystore/engine/rocksdb_lookup.h"
#include "keystore/engine/rocksdb_scan.h"
#include "keystore/engine/rocksdb_status.h"
#include "keystore/engine/scan.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kPage = 1000;

// Writes what becomes of those of the keys that are pending; returns how many.
absl::StatusOr<size_t> MakeUnresolved(const RocksDbStore& store,
                                      const std::vector<std::string>& keys, const core::Now& now) {
  // Not as the scan saw them: what is left of a finished record may be newer.
  const RocksDbLookup lookup(store, keys);
  if (!lookup.status().ok()) return ToStatus(lookup.status(), "cannot read the store");
  // Every commit adds at least one to RocksDB's own count.
  const uint64_t commit_number = store.db().GetLatestSequenceNumber() + 1;
  rocksdb::WriteBatch batch;
  for (size_t i = 0; i < keys.size(); ++i) {
    const Place place{store.sealer(), keys[i]};
    core::Stored stored = Combine(place, lookup.open(i), lookup.finished(i)).stored;
    auto* record = std::get_if<core::Record>(&stored);
    if (record == nullptr || record->state != core::State::kPending) continue;
    std::string value;
    if (!EncodeValue(place, commit_number, core::AfterLoss(std::move(*record), now), &value)) {
      return absl::InternalError("a record could not be sealed");
    }
    const rocksdb::Status status = batch.Put(store.family(Family::kOpen), keys[i], value);
    if (!status.ok()) return ToStatus(status, "cannot fill a batch");
  }
  if (batch.Count() == 0) return size_t{0};
  const rocksdb::Status written = store.db().Write(MakeWriteOptions(), &batch);
  if (!written.ok()) return ToStatus(written, "cannot make pending operations unresolved");
  return static_cast<size_t>(batch.Count());
}

}  // namespace

absl::StatusOr<size_t> MakePendingUnresolved(const RocksDbStore& store, const core::Now& now) {
  size_t changed = 0;
  std::string resume;
  do {
    const absl::StatusOr<ScanRange> range = ScanRange::Make({.open_only = true}, resume);
    if (!range.ok()) return range.status();
    RocksDbScan source(store, true);
    ScanResult page = RunScan(*range, kPage, source);
    if (absl::Status status = source.status(); !status.ok()) return status;
    std::vector<std::string> keys;
    std::transform(page.entries.begin(), page.entries.end(), std::back_inserter(keys),
                   [](const ScanEntry& entry) { return EncodeKey(entry.key); });
    const absl::StatusOr<size_t> some = MakeUnresolved(store, keys, now);
    if (!some.ok()) return some.status();
    changed += *some;
    resume = std::move(page.resume_key);
  } while (!resume.empty());
  return changed;
}

absl::Status SetAside(const std::string& db_path, uint64_t run) {
  const std::string aside = absl::StrCat(db_path, ".lost-", run);
  if (std::rename(db_path.c_str(), aside.c_str()) != 0) {
    return errno == ENOENT ? absl::OkStatus() : FileError("cannot set aside", db_path);
  }
  return SyncDirectory(std::filesystem::path(db_path).parent_path().string());
}

}  // namespace idempotency::keystore
