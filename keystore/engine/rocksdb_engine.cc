#include "keystore/engine/rocksdb_engine.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/core/limits.h"
#include "keystore/engine/ballast.h"
#include "keystore/engine/data_directory.h"
#include "keystore/engine/epoch_files.h"
#include "keystore/engine/expiry_filter.h"
#include "keystore/engine/record_sealer.h"
#include "keystore/engine/rewrap.h"
#include "keystore/engine/rocksdb_backup.h"
#include "keystore/engine/rocksdb_check.h"
#include "keystore/engine/rocksdb_logger.h"
#include "keystore/engine/rocksdb_lookup.h"
#include "keystore/engine/rocksdb_options.h"
#include "keystore/engine/rocksdb_scan.h"
#include "keystore/engine/rocksdb_stats.h"
#include "keystore/engine/rocksdb_status.h"
#include "keystore/engine/rocksdb_store.h"
#include "keystore/engine/scan.h"
#include "keystore/engine/space_watch.h"
#include "keystore/engine/store_health.h"
#include "keystore/engine/store_opening.h"
#include "keystore/engine/stored_value.h"
#include "keystore/engine/token_ceiling.h"

namespace idempotency::keystore {
namespace {

constexpr std::chrono::seconds kLookAroundInterval(1);
constexpr size_t kMinMemtableBytes = size_t{64} * 1024;
// How many times the zeros ahead of the log must be free, beyond what is kept free.
constexpr uint64_t kLogAheadsOfRoom = 8;

absl::Status DeadError() {
  return absl::UnavailableError("the store takes no more writes; restart the process");
}

absl::Status CheckOptions(const EngineOptions& options) {
  if (options.data_dir.empty()) {
    return absl::InvalidArgumentError("data_dir is empty; name the directory of the store");
  }
  if (options.memtable_bytes < kMinMemtableBytes) {
    return absl::InvalidArgumentError(absl::StrCat("memtable_bytes is ", options.memtable_bytes,
                                                   "; give at least ", kMinMemtableBytes));
  }
  if (!options.now) return absl::InvalidArgumentError("the engine needs a clock (now)");
  if (!options.response_keys.empty() && !options.random_bytes) {
    return absl::InvalidArgumentError("the engine needs randomness (random_bytes) to seal with");
  }
  return absl::OkStatus();
}

void SetDefaults(RocksDbOptions& options) {
  EngineOptions& engine = options.engine;
  if (!engine.log) engine.log = [](int, std::string_view) {};
  if (!engine.may_reclaim) engine.may_reclaim = [](std::string_view) { return true; };
  if (!options.free_bytes) {
    options.free_bytes = [path = engine.data_dir] { return FreeBytes(path); };
  }
}

// None where it would bring the volume near to where new keys are refused.
LogAheadOptions LogAheadOf(const RocksDbOptions& options) {
  const EngineOptions& engine = options.engine;
  const uint64_t bytes = std::min<uint64_t>(engine.log_ahead_bytes, engine.memtable_bytes / 4);
  const uint64_t wanted = engine.min_free_bytes + kLogAheadsOfRoom * bytes;
  return {.bytes = bytes,
          .has_room = [free_bytes = options.free_bytes,
                       wanted] { return free_bytes().value_or(UINT64_MAX) >= wanted; },
          .log = engine.log};
}

}  // namespace

struct RocksDbEngine::Parts {
  std::unique_ptr<DataDirectory> directory;
  std::unique_ptr<Ballast> ballast;
  std::unique_ptr<SpaceWatch> space;
  std::shared_ptr<StoreHealth> health;
  OpenedStore opened;
};

absl::StatusOr<std::unique_ptr<RocksDbEngine>> RocksDbEngine::Open(RocksDbOptions options) {
  const EngineOptions& engine = options.engine;
  if (absl::Status status = CheckOptions(engine); !status.ok()) return status;
  SetDefaults(options);
  Parts parts;
  auto directory = DataDirectory::Open(engine.data_dir);
  if (!directory.ok()) return directory.status();
  parts.directory = *std::move(directory);
  parts.ballast = std::make_unique<Ballast>(parts.directory->ballast_path(), engine.ballast_bytes);
  parts.space = std::make_unique<SpaceWatch>(parts.ballast.get(), engine.min_free_bytes,
                                             options.free_bytes, engine.log);
  // RocksDB writes when it opens: on a full volume the ballast has to go first.
  parts.space->Check();
  parts.health = std::make_shared<StoreHealth>(engine.log);
  auto sealer = LoadSealer(engine);
  if (!sealer.ok()) return sealer.status();
  const StoreTuning tuning{
      .block_cache_bytes = engine.block_cache_bytes,
      .memtable_bytes = engine.memtable_bytes,
      .disable_auto_compactions = options.disable_auto_compactions,
      .info_log = std::make_shared<RocksDbLogger>(engine.log),
      .listener = parts.health,
      .expiry = std::make_shared<ExpiryFilterFactory>(engine.now, engine.may_reclaim),
      .env = options.env,
      .sealer = *std::move(sealer),
      .lost_keys = engine.lost_response_keys,
      .log_ahead = LogAheadOf(options)};
  auto opened = OpenStore(*parts.directory, tuning, engine);
  if (!opened.ok()) return opened.status();
  parts.opened = *std::move(opened);
  parts.space->MakeBallast();
  parts.space->Check();
  return std::unique_ptr<RocksDbEngine>(new RocksDbEngine(std::move(options), std::move(parts)));
}

RocksDbEngine::RocksDbEngine(RocksDbOptions options, Parts parts)
    : options_(std::move(options)),
      directory_(std::move(parts.directory)),
      ballast_(std::move(parts.ballast)),
      space_(std::move(parts.space)),
      tokens_(std::move(parts.opened.tokens)),
      health_(std::move(parts.health)),
      lost_before_(parts.opened.lost_before),
      store_(std::move(parts.opened.store)),
      watermark_(std::move(parts.opened.watermark)),
      // Every commit adds at least one to RocksDB's own count, so that ours stays below it.
      last_commit_number_(store_->db().GetLatestSequenceNumber()),
      look_around_(kLookAroundInterval) {
  watermark_->Start(health_.get(), tokens_.get(), options_.watermark_interval);
}

RocksDbEngine::~RocksDbEngine() {
  if (health_->alive()) {
    const rocksdb::Status flushed = store_->Flush();
    if (!flushed.ok()) {
      options_.engine.log(kLogWarning,
                          absl::StrCat("the next start will replay the log: ", flushed.ToString()));
    }
  }
  watermark_->Close();
}

absl::Status RocksDbEngine::SyncWatermark() { return watermark_->Sync(); }

// --- Reading -----------------------------------------------------------------------------------

void RocksDbEngine::Read(std::vector<core::Key> keys, ReadDone done) {
  std::move(done)(ReadNow(keys));
}

absl::StatusOr<ReadResult> RocksDbEngine::ReadNow(const std::vector<core::Key>& keys) {
  if (!health_->alive()) return DeadError();
  LookAround();
  std::vector<std::string> stored_keys(keys.size());
  std::transform(keys.begin(), keys.end(), stored_keys.begin(), &EncodeKey);
  const RocksDbLookup lookup(*store_, stored_keys, core::kMaxReadBytes);
  if (const rocksdb::Status status = lookup.status(); !status.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot read the store: ", status.ToString()));
  }
  ReadResult result;
  result.entries.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    result.entries.push_back(lookup.is_put_off(i) ? ReadEntry{.put_off = true}
                                                  : Combine({store_->sealer(), stored_keys[i]},
                                                            lookup.open(i), lookup.finished(i)));
  }
  if (!keys.empty() && std::all_of(result.entries.begin(), result.entries.end(),
                                   [](const ReadEntry& entry) { return entry.put_off; })) {
    const RocksDbLookup first(*store_, {stored_keys.front()});
    if (!first.status().ok()) return absl::UnavailableError("cannot read the store");
    result.entries.front() =
        Combine({store_->sealer(), stored_keys.front()}, first.open(0), first.finished(0));
  }
  // Asked last: it covers all that the look-ups can have seen.
  result.token_floor = tokens_->floor();
  return result;
}

