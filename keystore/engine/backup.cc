#include "keystore/engine/backup.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/backup_engine.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "keystore/core/limits.h"
#include "keystore/core/record.h"
#include "keystore/engine/checked_text.h"
#include "keystore/engine/durable_file.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/epoch_files.h"
#include "keystore/engine/read_meter.h"
#include "keystore/engine/record_sealer.h"
#include "keystore/engine/rocksdb_backup.h"
#include "keystore/engine/rocksdb_engine.h"
#include "keystore/engine/rocksdb_logger.h"
#include "keystore/engine/rocksdb_options.h"
#include "keystore/engine/rocksdb_status.h"
#include "keystore/engine/stored_value.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHead = "idempotency backup 1\nepoch ";
constexpr std::string_view kCeiling = "\ntoken_ceiling ";
constexpr std::string_view kMade = "\nmade ";

// How often progress is told and stopping is asked for.
constexpr uint64_t kBytesTold = uint64_t{4} << 20;
constexpr uint64_t kRecordsTold = 10'000;
// Files are read back and restored without a word for each piece: a hundred for all of it.
constexpr uint64_t kTimesTold = 100;

std::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

rocksdb::BackupEngineOptions EngineOptionsOf(const std::string& directory,
                                             rocksdb::Logger* info_log) {
  // RocksDB opens a backup by an absolute path alone.
  std::error_code error;
  rocksdb::BackupEngineOptions options(fs::absolute(directory, error).string());
  options.info_log = info_log;
  // A backup counts once it is on the disk.
  options.sync = true;
  options.callback_trigger_interval_size = kBytesTold;
  return options;
}

std::optional<Backup> FromInfo(const rocksdb::BackupInfo& info) {
  const std::optional<BackupFacts> facts = DecodeBackupFacts(info.app_metadata);
  if (!facts.has_value()) return std::nullopt;
  return Backup{
      .id = info.backup_id, .facts = *facts, .bytes = info.size, .files = info.number_files};
}

absl::Status CheckDirectory(const std::string& directory) {
  if (directory.empty()) {
    return absl::InvalidArgumentError("no directory of backups is named; set --backup_dir");
  }
  std::error_code error;
  if (fs::is_directory(directory, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("backup_dir ", directory, " is not a directory; name the one with the backups"));
}

// `meter` counts what verifying and restoring read; null: nobody asks.
absl::StatusOr<std::unique_ptr<rocksdb::BackupEngineReadOnly>> OpenToRead(
    const std::string& directory, const std::shared_ptr<ReadMeter>& meter) {
  if (absl::Status status = CheckDirectory(directory); !status.ok()) return status;
  rocksdb::BackupEngineOptions options = EngineOptionsOf(directory, nullptr);
  options.backup_rate_limiter = meter;
  options.restore_rate_limiter = meter;
  rocksdb::BackupEngineReadOnly* raw = nullptr;
  const rocksdb::IOStatus opened =
      rocksdb::BackupEngineReadOnly::Open(options, rocksdb::Env::Default(), &raw);
  if (!opened.ok()) {
    return ToStatus(opened, absl::StrCat("cannot read the backups in ", directory));
  }
  return std::unique_ptr<rocksdb::BackupEngineReadOnly>(raw);
}

// From here on the bytes that are read are those of this stage.
void BeginStage(BackupStage stage, const rocksdb::BackupInfo& info, const TellBackup& tell,
                ReadMeter& meter) {
  const uint64_t size = info.size;
  tell(BackupProgress{.stage = stage, .estimated_bytes = size});
  meter.Begin(size / kTimesTold + 1, [stage, size, tell](uint64_t bytes) {
    tell(BackupProgress{.stage = stage, .bytes = std::min(bytes, size), .estimated_bytes = size});
  });
}

// The backup of this id, or the newest.
absl::StatusOr<rocksdb::BackupInfo> FindBackup(const rocksdb::BackupEngineReadOnlyBase& backups,
                                               const std::string& directory, uint32_t id) {
  rocksdb::BackupInfo info;
  const rocksdb::Status found =
      id == 0 ? backups.GetLatestBackupInfo(&info, /*include_file_details=*/true)
              : backups.GetBackupInfo(id, &info, /*include_file_details=*/true);
  if (found.ok() && FromInfo(info).has_value()) return info;
  const std::string name = id == 0 ? "no backup" : absl::StrCat("no backup ", id);
  if (found.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("backup ", info.backup_id, " in ", directory,
                     " is not one of ours; name the directory that idempotencyd backs up to"));
  }
  if (found.IsNotFound()) {
    return absl::NotFoundError(
        absl::StrCat("there is ", name, " in ", directory, "; list them, and choose one"));
  }
  return ToStatus(found, absl::StrCat("cannot read backup ", id, " in ", directory));
}

