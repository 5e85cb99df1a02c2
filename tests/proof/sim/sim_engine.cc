#include "tests/proof/sim/sim_engine.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/transition.h"
#include "keystore/engine/scan.h"

namespace idempotency::proof {
namespace {

using keystore::WriteOutcome;

absl::Status Unavailable() { return absl::UnavailableError("it cannot be reached"); }

// The rows in the order of their stored keys.
class RowSource final : public keystore::ScanSource {
 public:
  void Add(const core::Key& key, core::RecordPtr record) {
    if (record != nullptr) rows_[keystore::EncodeKey(key)] = std::move(record);
  }
  void Seek(std::string_view target) override { at_ = rows_.lower_bound(target); }
  void Next() override { ++at_; }
  bool Valid() const override { return at_ != rows_.end(); }
  std::string_view key() const override { return at_->first; }
  core::Stored Load(size_t* bytes) const override {
    *bytes = sizeof(core::Record);
    return *at_->second;
  }

 private:
  using Rows = std::map<std::string, core::RecordPtr, std::less<>>;
  Rows rows_;
  Rows::const_iterator at_;
};

bool IsOpen(const core::Record& record) {
  return record.state == core::State::kPending || record.state == core::State::kUnresolved;
}

core::Now Earlier(core::Now now, core::Duration span) {
  now.earliest -= span;
  now.latest -= span;
  now.wall -= span;
  return now;
}

}  // namespace

SimEngine::SimEngine(History* history, SimDisk* disk, Random* random, size_t replica,
                     const EngineManners* manners)
    : history_(history),
      disk_(disk),
      random_(random),
      replica_(replica),
      manners_(manners),
      first_floor_(manners->mistake == EngineMistake::kFloorStartsAgain ? disk->stored_token_floor()
                                                                        : disk->token_floor()) {}

bool SimEngine::Late() {
  return !never_late_ && !gone_ && random_->Percent(manners_->late_percent);
}

size_t SimEngine::IndexOf(const core::Key& key) const {
  const bool mixed = manners_->mistake == EngineMistake::kKeysRunTogether;
  for (size_t i = 0; i < history_->keys.size(); ++i) {
    const core::Key& known = history_->keys[i];
    if (mixed ? known.scope + known.key == key.scope + key.key : known == key) return i;
  }
  history_->Break("a key is asked for that nobody has named");
  return 0;
}

// --- Reading -----------------------------------------------------------------------------------

keystore::ReadEntry SimEngine::ReadOne(size_t key) const {
  Row row = disk_->row(key);
  if (manners_->mistake == EngineMistake::kStaleReads && random_->OneIn(4)) {
    row = disk_->OldRow(key, 1);
  }
  if (row.record == nullptr) return {.stored = core::Absent{}, .version = row.version};
  return {.stored = *row.record, .version = row.version};
}

absl::StatusOr<keystore::ReadResult> SimEngine::ReadAll(const std::vector<core::Key>& keys) {
  if (gone_ || !pressure_.alive) return Unavailable();
  const bool fails = random_->Percent(manners_->read_error_percent);
  if (fails) ++history_->counts.failed_reads;
  if (fails && manners_->mistake != EngineMistake::kErrorsAreAbsent) return Unavailable();
  keystore::ReadResult result;
  result.token_floor = disk_->token_floor();
  if (manners_->mistake == EngineMistake::kFloorStartsAgain) {
    result.token_floor = std::max(first_floor_, disk_->stored_token_floor());
  }
  for (const core::Key& key : keys) {
    result.entries.push_back(fails ? keystore::ReadEntry{} : ReadOne(IndexOf(key)));
  }
  return result;
}

void SimEngine::Read(std::vector<core::Key> keys, ReadDone done) {
  if (!Late()) return std::move(done)(ReadAll(keys));
  // What is read is what was stored at some moment between asking and answering.
  if (random_->OneIn(2)) {
    pending_.push_back([this, result = ReadAll(keys), done = std::move(done)]() mutable {
      if (gone_) result = Unavailable();
      std::move(done)(std::move(result));
    });
    return;
  }
  pending_.push_back([this, keys = std::move(keys), done = std::move(done)]() mutable {
    std::move(done)(ReadAll(keys));
  });
}

void SimEngine::Scan(keystore::ScanFilter filter, size_t limit, std::string resume_key,
                     ScanDone done) {
  if (gone_ || !pressure_.alive) return std::move(done)(Unavailable());
  auto range = keystore::ScanRange::Make(std::move(filter), resume_key);
  if (!range.ok()) return std::move(done)(range.status());
  RowSource source;
  for (size_t key = 0; key < history_->keys.size(); ++key) {
    const bool unsynced = manners_->mistake == EngineMistake::kScanShowsUnsynced;
    source.Add(history_->keys[key],
               unsynced ? disk_->row(key).record : disk_->DurableRow(key).record);
  }
  std::move(done)(keystore::RunScan(*range, limit, source));
}

// --- Writing -----------------------------------------------------------------------------------

std::vector<AskedWrite> SimEngine::Asked(std::vector<keystore::GuardedWrite> writes) const {
  const Seq asked = history_->Next();
  std::vector<AskedWrite> all;
  all.reserve(writes.size());
  for (keystore::GuardedWrite& write : writes) {
    all.push_back(AskedWrite{.key = IndexOf(write.key),
                             .replica = replica_,
                             .expected = write.expected,
                             .record = std::move(write.record),
                             .asked = asked,
                             .asked_at = history_->at});
  }
  return all;
}

// Exclusive: puts the writes where a crash may still take them back.
void SimEngine::Apply(std::vector<AskedWrite>& writes) {
  if (gone_ || !pressure_.alive) return;
  if (manners_->mistake == EngineMistake::kLosesHalfABatch && writes.size() > 1) writes.resize(1);
  for (const AskedWrite& write : writes) {
    const bool guarded = manners_->mistake == EngineMistake::kNone;
    if (guarded && disk_->row(write.key).version != write.expected) {
      history_->Break("the only writer writes over what it has not read");
    }
    disk_->Apply(write);
  }
}

// Exclusive: syncs what was applied.
std::vector<WriteOutcome> SimEngine::Finish(size_t writes) {
  std::vector<WriteOutcome> outcomes(writes, WriteOutcome::kUnknown);
  if (gone_ || !pressure_.alive) return outcomes;
  if (random_->Percent(manners_->sync_failure_percent)) {
    pressure_.alive = false;
    ++history_->counts.engine_deaths;
    return outcomes;
  }
  const bool hasty = manners_->mistake == EngineMistake::kAcknowledgesBeforeSync;
  if (!hasty || random_->OneIn(4)) disk_->Sync();
  outcomes.assign(writes, WriteOutcome::kCommitted);
  return outcomes;
}

void SimEngine::CommitExclusive(std::vector<AskedWrite> writes, CommitDone done) {
  const size_t count = writes.size();
  const bool late = Late();
  const bool at_once = !late || random_->OneIn(2);
  if (at_once) Apply(writes);
  if (!late) return std::move(done)(Finish(count));
  if (at_once) writes.clear();
  pending_.push_back([this, count, writes = std::move(writes), done = std::move(done)]() mutable {
    Apply(writes);
    std::move(done)(Finish(count));
  });
}

// The request was lost, or its answer was.
WriteOutcome SimEngine::TimeOut(AskedWrite write) {
  ++history_->counts.unknown_writes;
  const size_t key = write.key;
  const EngineMistake mistake = manners_->mistake;
  if (mistake == EngineMistake::kUnknownMayStillCome) {
    disk_->on_their_way().push_back(std::move(write));
  } else if (random_->OneIn(2) && disk_->ApplyIfExpected(write)) {
    disk_->Sync();
  }
  if (mistake == EngineMistake::kUnknownIsCommitted) return WriteOutcome::kCommitted;
  if (mistake == EngineMistake::kUnknownIsLostRace) return WriteOutcome::kLostRace;
  history_->doubts.push_back(Doubt{.key = key, .replica = replica_, .seq = history_->Next()});
  return WriteOutcome::kUnknown;
}

WriteOutcome SimEngine::ApplyOne(AskedWrite write) {
  if (random_->Percent(manners_->unknown_percent)) return TimeOut(std::move(write));
  if (manners_->mistake == EngineMistake::kNoGuard) {
    disk_->Apply(write);
    return WriteOutcome::kCommitted;
  }
  if (disk_->ApplyIfExpected(write)) return WriteOutcome::kCommitted;
  ++history_->counts.lost_races;
  return manners_->mistake == EngineMistake::kLostRaceIsCommitted ? WriteOutcome::kCommitted
                                                                  : WriteOutcome::kLostRace;
}

std::vector<WriteOutcome> SimEngine::ApplyGuarded(std::vector<AskedWrite> writes) {
  std::vector<WriteOutcome> outcomes;
  for (AskedWrite& write : writes) {
    const bool forgotten =
        manners_->mistake == EngineMistake::kLosesHalfABatch && !outcomes.empty();
    outcomes.push_back(forgotten ? WriteOutcome::kCommitted : ApplyOne(std::move(write)));
  }
  disk_->Sync();
  return outcomes;
}

void SimEngine::Commit(std::vector<keystore::GuardedWrite> writes, CommitDone done) {
  std::vector<AskedWrite> asked = Asked(std::move(writes));
  if (history_->exclusive) return CommitExclusive(std::move(asked), std::move(done));
  const std::vector<WriteOutcome> unknown(asked.size(), WriteOutcome::kUnknown);
  if (gone_) return std::move(done)(unknown);
  if (!Late()) return std::move(done)(ApplyGuarded(std::move(asked)));
  if (random_->OneIn(2)) {
    pending_.push_back([this, unknown, outcomes = ApplyGuarded(std::move(asked)),
                        done = std::move(done)]() mutable {
      std::move(done)(gone_ ? unknown : std::move(outcomes));
    });
    return;
  }
  pending_.push_back([this, unknown, asked = std::move(asked), done = std::move(done)]() mutable {
    if (!gone_) return std::move(done)(ApplyGuarded(std::move(asked)));
    // The process that asked is gone; the database may see the request all the same.
    for (AskedWrite& write : asked) {
      if (random_->OneIn(2)) disk_->on_their_way().push_back(std::move(write));
    }
    std::move(done)(unknown);
  });
}

// --- The rest ----------------------------------------------------------------------------------

void SimEngine::OnForeignChange(std::function<void(const core::Key&)> hint) {
  hint_ = std::move(hint);
}

keystore::Traits SimEngine::traits() const {
  const bool declared = manners_->mistake != EngineMistake::kSkewIsNotDeclared;
  return keystore::Traits{.exclusive = history_->exclusive,
                          .max_batch_writes = 4,
                          .clock_skew = declared ? history_->clock_skew : core::Duration{0}};
}

void SimEngine::CompleteOne() {
  std::swap(pending_[random_->Below(pending_.size())], pending_.back());
  Task task = std::move(pending_.back());
  pending_.pop_back();
  std::move(task)();
}

void SimEngine::StopBeingLate() {
  never_late_ = true;
  while (!pending_.empty()) CompleteOne();
}

void SimEngine::Vanish() {
  gone_ = true;
  pressure_.alive = false;
  StopBeingLate();
}

void SimEngine::SetPressure(bool stalled, bool full) {
  pressure_.stalled = stalled;
  pressure_.full = full;
}

void SimEngine::Hint(size_t key) {
  if (hint_ && !gone_) hint_(history_->keys[key]);
}

void SimEngine::Compact(const core::Now& now) {
  const EngineMistake mistake = manners_->mistake;
  core::Now then = Earlier(now, kFilterMargin);
  if (mistake == EngineMistake::kFilterTrustsTheWall) then = core::At(now.wall);
  // Not while a lane is between its read and its write.
  if (then.in_doubt || disk_->unsynced() > 0 || !pending_.empty()) return;
  for (size_t key = 0; key < history_->keys.size(); ++key) {
    const Row row = disk_->row(key);
    if (row.record == nullptr) continue;
    if (IsOpen(*row.record) && mistake != EngineMistake::kFilterDropsOpen) continue;
    AskedWrite write{.key = key, .replica = replica_, .expected = row.version};
    write.asked = history_->Next();
    write.asked_at = history_->at;
    write.by_filter = true;
    const std::optional<core::Record> left = core::Observe(*row.record, then);
    const bool dropped =
        !left.has_value() || (mistake == EngineMistake::kFilterDropsOpen && IsOpen(*row.record));
    if (!dropped) {
      const bool shrinks =
          row.record->state == core::State::kComplete && left->state == core::State::kExpired;
      if (!shrinks) continue;
      write.record = std::make_shared<const core::Record>(*left);
    }
    ++history_->counts.filtered;
    disk_->Apply(write);
    disk_->Sync();
  }
}

}  // namespace idempotency::proof