void RocksDbEngine::Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) {
  std::move(done)(ScanNow(std::move(filter), limit, resume_key));
}

absl::StatusOr<ScanResult> RocksDbEngine::ScanNow(ScanFilter filter, size_t limit,
                                                  const std::string& resume_key) {
  if (!health_->alive()) return DeadError();
  if (limit == 0) return absl::InvalidArgumentError("a scan needs a limit above zero");
  const absl::StatusOr<ScanRange> range = ScanRange::Make(std::move(filter), resume_key);
  if (!range.ok()) return range.status();
  RocksDbScan source(*store_, range->open_only());
  ScanResult page = RunScan(*range, limit, source);
  if (absl::Status status = source.status(); !status.ok()) return status;
  return page;
}

// --- Writing -----------------------------------------------------------------------------------

void RocksDbEngine::Commit(std::vector<GuardedWrite> writes, CommitDone done) {
  std::move(done)(options_.check_guards
                      ? CommitChecked(writes)
                      : CommitThose(writes, std::vector<WriteOutcome>(writes.size(),
                                                                      WriteOutcome::kCommitted)));
}

std::vector<WriteOutcome> RocksDbEngine::CommitChecked(const std::vector<GuardedWrite>& writes) {
  absl::MutexLock lock(&guards_mutex_);
  std::vector<WriteOutcome> outcomes(writes.size(), WriteOutcome::kCommitted);
  std::vector<std::string> stored_keys(writes.size());
  std::transform(writes.begin(), writes.end(), stored_keys.begin(),
                 [](const GuardedWrite& write) { return EncodeKey(write.key); });
  const RocksDbLookup lookup(*store_, stored_keys);
  if (const rocksdb::Status status = lookup.status(); !status.ok()) {
    health_->Die(absl::StrCat("cannot check a guard: ", status.ToString()));
  }
  for (size_t i = 0; i < writes.size(); ++i) {
    if (VersionOf(lookup.open(i), lookup.finished(i)) != writes[i].expected) {
      outcomes[i] = WriteOutcome::kLostRace;
    }
  }
  return CommitThose(writes, std::move(outcomes));
}