using Stopped = std::function<bool()>;

absl::Status StoppedError() {
  return absl::CancelledError("the backup was stopped; nothing of it is kept");
}

// --- Reading every record ------------------------------------------------------------------------

void Count(const core::Record& record, BackupContents& contents) {
  switch (record.state) {
    case core::State::kPending:
      ++contents.pending;
      return;
    case core::State::kUnresolved:
      ++contents.unresolved;
      return;
    case core::State::kComplete:
      ++contents.complete;
      return;
    case core::State::kExpired:
      ++contents.expired;
      return;
    case core::State::kFreed:
      ++contents.freed;
      return;
  }
}

// A copy of a store, open to be read and never written to.
class CopyReader {
 public:
  static absl::StatusOr<std::unique_ptr<CopyReader>> Open(const rocksdb::BackupInfo& copy,
                                                          const EngineOptions& engine) {
    absl::StatusOr<std::shared_ptr<const RecordSealer>> sealer = LoadSealer(engine);
    if (!sealer.ok()) return sealer.status();
    const StoreTuning tuning{.block_cache_bytes = engine.block_cache_bytes,
                             .memtable_bytes = engine.memtable_bytes,
                             .sealer = *std::move(sealer)};
    rocksdb::DBOptions options = MakeDbOptions(tuning);
    options.listeners.clear();
    options.env = copy.env_for_open.get();
    std::unique_ptr<CopyReader> reader(new CopyReader(tuning.sealer));
    rocksdb::DB* raw = nullptr;
    const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(
        options, copy.name_for_open, MakeFamilies(tuning), &reader->handles_, &raw);
    if (!opened.ok()) {
      return ToStatus(opened, absl::StrCat("cannot open backup ", copy.backup_id));
    }
    reader->db_.reset(raw);
    return reader;
  }
  ~CopyReader() {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }
  }

  // CANCELLED where it is stopped.
  absl::StatusOr<BackupContents> ReadAll(const TellBackup& tell, const Stopped& stopped) {
    BackupProgress progress{.stage = BackupStage::kVerifying};
    for (rocksdb::ColumnFamilyHandle* family : handles_) {
      uint64_t keys = 0;
      db_->GetIntProperty(family, rocksdb::DB::Properties::kEstimateNumKeys, &keys);
      progress.estimated_records += keys;
    }
    BackupContents contents;
    for (rocksdb::ColumnFamilyHandle* family : handles_) {
      // What the store says of itself, which is not a record.
      if (family->GetName() == rocksdb::kDefaultColumnFamilyName) continue;
      rocksdb::ReadOptions options;
      options.fill_cache = false;
      const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options, family));
      for (at->SeekToFirst(); at->Valid(); at->Next()) {
        Visit(View(at->key()), View(at->value()), contents);
        if (++progress.records % kRecordsTold != 0) continue;
        tell(progress);
        if (stopped()) return StoppedError();
      }
      if (!at->status().ok()) return ToStatus(at->status(), "a table of the backup is damaged");
    }
    tell(progress);
    return contents;
  }

 private:
  explicit CopyReader(std::shared_ptr<const RecordSealer> sealer) : sealer_(std::move(sealer)) {}

  void Visit(std::string_view key, std::string_view bytes, BackupContents& contents) const {
    const std::optional<StoredValue> stored = DecodeValue(Place{*sealer_, key}, bytes);
    if (!stored.has_value()) {
      ++contents.unreadable;
      return;
    }
    if (stored->key_missing) ++contents.key_missing;
    Count(stored->record, contents);
  }

  const std::shared_ptr<const RecordSealer> sealer_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::unique_ptr<rocksdb::DB> db_;
};

