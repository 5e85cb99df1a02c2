#include "keystore/engine/store_check.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "keystore/core/limits.h"
#include "keystore/engine/durable_file.h"
#include "keystore/engine/manifest_tail.h"
#include "keystore/engine/rocksdb_status.h"
#include "keystore/engine/rocksdb_store.h"
#include "keystore/engine/token_ceiling.h"
#include "keystore/engine/wal_reader.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kMaxCurrentBytes = 64;

// --- What a store holds, without changing it -----------------------------------------------------

struct Contents {
  std::string store_id;
  // The last write in front of the first hole.
  uint64_t sequence = 0;
  // What is wrong with the log, though all of it could be read; empty: nothing.
  std::string hole;
};

rocksdb::Status ReadLogs(const std::string& path, const StoreTuning& tuning,
                         rocksdb::WALRecoveryMode mode, uint64_t expected_log, Contents& contents) {
  rocksdb::DBOptions options = MakeDbOptions(tuning);
  // Whoever listens to the store has nothing to hear yet.
  options.listeners.clear();
  options.wal_recovery_mode = mode;
  WalReader reader(path, WalReader::Mode::kLook);
  options.wal_filter = &reader;
  rocksdb::DB* raw = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(options, path, MakeFamilies(tuning), &handles, &raw);
  if (!status.ok()) return status;
  const std::unique_ptr<rocksdb::DB> db(raw);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  status = db->GetDbIdentity(contents.store_id);
  uint64_t oldest_needed = 0;
  db->GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &oldest_needed);
  // RocksDB says both of this, and goes by the later one.
  oldest_needed = std::max(oldest_needed, reader.first_needed());
  reader.LookForSilentLogs(oldest_needed);
  // Where nothing is left in the logs that was needed, what the tables hold is not all.
  const bool in_logs = reader.found_any() || !reader.hole().empty() ||
                       (expected_log != 0 && expected_log >= oldest_needed);
  contents.sequence = in_logs ? reader.last_sequence() : db->GetLatestSequenceNumber();
  contents.hole = reader.hole();
  return status;
}

struct Examined {
  Contents contents;
  bool cut_at_damage = false;
  std::string damage;
};

// As the store would be opened: as a crash leaves it or, failing that, as it was before the first
// damage.
absl::StatusOr<Examined> Examine(const std::string& path, const StoreTuning& tuning,
                                 uint64_t expected_log) {
  Examined found;
  rocksdb::Status status =
      ReadLogs(path, tuning, rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords, expected_log,
               found.contents);
  if (status.ok() && found.contents.hole.empty()) return found;
  if (!status.ok() && !status.IsCorruption()) {
    return ToStatus(status, absl::StrCat("cannot read the store ", path));
  }
  found.damage = status.ok() ? found.contents.hole : status.ToString();
  found.cut_at_damage = true;
  status = ReadLogs(path, tuning, rocksdb::WALRecoveryMode::kPointInTimeRecovery, expected_log,
                    found.contents);
  if (status.ok()) return found;
  return ToStatus(status, absl::StrCat("cannot open the store ", path,
                                       "; keep a copy of it before any attempt at repair"));
}

// What is wrong with the manifest that RocksDB would begin with; empty: nothing.
std::string DamagedManifest(const std::string& path, const ManifestMark& promised) {
  const auto bytes = ReadSmallFile(path + "/CURRENT", kMaxCurrentBytes);
  // RocksDB has the words for that.
  if (!bytes.ok() || !bytes->has_value()) return {};
  std::string_view current = **bytes;
  if (!current.empty() && current.back() == '\n') current.remove_suffix(1);
  // Numbers have at least six digits. A newer one is made whenever the store is opened.
  const auto before = [](std::string_view a, std::string_view b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  };
  if (before(promised.name, current)) return {};
  if (current != promised.name) return absl::StrCat("CURRENT does not name ", promised.name);
  if (MarkManifest(path, promised.name, promised.bytes) == promised) return {};
  return absl::StrCat(promised.name, " is damaged");
}

