#include "keystore/engine/rocksdb_engine.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/engine/ballast.h"
#include "keystore/engine/data_directory.h"
#include "keystore/engine/epoch_files.h"
#include "keystore/engine/expiry_filter.h"
#include "keystore/engine/rocksdb_logger.h"
#include "keystore/engine/rocksdb_lookup.h"
#include "keystore/engine/rocksdb_options.h"
#include "keystore/engine/rocksdb_scan.h"
#include "keystore/engine/rocksdb_status.h"
#include "keystore/engine/rocksdb_store.h"
#include "keystore/engine/scan.h"
#include "keystore/engine/space_watch.h"
#include "keystore/engine/store_health.h"
#include "keystore/engine/stored_value.h"
#include "keystore/engine/token_ceiling.h"

namespace idempotency::keystore {
namespace {

constexpr std::chrono::seconds kLookAroundInterval(1);
constexpr size_t kMinMemtableBytes = size_t{64} * 1024;

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

// The state that the last run left. Epoch 0: the store has still to be made.
absl::StatusOr<Epoch> LastEpoch(const DataDirectory& directory, const EpochFiles& files,
                                const LogFunction& log) {
  const absl::StatusOr<std::optional<EpochFiles::Loaded>> loaded = files.Load();
  if (!loaded.ok()) return loaded.status();
  if (!loaded->has_value()) {
    if (directory.HasDb()) {
      return absl::FailedPreconditionError(
          absl::StrCat(directory.path(),
                       " holds a store, but epoch-a and epoch-b are missing: fencing tokens "
                       "could repeat; restore one of them from a backup"));
    }
    if (absl::Status status = files.Store(Epoch{}); !status.ok()) return status;
    return Epoch{};
  }
  const auto& [epoch, repair] = **loaded;
  if (epoch.epoch > 0 && !directory.HasDb()) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory.path(), " has been opened ", epoch.epoch,
        " times, but its store is gone; check "
        "the volume, restore a backup, or, to begin with an empty store, name an empty directory"));
  }
  if (repair && epoch.epoch > 0) {
    log(kLogWarning, "one of epoch-a and epoch-b was missing or damaged; the other is used");
  }
  return epoch;
}

}  // namespace

struct RocksDbEngine::Parts {
  std::unique_ptr<DataDirectory> directory;
  std::unique_ptr<Ballast> ballast;
  std::unique_ptr<SpaceWatch> space;
  std::unique_ptr<TokenCeiling> tokens;
  std::shared_ptr<StoreHealth> health;
  std::unique_ptr<RocksDbStore> store;
};

absl::StatusOr<std::unique_ptr<RocksDbEngine>> RocksDbEngine::Open(RocksDbOptions options) {
  const EngineOptions& engine = options.engine;
  if (absl::Status status = CheckOptions(engine); !status.ok()) return status;
  SetDefaults(options);
  Parts parts;
  auto directory = DataDirectory::Open(engine.data_dir);
  if (!directory.ok()) return directory.status();
  parts.directory = *std::move(directory);
  const EpochFiles files(parts.directory->path());
  const absl::StatusOr<Epoch> last = LastEpoch(*parts.directory, files, engine.log);
  if (!last.ok()) return last.status();

  parts.ballast = std::make_unique<Ballast>(parts.directory->ballast_path(), engine.ballast_bytes);
  parts.space = std::make_unique<SpaceWatch>(parts.ballast.get(), engine.min_free_bytes,
                                             options.free_bytes, engine.log);
  // RocksDB writes when it opens: on a full volume the ballast has to go first.
  parts.space->Check();
  parts.health = std::make_shared<StoreHealth>(engine.log);
  const StoreTuning tuning{
      .block_cache_bytes = engine.block_cache_bytes,
      .memtable_bytes = engine.memtable_bytes,
      .disable_auto_compactions = options.disable_auto_compactions,
      .info_log = std::make_shared<RocksDbLogger>(engine.log),
      .listener = parts.health,
      .expiry = std::make_shared<ExpiryFilterFactory>(engine.now, engine.may_reclaim),
      .env = options.env};
  auto store = RocksDbStore::Open(parts.directory->db_path(), last->epoch == 0, tuning);
  if (!store.ok()) return store.status();
  parts.store = *std::move(store);
  auto tokens = TokenCeiling::Begin(files, *last);
  if (!tokens.ok()) return tokens.status();
  parts.tokens = *std::move(tokens);
  parts.space->MakeBallast();
  parts.space->Check();
  return std::unique_ptr<RocksDbEngine>(new RocksDbEngine(std::move(options), std::move(parts)));
}

RocksDbEngine::RocksDbEngine(RocksDbOptions options, Parts parts)
    : options_(std::move(options)),
      directory_(std::move(parts.directory)),
      ballast_(std::move(parts.ballast)),
      space_(std::move(parts.space)),
      tokens_(std::move(parts.tokens)),
      health_(std::move(parts.health)),
      store_(std::move(parts.store)),
      // Every commit adds at least one to RocksDB's own count, so that ours stays below it.
      last_commit_number_(store_->db().GetLatestSequenceNumber()),
      look_around_(kLookAroundInterval) {}

RocksDbEngine::~RocksDbEngine() {
  if (!health_->alive()) return;
  const rocksdb::Status flushed = store_->Flush();
  if (!flushed.ok()) {
    options_.engine.log(kLogWarning,
                        absl::StrCat("the next start will replay the log: ", flushed.ToString()));
  }
}

// --- Reading -----------------------------------------------------------------------------------

void RocksDbEngine::Read(std::vector<core::Key> keys, ReadDone done) {
  std::move(done)(ReadNow(keys));
}

absl::StatusOr<ReadResult> RocksDbEngine::ReadNow(const std::vector<core::Key>& keys) {
  if (!health_->alive()) return DeadError();
  LookAround();
  std::vector<std::string> stored_keys(keys.size());
  std::transform(keys.begin(), keys.end(), stored_keys.begin(), &EncodeKey);
  const RocksDbLookup lookup(*store_, stored_keys);
  if (const rocksdb::Status status = lookup.status(); !status.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot read the store: ", status.ToString()));
  }
  ReadResult result;
  result.entries.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    result.entries.push_back(Combine(lookup.open(i), lookup.finished(i)));
  }
  // Asked last: it covers all that the look-up can have seen.
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
    EncodeValue(commit_number, *write.record, &value);
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

StoreStats RocksDbEngine::stats() const {
  using Properties = rocksdb::DB::Properties;
  StoreStats stats;
  const auto add = [this](const std::string& property, Family family, uint64_t& sum) {
    uint64_t value = 0;
    if (store_->db().GetIntProperty(store_->family(family), property, &value)) sum += value;
  };
  for (const Family family : {Family::kOpen, Family::kFinished}) {
    add(Properties::kTotalSstFilesSize, family, stats.table_bytes);
    add(Properties::kCurSizeAllMemTables, family, stats.memtable_bytes);
    add(Properties::kEstimateNumKeys, family, stats.estimated_keys);
  }
  return stats;
}

}  // namespace idempotency::keystore
