#include "keystore/engine/rocksdb_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "keystore/engine/durable_file.h"
#include "keystore/engine/needed_keys.h"
#include "keystore/engine/rocksdb_status.h"
#include "keystore/engine/wal_reader.h"

namespace idempotency::keystore {
namespace {

// Where the families are in MakeFamilies.
constexpr size_t kOpenIndex = 1;
constexpr size_t kFinishedIndex = 2;

absl::Status NotOurs(const std::string& path, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is not a store that this version can use: ", why,
                   "; name another data_dir, or run the version that made it"));
}

// Before opening, so that somebody else's store is not touched.
absl::Status CheckFamilies(const std::string& path, const rocksdb::DBOptions& options,
                           const std::vector<rocksdb::ColumnFamilyDescriptor>& ours) {
  std::vector<std::string> names;
  const rocksdb::Status status = rocksdb::DB::ListColumnFamilies(options, path, &names);
  if (!status.ok()) return ToStatus(status, absl::StrCat("cannot read the manifest of ", path));
  for (const std::string& name : names) {
    if (std::none_of(ours.begin(), ours.end(),
                     [&name](const auto& family) { return family.name == name; })) {
      return NotOurs(path, absl::StrCat("it has a family ", name));
    }
  }
  if (names.size() < ours.size()) return NotOurs(path, "a family is missing");
  return absl::OkStatus();
}

// RocksDB would make it, too, and log an error first.
absl::Status MakeDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return FileError("cannot create", path);
}

// null: none is wanted.
std::unique_ptr<LogAhead> MakeLogAhead(const StoreTuning& tuning) {
  if (tuning.log_ahead.bytes < kMinLogAheadBytes) return nullptr;
  rocksdb::Env* const below = tuning.env != nullptr ? tuning.env : rocksdb::Env::Default();
  return std::make_unique<LogAhead>(below, tuning.log_ahead);
}

}  // namespace

absl::Status RocksDbStore::CheckIsOurs(const std::string& path, const StoreTuning& tuning) {
  return CheckFamilies(path, MakeDbOptions(tuning), MakeFamilies(tuning));
}

absl::StatusOr<std::unique_ptr<RocksDbStore>> RocksDbStore::Open(const std::string& path,
                                                                 bool create,
                                                                 const StoreTuning& tuning,
                                                                 const Recovery& recovery) {
  rocksdb::DBOptions options = MakeDbOptions(tuning);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = MakeFamilies(tuning);
  options.create_if_missing = create;
  options.create_missing_column_families = create;
  // Its identity is as safe as all else then: the file IDENTITY may be lost or copied.
  options.write_dbid_to_manifest = true;
  if (recovery.flushes != nullptr) options.listeners.push_back(recovery.flushes);
  std::unique_ptr<rocksdb::WalFilter> replay;
  if (recovery.cut_at_damage) {
    replay = std::make_unique<WalReader>(path, WalReader::Mode::kReplay);
    options.wal_filter = replay.get();
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  }
  absl::Status ready = create ? MakeDirectory(path) : CheckFamilies(path, options, families);
  if (!ready.ok()) return ready;
  std::unique_ptr<LogAhead> log_ahead = MakeLogAhead(tuning);
  if (log_ahead != nullptr) options.env = log_ahead->env();
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::Status opened = rocksdb::DB::Open(options, path, families, &handles, &db);
  if (!opened.ok()) {
    return ToStatus(opened, absl::StrCat("cannot open the store ", path,
                                         "; keep a copy of it before any attempt at repair"));
  }
  std::unique_ptr<RocksDbStore> store(new RocksDbStore(std::move(log_ahead), std::move(replay),
                                                       std::unique_ptr<rocksdb::DB>(db),
                                                       std::move(handles), tuning.sealer));
  if (absl::Status status = store->CheckFormat(create); !status.ok()) return status;
  if (absl::Status status = store->CheckKeys(tuning.lost_keys); !status.ok()) return status;
  return store;
}

RocksDbStore::~RocksDbStore() {
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  // Everything that was acknowledged is in the WAL.
  db_->Close().PermitUncheckedError();
}

rocksdb::ColumnFamilyHandle* RocksDbStore::family(Family family) const {
  return handles_[family == Family::kOpen ? kOpenIndex : kFinishedIndex];
}

rocksdb::Status RocksDbStore::Flush() const {
  rocksdb::FlushOptions options;
  // Rather hold up writes than wait for compaction: there are none any more.
  options.allow_write_stall = true;
  return db_->Flush(options, handles_);
}

absl::Status RocksDbStore::CheckFormat(bool create) const {
  std::string text;
  const rocksdb::Status got = db_->Get(rocksdb::ReadOptions(), kFormatVersionKey, &text);
  if (got.IsNotFound() && create) {
    return PutMeta(kFormatVersionKey, std::to_string(kPlainFormatVersion));
  }
  if (got.IsNotFound()) return NotOurs(db_->GetName(), "it does not say its format");
  if (!got.ok()) return ToStatus(got, "cannot read the format of the store");
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version < 1) {
    return absl::DataLossError(
        absl::StrCat(db_->GetName(), ": its format version cannot be read; restore a backup"));
  }
  if (version <= kSealedFormatVersion) return absl::OkStatus();
  return NotOurs(db_->GetName(), absl::StrCat("its format is ", version,
                                              ", and this version reads ", kSealedFormatVersion));
}

absl::Status RocksDbStore::PutMeta(const char* key, const std::string& value) const {
  rocksdb::WriteOptions write;
  write.sync = true;
  rocksdb::Status put = db_->Put(write, key, value);
  // Out of the WAL, which it would otherwise hold back.
  if (put.ok()) put = db_->Flush(rocksdb::FlushOptions());
  return ToStatus(put, absl::StrCat("cannot write ", key, " to the store"));
}

absl::StatusOr<std::vector<std::string>> RocksDbStore::KeyIds() const {
  std::string text;
  const rocksdb::Status got = db_->Get(rocksdb::ReadOptions(), kKeyIdsKey, &text);
  if (got.IsNotFound()) return std::vector<std::string>();
  if (!got.ok()) return ToStatus(got, "cannot read which keys the store needs");
  return std::vector<std::string>(absl::StrSplit(text, ' ', absl::SkipEmpty()));
}

absl::Status RocksDbStore::SetKeyIds(const std::vector<std::string>& ids) const {
  // First what keeps out a version that cannot read what follows.
  if (!ids.empty()) {
    absl::Status status = PutMeta(kFormatVersionKey, std::to_string(kSealedFormatVersion));
    if (!status.ok()) return status;
  }
  return PutMeta(kKeyIdsKey, absl::StrJoin(ids, " "));
}

absl::Status RocksDbStore::CheckKeys(const std::vector<std::string>& lost_keys) const {
  absl::StatusOr<std::vector<std::string>> ids = KeyIds();
  if (!ids.ok()) return ids.status();
  const auto missing = CheckNeededKeys(db_->GetName(), *ids, sealer_->keys(), lost_keys);
  if (!missing.ok()) return missing.status();
  if (!missing->has_value()) return absl::OkStatus();
  ids->push_back(**missing);
  return SetKeyIds(*ids);
}

}  // namespace idempotency::keystore