// --- What was promised ---------------------------------------------------------------------------

// What of the watermark is not kept; empty: all is. Sets in the plan how the store is opened.
absl::StatusOr<std::string> Missing(const std::string& path, const StoreTuning& tuning,
                                    const Watermark& promised, OpeningPlan& plan,
                                    const LogFunction& log) {
  const std::string manifest = DamagedManifest(path, promised.manifest);
  absl::StatusOr<Examined> found = Examine(path, tuning, promised.wal_last);
  if (!found.ok()) return found.status();
  const Contents& contents = found->contents;
  plan.cut_at_damage = found->cut_at_damage;
  if (contents.store_id != promised.store_id) {
    return absl::StrCat("holds another store (", contents.store_id, ") than the one it had (",
                        promised.store_id, ")");
  }
  if (!manifest.empty()) return absl::StrCat("may have lost records: ", manifest);
  if (contents.sequence < promised.sequence) {
    const std::string because = found->damage.empty() ? "" : absl::StrCat(" (", found->damage, ")");
    return absl::StrCat("has lost records: writes up to ", promised.sequence,
                        " were acknowledged, and those up to ", contents.sequence, " are left",
                        because);
  }
  if (found->cut_at_damage) {
    log(kLogWarning, absl::StrCat("the end of the store's log cannot be read, as after a power "
                                  "cut; what the watermark promises is in front of it: ",
                                  found->damage));
  }
  return std::string();
}

// Why the store of an earlier run may not be opened as if nothing had happened; empty: it may.
absl::StatusOr<std::string> WhatIsLost(const DataDirectory& directory,
                                       const std::optional<Watermark>& watermark,
                                       const StoreTuning& tuning, OpeningPlan& plan,
                                       const LogFunction& log) {
  if (!directory.HasDb()) {
    plan.create = true;
    return absl::StrCat("has been opened ", plan.last.epoch, " times, but its store is gone");
  }
  absl::Status ours = RocksDbStore::CheckIsOurs(directory.db_path(), tuning);
  if (absl::IsDataLoss(ours) && watermark.has_value() &&
      CutTornManifest(directory.db_path(), directory.path(), watermark->manifest, log).ok()) {
    ours = RocksDbStore::CheckIsOurs(directory.db_path(), tuning);
  }
  if (!ours.ok()) return ours;
  if (!watermark.has_value()) {
    // Also to learn how it can be opened, should that be accepted.
    Watermark nothing;
    if (auto opened = Examine(directory.db_path(), tuning, 0); opened.ok()) {
      plan.cut_at_damage = opened->cut_at_damage;
    } else {
      return opened.status();
    }
    return std::string(
        "has lost its watermark, or it is damaged: whether records are missing is "
        "not known");
  }
  return Missing(directory.db_path(), tuning, *watermark, plan, log);
}

// --- What the last run left
// ------------------------------------------------------------------------

// Never below what the watermark knows to have been given.
Epoch NotBelow(Epoch epoch, const std::optional<Watermark>& watermark) {
  if (!watermark.has_value() || watermark->token < epoch.token_ceiling) return epoch;
  epoch.token_ceiling =
      std::min(watermark->token + 1 + kTokensPerExtension, core::kMaxFencingToken + 1);
  return epoch;
}

// What the watermark's file says.
struct Promise {
  std::optional<Watermark> watermark;
  bool damaged = false;

  uint64_t epoch() const { return watermark.has_value() ? watermark->epoch : 0; }
};

absl::StatusOr<Promise> LoadPromise(WatermarkFile& file, const LogFunction& log) {
  absl::StatusOr<std::optional<Watermark>> loaded = file.Load();
  if (loaded.ok()) return Promise{.watermark = *std::move(loaded)};
  if (!absl::IsDataLoss(loaded.status())) return loaded.status();
  log(kLogError, std::string(loaded.status().message()));
  return Promise{.damaged = true};
}