std::vector<WriteOutcome> RocksDbEngine::CommitThose(const std::vector<GuardedWrite>& writes,
                                                     std::vector<WriteOutcome> outcomes) {
  absl::Status status = DeadError();
  if (health_->alive()) {
    LookAround();
    rocksdb::WriteBatch batch;
    status = FillBatch(writes, outcomes, batch);
    if (status.ok()) status = WriteBatchDurably(batch);
  }
  if (status.ok()) return outcomes;
  health_->Die(std::string(status.message()));
  return std::vector<WriteOutcome>(writes.size(), WriteOutcome::kUnknown);
}

absl::Status RocksDbEngine::FillBatch(const std::vector<GuardedWrite>& writes,
                                      const std::vector<WriteOutcome>& outcomes,
                                      rocksdb::WriteBatch& batch) {
  // Taken once there is something to store, so that RocksDB's count stays above.
  uint64_t commit_number = 0;
  uint64_t newest_token = 0;
  for (size_t i = 0; i < writes.size(); ++i) {
    if (outcomes[i] != WriteOutcome::kCommitted) continue;
    if (writes[i].record != nullptr) {
      if (commit_number == 0) commit_number = ++last_commit_number_;
      newest_token = std::max(newest_token, writes[i].record->token);
    }
    if (absl::Status status = AddToBatch(writes[i], commit_number, batch); !status.ok()) {
      return status;
    }
  }
  return tokens_->Cover(newest_token);
}

absl::Status RocksDbEngine::AddToBatch(const GuardedWrite& write, uint64_t commit_number,
                                       rocksdb::WriteBatch& batch) {
  const std::string key = EncodeKey(write.key);
  std::optional<Family> target;
  rocksdb::Status status;
  if (write.record != nullptr) {
    const std::string_view broken = core::BrokenRule(*write.record);
    if (!broken.empty()) {
      return absl::InternalError(
          absl::StrCat("a record breaks a rule and is not written: ", std::string(broken)));
    }
    target = FamilyOf(write.record->state);
    std::string value;
    if (!EncodeValue({store_->sealer(), key}, commit_number, *write.record, &value)) {
      return absl::InternalError("a record could not be sealed");
    }
    status = batch.Put(store_->family(*target), key, value);
  }
  for (const Family family : {Family::kOpen, Family::kFinished}) {
    if (!status.ok() || family == target || !Holds(write.expected, family)) continue;
    status = batch.Delete(store_->family(family), key);
  }
  return ToStatus(status, "cannot fill a batch");
}

absl::Status RocksDbEngine::WriteBatchDurably(rocksdb::WriteBatch& batch) {
  if (batch.Count() == 0) return absl::OkStatus();
  const rocksdb::Status written = store_->db().Write(MakeWriteOptions(), &batch);
  if (written.IsNoSpace()) space_->RanOut();
  return ToStatus(written, "a write has failed");
}