absl::Status DamagedError(const rocksdb::BackupInfo& info, std::string_view what) {
  return absl::DataLossError(absl::StrCat("backup ", info.backup_id, " is damaged: ",
                                          std::string(what), "; use another, and take a new one"));
}

// Every record, and so every block of the tables that they are in, with its checksum.
absl::StatusOr<VerifiedBackup> ReadBack(const rocksdb::BackupInfo& info,
                                        const EngineOptions& options, const TellBackup& tell,
                                        const Stopped& stopped) {
  auto reader = CopyReader::Open(info, options);
  if (!reader.ok()) return reader.status();
  const absl::StatusOr<BackupContents> contents = (*reader)->ReadAll(tell, stopped);
  if (!contents.ok()) return contents.status();
  if (contents->unreadable > 0) {
    return DamagedError(info, absl::StrCat(contents->unreadable, " records cannot be read"));
  }
  return VerifiedBackup{*FromInfo(info), *contents};
}

absl::StatusOr<VerifiedBackup> VerifyFound(const rocksdb::BackupEngineReadOnly& backups,
                                           const rocksdb::BackupInfo& info,
                                           const EngineOptions& options, const TellBackup& tell,
                                           ReadMeter& meter) {
  BeginStage(BackupStage::kVerifying, info, tell, meter);
  const rocksdb::IOStatus whole =
      backups.VerifyBackup(info.backup_id, /*verify_with_checksum=*/true);
  if (!whole.ok()) return DamagedError(info, whole.ToString());
  return ReadBack(info, options, tell, [] { return false; });
}

// --- Restoring -----------------------------------------------------------------------------------

absl::Status CheckFree(const std::string& data_dir) {
  std::error_code error;
  const fs::file_status status = fs::status(data_dir, error);
  if (!fs::exists(status)) return absl::OkStatus();
  const bool free = fs::is_directory(status) && fs::is_empty(data_dir, error) && !error;
  if (free) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("data_dir ", data_dir,
                   " is not empty; move it away before restoring to it, and "
                   "keep it until the restored store serves"));
}

// Also what a restore has left that was interrupted.
absl::Status MakeEmpty(const std::string& directory) {
  std::error_code error;
  fs::remove_all(directory, error);
  if (!error) fs::create_directory(directory, error);
  if (!error) return absl::OkStatus();
  errno = error.value();
  return FileError("cannot make", directory);
}

// Everything that was written on the volume of `directory`.
absl::Status SyncVolume(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError("cannot open", directory);
  const int synced = ::syncfs(fd);
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return synced == 0 ? absl::OkStatus() : FileError("cannot sync the volume of", directory);
}

absl::StatusOr<Epoch> EpochAfter(const BackupFacts& facts) {
  if (facts.token_ceiling > core::kMaxFencingToken - kTokensSkippedByRestore) {
    return absl::FailedPreconditionError(
        "the fencing tokens of this store are used up; begin with an empty one");
  }
  return Epoch{.epoch = facts.epoch,
               .token_ceiling = facts.token_ceiling + kTokensSkippedByRestore};
}

// Makes the copy a store that has accepted its loss.
absl::Status Settle(const std::string& directory, const BackupFacts& facts, EngineOptions options) {
  const absl::StatusOr<Epoch> epoch = EpochAfter(facts);
  if (!epoch.ok()) return epoch.status();
  if (absl::Status status = EpochFiles(directory).Store(*epoch); !status.ok()) return status;
  options.data_dir = directory;
  // That its loss is accepted is what is asked for, and no fault.
  options.log = [log = options.log](int level, std::string_view line) {
    if (log) log(std::min(level, kLogInfo), line);
  };
  // Without a watermark nothing but this opens it.
  options.accept_loss = epoch->epoch;
  return RocksDbEngine::Open(RocksDbOptions{.engine = std::move(options)}).status();
}

}  // namespace