std::string HowToAccept(uint64_t epoch) {
  if (epoch == 0) return "check the volume, or restore a backup";
  return absl::StrCat("check the volume, restore a backup, or start once with --accept_loss=",
                      epoch, ", which makes what was pending unresolved");
}

// Neither of the epoch files is of use.
absl::StatusOr<Epoch> EpochWithoutFiles(const DataDirectory& directory, const Promise& promise,
                                        uint64_t accept_loss) {
  if (promise.watermark.has_value() && accept_loss != 0 && accept_loss == promise.epoch()) {
    return NotBelow(Epoch{.epoch = promise.epoch()}, promise.watermark);
  }
  if (directory.HasDb()) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory.path(), " holds a store, but epoch-a and epoch-b are missing: fencing tokens ",
        "could repeat; restore one of them, or: ", HowToAccept(promise.epoch())));
  }
  return absl::FailedPreconditionError(absl::StrCat(directory.path(),
                                                    " has the watermark of a store that is gone; ",
                                                    HowToAccept(promise.epoch())));
}

// nullopt: nothing was ever here.
absl::StatusOr<std::optional<Epoch>> LastEpoch(const DataDirectory& directory,
                                               const EpochFiles& epochs, const Promise& promise,
                                               uint64_t accept_loss, const LogFunction& log) {
  const absl::StatusOr<std::optional<EpochFiles::Loaded>> loaded = epochs.Load();
  if (loaded.ok() && loaded->has_value()) {
    const auto& [epoch, repair] = **loaded;
    if (repair && epoch.epoch > 0) {
      log(kLogWarning, "one of epoch-a and epoch-b was missing or damaged; the other is used");
    }
    return std::optional<Epoch>(NotBelow(epoch, promise.watermark));
  }
  const bool promised = promise.watermark.has_value() || promise.damaged;
  if (loaded.ok() && !promised && !directory.HasDb()) return std::optional<Epoch>();
  absl::StatusOr<Epoch> epoch = EpochWithoutFiles(directory, promise, accept_loss);
  if (epoch.ok()) return std::optional<Epoch>(*epoch);
  return loaded.ok() ? epoch.status() : loaded.status();
}

absl::Status Refuse(const DataDirectory& directory, const std::string& lost, uint64_t epoch) {
  const std::string message = absl::StrCat(directory.path(), " ", lost, "; ", HowToAccept(epoch));
  return directory.HasDb() ? absl::DataLossError(message) : absl::FailedPreconditionError(message);
}

}  // namespace

absl::StatusOr<OpeningPlan> PlanOpening(const DataDirectory& directory, const EpochFiles& epochs,
                                        WatermarkFile& file, const StoreTuning& tuning,
                                        uint64_t accept_loss, const LogFunction& log) {
  absl::StatusOr<Promise> promise = LoadPromise(file, log);
  if (!promise.ok()) return promise.status();
  auto last = LastEpoch(directory, epochs, *promise, accept_loss, log);
  if (!last.ok()) return last.status();
  OpeningPlan plan;
  // The first watermark is stored before the first epoch.
  const bool interrupted = last->has_value() && (*last)->epoch == 0 && promise->epoch() <= 1;
  if (!last->has_value() || interrupted) {
    plan.create = true;
    if (interrupted) return plan;
    if (absl::Status status = epochs.Store(Epoch{}); !status.ok()) return status;
    return plan;
  }
  plan.last = **last;
  plan.watermark = promise->watermark.value_or(Watermark{});
  auto lost = WhatIsLost(directory, promise->watermark, tuning, plan, log);
  if (!lost.ok()) return lost.status();
  if (lost->empty()) return plan;
  const uint64_t run = std::max(plan.last.epoch, promise->epoch());
  if (accept_loss != run) return Refuse(directory, *lost, run);
  log(kLogError, absl::StrCat("accepted: ", directory.path(), " ", *lost));
  plan.loss_accepted = true;
  return plan;
}

}  // namespace idempotency::keystore