// --- How it stands -----------------------------------------------------------------------------

Pressure RocksDbEngine::pressure() const {
  // Whoever is refused for what this says sends no read that would look again.
  const bool pressed = health_->stalled() || space_->full() || health_->stall_hinted();
  if (pressed && health_->alive()) LookAround();
  return Pressure{.alive = health_->alive(), .stalled = health_->stalled(), .full = space_->full()};
}

void RocksDbEngine::LookAround() const {
  const bool due = look_around_.Due(options_.engine.now().latest);
  if (due) space_->Check();
  if (!due && !health_->TakeStallHint()) return;
  uint64_t stopped = 0;
  uint64_t delayed_rate = 0;
  rocksdb::DB& db = store_->db();
  if (db.GetIntProperty(rocksdb::DB::Properties::kIsWriteStopped, &stopped) &&
      db.GetIntProperty(rocksdb::DB::Properties::kActualDelayedWriteRate, &delayed_rate)) {
    health_->SetStalled(stopped != 0 || delayed_rate != 0);
  }
}

absl::StatusOr<RewrapProgress> RocksDbEngine::Rewrap(
    const std::function<void(const RewrapProgress&)>& tell) {
  absl::StatusOr<RewrapProgress> progress = RewrapRecords(*store_, tell);
  if (!progress.ok()) return progress;
  absl::Status status = ToStatus(store_->Flush(), "cannot flush what was rewrapped");
  if (status.ok()) status = Compact();
  if (status.ok()) status = ForgetOldKeys(*store_, *progress);
  if (!status.ok()) return status;
  return progress;
}

absl::Status RocksDbEngine::Compact() {
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  for (const Family family : {Family::kOpen, Family::kFinished}) {
    const rocksdb::Status status =
        store_->db().CompactRange(options, store_->family(family), nullptr, nullptr);
    if (!status.ok()) return ToStatus(status, "cannot compact the store");
  }
  return absl::OkStatus();
}

absl::StatusOr<VerifiedBackup> RocksDbEngine::BackUp(const BackupOptions& options,
                                                     const TellBackup& tell) {
  if (!health_->alive()) return DeadError();
  const auto run = EpochFiles(directory_->path()).Load();
  if (!run.ok()) return run.status();
  if (!run->has_value()) {
    return absl::DataLossError(absl::StrCat("epoch-a and epoch-b are gone from ",
                                            directory_->path(), "; stop the service"));
  }
  const BackupFacts facts{.epoch = (*run)->epoch.epoch,
                          .token_ceiling = (*run)->epoch.token_ceiling,
                          .made = options_.engine.now().latest};
  return TakeBackup(store_->db(), facts, options, options_.engine, tell);
}

EngineCheck RocksDbEngine::CheckStore() {
  const auto now = [this] { return options_.engine.now().latest; };
  const Pressure pressure = this->pressure();
  const rocksdb::DBOptions used = store_->db().GetDBOptions();
  RocksDbCheckFacts facts{
      .data_dir = directory_->path(),
      .file_system = FileSystemOf(directory_->path()),
      .store_file_system = FileSystemOf(directory_->db_path()),
      .sync = ProbeSync(directory_->path(), now),
      .free_bytes = options_.free_bytes(),
      .min_free_bytes = options_.engine.min_free_bytes,
      .ballast_bytes = ballast_->bytes(),
      .ballast_held = ballast_->held(),
      .watermark = watermark_->Probe(),
      .log_beside_data = OnOneVolume(directory_->path(),
                                     used.wal_dir.empty() ? directory_->db_path() : used.wal_dir),
      .alive = pressure.alive,
      .stalled = pressure.stalled,
      .background_errors = stats().background_errors};
  return {
      .engine = "rocksdb", .version = rocksdb::GetRocksVersionAsString(), .findings = Judge(facts)};
}

StoreStats RocksDbEngine::stats() const {
  StoreStats stats = ReadStats(*store_);
  stats.ballast_held = ballast_->bytes() > 0 && ballast_->held();
  return stats;
}

std::optional<uint64_t> RocksDbEngine::StoredBytes(std::string_view name_space,
                                                   std::optional<std::string_view> scope) const {
  return TableBytesOf(*store_,
                      scope ? ScopePrefix(name_space, *scope, "") : NamespacePrefix(name_space));
}

}  // namespace idempotency::keystore