std::string EncodeBackupFacts(const BackupFacts& facts) {
  return absl::StrCat(std::string(kHead), facts.epoch, std::string(kCeiling), facts.token_ceiling,
                      std::string(kMade), facts.made.time_since_epoch().count(), "\n");
}

std::optional<BackupFacts> DecodeBackupFacts(std::string_view text) {
  BackupFacts facts;
  uint64_t made = 0;
  std::string_view rest = text;
  if (!TakeText(kHead, rest) || !TakeNumber(facts.epoch, rest)) return std::nullopt;
  if (!TakeText(kCeiling, rest) || !TakeNumber(facts.token_ceiling, rest)) return std::nullopt;
  if (!TakeText(kMade, rest) || !TakeNumber(made, rest)) return std::nullopt;
  const auto latest = static_cast<uint64_t>(core::kMaxTime.time_since_epoch().count());
  if (facts.epoch == 0 || facts.token_ceiling == 0 || made > latest) return std::nullopt;
  if (facts.token_ceiling > core::kMaxFencingToken + 1) return std::nullopt;
  facts.made = core::Time(core::Duration(static_cast<int64_t>(made)));
  if (EncodeBackupFacts(facts) != text) return std::nullopt;
  return facts;
}

absl::StatusOr<VerifiedBackup> TakeBackup(rocksdb::DB& db, const BackupFacts& facts,
                                          const BackupOptions& options, const EngineOptions& engine,
                                          const TellBackup& tell) {
  if (options.directory.empty()) return CheckDirectory(options.directory);
  if (options.keep == 0) return absl::InvalidArgumentError("keep at least one backup");
  RocksDbLogger info_log(engine.log);
  rocksdb::BackupEngine* raw = nullptr;
  const rocksdb::IOStatus opened = rocksdb::BackupEngine::Open(
      EngineOptionsOf(options.directory, &info_log), rocksdb::Env::Default(), &raw);
  if (!opened.ok()) {
    return ToStatus(opened, absl::StrCat("cannot back up to ", options.directory));
  }
  const std::unique_ptr<rocksdb::BackupEngine> backups(raw);
  BackupProgress progress;
  db.GetAggregatedIntProperty(rocksdb::DB::Properties::kLiveSstFilesSize,
                              &progress.estimated_bytes);
  rocksdb::CreateBackupOptions create;
  create.flush_before_backup = true;
  // It takes what commits leave.
  create.decrease_background_thread_cpu_priority = true;
  create.background_thread_cpu_priority = rocksdb::CpuPriority::kLow;
  create.progress_callback = [&] {
    progress.bytes += kBytesTold;
    tell(progress);
    if (options.stopped()) backups->StopBackup();
  };
  if (options.stopped()) backups->StopBackup();
  rocksdb::BackupID id = 0;
  const rocksdb::IOStatus made =
      backups->CreateNewBackupWithMetadata(create, &db, EncodeBackupFacts(facts), &id);
  if (made.IsIncomplete() && options.stopped()) return StoppedError();
  if (!made.ok()) return ToStatus(made, absl::StrCat("cannot back up to ", options.directory));
  const absl::StatusOr<rocksdb::BackupInfo> info = FindBackup(*backups, options.directory, id);
  if (!info.ok()) return info.status();
  // RocksDB has compared the checksums of what it copied, and cannot be stopped while it reads all
  // of it once more.
  absl::StatusOr<VerifiedBackup> verified = ReadBack(
      *info, engine,
      [&](const BackupProgress& more) {
        progress.stage = BackupStage::kVerifying;
        progress.records = more.records;
        progress.estimated_records = more.estimated_records;
        tell(progress);
      },
      options.stopped);
  if (!verified.ok()) {
    // What was not read back is not to be taken for a backup.
    backups->DeleteBackup(id).PermitUncheckedError();
    return verified;
  }
  // Only now are older ones less worth.
  rocksdb::IOStatus purged = backups->PurgeOldBackups(static_cast<uint32_t>(options.keep));
  if (purged.ok()) purged = backups->GarbageCollect();
  if (!purged.ok()) {
    engine.log(kLogWarning, absl::StrCat("the backup is whole, but older ones could not be "
                                         "removed: ",
                                         purged.ToString()));
  }
  return verified;
}

absl::StatusOr<std::vector<Backup>> ListBackups(const std::string& directory) {
  const auto backups = OpenToRead(directory, nullptr);
  if (!backups.ok()) return backups.status();
  std::vector<rocksdb::BackupInfo> infos;
  (*backups)->GetBackupInfo(&infos);
  std::vector<Backup> list;
  for (const rocksdb::BackupInfo& info : infos) {
    if (const std::optional<Backup> backup = FromInfo(info)) list.push_back(*backup);
  }
  std::sort(list.begin(), list.end(), [](const Backup& a, const Backup& b) { return a.id < b.id; });
  return list;
}

absl::StatusOr<VerifiedBackup> VerifyBackup(const std::string& directory, uint32_t id,
                                            const EngineOptions& options, const TellBackup& tell) {
  const auto meter = std::make_shared<ReadMeter>();
  const auto backups = OpenToRead(directory, meter);
  if (!backups.ok()) return backups.status();
  const absl::StatusOr<rocksdb::BackupInfo> info = FindBackup(**backups, directory, id);
  if (!info.ok()) return info.status();
  return VerifyFound(**backups, *info, options, tell, *meter);
}

absl::StatusOr<VerifiedBackup> RestoreBackup(const std::string& directory, uint32_t id,
                                             const EngineOptions& options, const TellBackup& tell,
                                             const CompleteStore& complete) {
  const auto meter = std::make_shared<ReadMeter>();
  const auto backups = OpenToRead(directory, meter);
  if (!backups.ok()) return backups.status();
  const absl::StatusOr<rocksdb::BackupInfo> info = FindBackup(**backups, directory, id);
  if (!info.ok()) return info.status();
  std::error_code error;
  const std::string data_dir = fs::absolute(options.data_dir, error).lexically_normal().string();
  if (absl::Status status = CheckFree(data_dir); !status.ok()) return status;
  const std::string parent = fs::path(data_dir).parent_path().string();
  if (!fs::is_directory(parent, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("data_dir ", data_dir, ": the directory above it does not exist; create it"));
  }
  absl::StatusOr<VerifiedBackup> verified = VerifyFound(**backups, *info, options, tell, *meter);
  if (!verified.ok()) return verified;
  const std::string aside = data_dir + ".restoring";
  if (absl::Status status = MakeEmpty(aside); !status.ok()) return status;
  BeginStage(BackupStage::kRestoring, *info, tell, *meter);
  const std::string db = aside + "/db";
  const rocksdb::IOStatus copied = (*backups)->RestoreDBFromBackup(info->backup_id, db, db);
  if (!copied.ok()) return ToStatus(copied, absl::StrCat("cannot copy the backup to ", db));
  absl::Status status = SyncVolume(aside);
  if (status.ok()) status = Settle(aside, verified->backup.facts, options);
  if (status.ok()) status = complete(aside, verified->backup.facts);
  if (status.ok()) status = SyncDirectory(aside);
  if (!status.ok()) return status;
  if (std::rename(aside.c_str(), data_dir.c_str()) != 0) {
    return FileError("the store is restored, but cannot be renamed to", data_dir);
  }
  status = SyncDirectory(parent);
  if (!status.ok()) return status;
  tell(BackupProgress{.stage = BackupStage::kRestoring,
                      .bytes = info->size,
                      .records = verified->contents.records(),
                      .estimated_bytes = info->size});
  return verified;
}

}  // namespace idempotency::keystore
