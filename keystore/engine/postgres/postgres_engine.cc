#include "keystore/engine/postgres/postgres_engine.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/core/limits.h"
#include "keystore/core/transition.h"
#include "keystore/engine/postgres/postgres_check.h"
#include "keystore/engine/postgres/postgres_expiry.h"
#include "keystore/engine/postgres/postgres_hosts.h"
#include "keystore/engine/postgres/postgres_keys.h"
#include "keystore/engine/postgres/postgres_loss.h"
#include "keystore/engine/postgres/postgres_scan.h"
#include "keystore/engine/scan.h"
#include "keystore/engine/transfer/retirement.h"

namespace idempotency::keystore {
namespace {

// How often a batch is tried that was rolled back for the sake of others, before it counts as
// refused.
constexpr int kMaxWriteTries = 5;
constexpr size_t kMaxConnections = 100;
constexpr size_t kMaxAbsentKeys = 100'000;
// How often it is looked whether the database can be reached again. A fail-over takes that much
// longer.
constexpr core::Duration kReachedAgain = std::chrono::milliseconds(250);
// What one upkeep looks at, and how much of it at once: the rest waits for the next.
constexpr size_t kExpiryBatch = 256;
constexpr int kExpiryBatches = 64;
constexpr size_t kMaxExpiryBytes = size_t{8} * 1024 * 1024;

std::vector<std::string> EncodeKeys(const std::vector<core::Key>& keys) {
  std::vector<std::string> stored(keys.size());
  std::transform(keys.begin(), keys.end(), stored.begin(), EncodeKey);
  return stored;
}

core::Now Earlier(core::Now now, core::Duration span) {
  now.earliest -= span;
  now.latest -= span;
  now.wall -= span;
  return now;
}

}  // namespace

// --- Opening and closing -------------------------------------------------------------------------

PostgresEngine::PostgresEngine(EngineOptions engine, PostgresOptions options,
                               std::shared_ptr<const RecordSealer> sealer)
    : engine_(std::move(engine)),
      options_(std::move(options)),
      session_options_{.uri = options_.uri,
                       .connection = {.reply_timeout = options_.reply_timeout,
                                      .allow_plaintext = options_.allow_plaintext}},
      sealer_(std::move(sealer)),
      log_(engine_.log ? engine_.log : [](int, std::string_view) {}),
      foreign_(session_options_.uri, session_options_.connection, &shared_) {}

absl::StatusOr<std::unique_ptr<PostgresEngine>> PostgresEngine::Open(EngineOptions engine,
                                                                     PostgresOptions options) {
  if (options.uri.empty()) {
    return absl::InvalidArgumentError("PostgreSQL needs a URI: postgresql://USER@HOST/DATABASE");
  }
  if (options.connections == 0 || options.connections > kMaxConnections) {
    return absl::InvalidArgumentError(
        absl::StrCat("PostgreSQL needs 1 to ", kMaxConnections, " connections"));
  }
  if (!engine.now) return absl::InvalidArgumentError("an engine needs a clock");
  auto sealer = LoadSealer(engine);
  if (!sealer.ok()) return sealer.status();
  std::unique_ptr<PostgresEngine> opened(
      new PostgresEngine(std::move(engine), std::move(options), *std::move(sealer)));
  Worker first;
  if (absl::Status status = opened->Prepare(first); !status.ok()) return status;
  opened->Start(std::move(first));
  return opened;
}

absl::Status PostgresEngine::Prepare(Worker& first) {
  PgOptions where = session_options_.connection;
  if (PgConnection::HostsNamed(options_.uri) > 1) {
    const absl::StatusOr<size_t> host = NewestHost(options_.uri, where, options_.look_timeout);
    if (!host.ok()) return host.status();
    where.only_host = *host;
    shared_.host = *host;
  }
  // A session checks the tables, so that they have to be there before the first.
  const auto connection = PgConnection::Connect(options_.uri, where);
  if (!connection.ok()) return connection.status();
  const auto facts = PrepareServer(**connection);
  if (!facts.ok()) return facts.status();
  if (absl::Status status = MigrateSchema(**connection); !status.ok()) return status;
  // From here on sessions find the same server, whichever they come to first.
  shared_.Note(facts->place);
  // Also before what a loss has left is settled: that would be stored without what is sealed.
  const absl::Status keys =
      CheckResponseKeys(**connection, sealer_->keys(), engine_.lost_response_keys);
  if (!keys.ok()) return keys;
  const absl::StatusOr<PostgresSession*> session = Ready(first);
  if (!session.ok()) return session.status();
  // Its tokens have to be covered by a floor that was read.
  if (const auto read = (*session)->Read({}, 0); !read.ok()) return read.status();
  const auto lost_before = SettleLoss(**session, *sealer_, engine_.now(), log_);
  if (!lost_before.ok()) return lost_before.status();
  lost_before_ = *lost_before;
  prepared_ = true;
  log_(kLogInfo,
       absl::StrCat("connected to ", facts->version, "; a commit waits for ",
                    facts->synchronous_standbys.empty() ? "no standby" : "synchronous standbys"));
  return absl::OkStatus();
}

void PostgresEngine::Start(Worker first) {
  instance_ = first.slot.instance;
  if (const auto others = first.session->ShowAlive(instance_); others.ok()) {
    foreign_.SetOthers(*others);
  }
  foreign_.Start(instance_);
  workers_.emplace_back([this, worker = std::move(first)]() mutable { Work(std::move(worker)); });
  for (size_t i = 1; i < options_.connections; ++i) {
    Worker worker{.slot = {.instance = instance_, .slot = static_cast<int64_t>(i)}};
    workers_.emplace_back(
        [this, worker = std::move(worker)]() mutable { Work(std::move(worker)); });
  }
  if (options_.upkeep_interval > core::Duration::zero()) {
    upkeep_ = std::thread([this] { KeepUp(); });
  }
}

PostgresEngine::~PostgresEngine() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  upkeep_waker_.Wake();
  closing_waker_.Wake();
  if (upkeep_.joinable()) upkeep_.join();
  for (std::thread& worker : workers_) worker.join();
}

bool PostgresEngine::HasWork() const { return !tasks_.empty() || (closing_ && busy_ == 0); }

bool PostgresEngine::IsClosing() const {
  absl::MutexLock lock(&mutex_);
  return closing_;
}

void PostgresEngine::Enqueue(Task task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
}

void PostgresEngine::Work(Worker worker) {
  for (;;) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &PostgresEngine::HasWork));
      if (tasks_.empty()) break;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      ++busy_;
    }
    std::move(task)(worker);
    task = nullptr;
    absl::MutexLock lock(&mutex_);
    --busy_;
  }
  // Whoever ends last leaves the slots behind, which others take after a while.
  if (worker.slot.slot == 0 && worker.session != nullptr && worker.session->usable()) {
    const absl::Status left = worker.session->Leave(instance_);
    if (!left.ok()) log_(kLogInfo, std::string(left.message()));
  }
}

void PostgresEngine::KeepUp() {
  Worker worker{
      .slot = {.instance = instance_, .slot = static_cast<int64_t>(options_.connections)}};
  for (;;) {
    // Nobody else may look whether it can be reached again: new keys are refused meanwhile.
    WaitFor(upkeep_waker_, reachable_ ? options_.upkeep_interval
                                      : std::min(options_.upkeep_interval, kReachedAgain));
    upkeep_waker_.Reset();
    if (IsClosing()) return;
    const absl::StatusOr<UpkeepReport> report = UpkeepNow(worker);
    if (!report.ok()) log_(kLogDebug, std::string(report.status().message()));
    // A pause in any case: where this session works and those of others do not, each of them wakes
    // it.
    WaitFor(closing_waker_, std::min(options_.upkeep_interval, kReachedAgain));
    if (IsClosing()) return;
  }
}

// --- Sessions ------------------------------------------------------------------------------------

absl::StatusOr<PostgresSession*> PostgresEngine::Ready(Worker& worker) {
  if (worker.session != nullptr && worker.session->usable()) return worker.session.get();
  worker.session = nullptr;
  if (worker.had_session) BeginGeneration();
  auto session = PostgresSession::Open(session_options_, &shared_, &worker.slot);
  if (!session.ok()) {
    SetReachable(false, session.status());
    return session.status();
  }
  if (absl::Status status = CheckOrigin(**session); !status.ok()) {
    SetReachable(false, status);
    return status;
  }
  // That it is not retired any more the next upkeep says: of two sessions that open at once either
  // may be the one that has looked before.
  if ((*session)->is_retired()) retired_ = true;
  worker.session = *std::move(session);
  worker.had_session = true;
  // What the slot's earlier sessions have sent is beaten by now.
  DropDoubts(worker.slot, worker.session->epoch());
  SetReachable(true, absl::OkStatus());
  return worker.session.get();
}

template <typename Result, typename Ask>
absl::StatusOr<Result> PostgresEngine::AskTwice(Worker& worker, Ask ask) {
  absl::StatusOr<Result> result = absl::UnavailableError("the database has not been asked");
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<PostgresSession*> session = Ready(worker);
    if (!session.ok()) return absl::UnavailableError(session.status().message());
    result = ask(**session);
    if (result.ok()) SetReachable(true, absl::OkStatus());
    if (result.ok() || (*session)->usable()) break;
  }
  return result;
}

void PostgresEngine::SetReachable(bool reachable, const absl::Status& why) {
  if (reachable_.exchange(reachable) == reachable) return;
  if (reachable) return log_(kLogInfo, "PostgreSQL can be reached again");
  log_(kLogWarning, absl::StrCat("PostgreSQL cannot be used: ", why.message()));
  // It sleeps for as long as all is well.
  upkeep_waker_.Wake();
}

absl::Status PostgresEngine::DeadError() const {
  return absl::UnavailableError("the engine has stopped after a failed write; restart the process");
}

absl::Status PostgresEngine::CheckOrigin(PostgresSession& session) {
  if (!prepared_) return absl::OkStatus();
  const absl::StatusOr<TableOrigin> origin = session.ReadOrigin();
  if (!origin.ok()) return absl::UnavailableError(origin.status().message());
  // Another may have settled already what this one finds only now.
  const bool lost =
      IsRestored(*origin) || origin->lost_before_ms != lost_before_.time_since_epoch().count();
  if (!lost) return absl::OkStatus();
  Die("the engine ends: the database was restored from a dump or copied while it was in use, and "
      "what was acknowledged after that is lost; the next start settles what was pending");
  return DeadError();
}

void PostgresEngine::Die(std::string_view why) {
  if (alive_.exchange(false)) log_(kLogError, why);
}

// --- What was found absent -----------------------------------------------------------------------

uint64_t PostgresEngine::generation() const {
  absl::MutexLock lock(&mutex_);
  return generation_;
}

void PostgresEngine::BeginGeneration() {
  absl::MutexLock lock(&mutex_);
  ++generation_;
  absent_.clear();
}

void PostgresEngine::NoteAbsent(const std::vector<std::string>& keys, const ReadResult& result,
                                uint64_t generation) {
  absl::MutexLock lock(&mutex_);
  if (generation_ == 0 || generation_ != generation) return;
  // Those who ask for an absent key and write nothing. Whoever would have is made to ask again.
  if (absent_.size() > kMaxAbsentKeys) absent_.clear();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (result.entries[i].version == 0) absent_.insert(keys[i]);
  }
}

std::vector<PostgresRow> PostgresEngine::WithoutStale(std::vector<PostgresRow> rows) {
  absl::MutexLock lock(&mutex_);
  if (generation_ == 0) return rows;
  const auto is_stale = [this](const PostgresRow& row) {
    mutex_.AssertHeld();
    return row.expected == 0 && absent_.erase(row.key) == 0;
  };
  rows.erase(std::remove_if(rows.begin(), rows.end(), is_stale), rows.end());
  return rows;
}

// --- Doubts --------------------------------------------------------------------------------------

void PostgresEngine::AddDoubt(const SlotName& slot, int64_t epoch,
                              const std::vector<PostgresRow>& rows) {
  Doubt doubt{.slot = slot, .epoch = epoch};
  for (const PostgresRow& row : rows) doubt.keys.insert(row.key);
  absl::MutexLock lock(&mutex_);
  doubts_.push_back(std::move(doubt));
}

void PostgresEngine::DropDoubts(const SlotName& slot, int64_t epoch) {
  const auto is_settled = [&](const Doubt& doubt) {
    return doubt.slot == slot && doubt.epoch < epoch;
  };
  absl::MutexLock lock(&mutex_);
  doubts_.erase(std::remove_if(doubts_.begin(), doubts_.end(), is_settled), doubts_.end());
}

std::vector<SlotName> PostgresEngine::DoubtfulSlots(const std::vector<std::string>& keys) {
  std::vector<SlotName> slots;
  absl::MutexLock lock(&mutex_);
  for (const Doubt& doubt : doubts_) {
    const bool asked = std::any_of(keys.begin(), keys.end(), [&doubt](const std::string& key) {
      return doubt.keys.contains(key);
    });
    if (asked) slots.push_back(doubt.slot);
  }
  return slots;
}

absl::Status PostgresEngine::SettleDoubts(PostgresSession& session,
                                          const std::vector<std::string>& keys) {
  for (const SlotName& slot : DoubtfulSlots(keys)) {
    const absl::StatusOr<int64_t> epoch = session.Fence(slot);
    if (!epoch.ok()) return epoch.status();
    DropDoubts(slot, *epoch);
  }
  return absl::OkStatus();
}

void PostgresEngine::AddRefused(const std::vector<PostgresRow>& rows) {
  absl::MutexLock lock(&mutex_);
  for (const PostgresRow& row : rows) refused_.insert(row.key);
}

bool PostgresEngine::TakeRefused(const std::vector<std::string>& keys) {
  absl::MutexLock lock(&mutex_);
  if (refused_.empty()) return false;
  size_t taken = 0;
  for (const std::string& key : keys) taken += refused_.erase(key);
  return taken != 0;
}

// --- Reading -------------------------------------------------------------------------------------

void PostgresEngine::Read(std::vector<core::Key> keys, ReadDone done) {
  Enqueue([this, keys = std::move(keys), done = std::move(done)](Worker& worker) mutable {
    std::move(done)(ReadNow(worker, keys));
  });
}

absl::StatusOr<ReadResult> PostgresEngine::ReadNow(Worker& worker,
                                                   const std::vector<core::Key>& keys) {
  if (!alive_) return DeadError();
  const std::vector<std::string> stored_keys = EncodeKeys(keys);
  if (TakeRefused(stored_keys)) {
    return absl::UnavailableError("the database has refused to write these records");
  }
  uint64_t asked_in = 0;
  const auto read =
      AskTwice<RowsRead>(worker, [&](PostgresSession& session) -> absl::StatusOr<RowsRead> {
        asked_in = generation();
        if (absl::Status status = SettleDoubts(session, stored_keys); !status.ok()) return status;
        return session.Read(stored_keys, core::kMaxReadBytes);
      });
  if (!read.ok()) return read.status();
  ReadResult result = EntriesOf(*read, keys.size());
  NoteAbsent(stored_keys, result, asked_in);
  return result;
}

ReadResult PostgresEngine::EntriesOf(const RowsRead& read, size_t keys) {
  ReadResult result{.entries = std::vector<ReadEntry>(keys), .token_floor = read.token_floor};
  for (const StoredRow& row : read.rows) {
    ReadEntry& entry = result.entries[row.index];
    entry.version = row.version;
    entry.put_off = row.put_off;
    if (row.erased || row.put_off) continue;
    std::optional<OpenedRecord> opened = sealer_->Decode(row.key, row.record);
    if (!opened.has_value()) {
      entry.stored = core::Unreadable{};
      continue;
    }
    if (opened->record.state == core::State::kPending) foreign_.Watch(row.key, row.version);
    entry.stored = std::move(opened->record);
  }
  return result;
}

void PostgresEngine::Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) {
  Enqueue([this, filter = std::move(filter), limit, resume_key = std::move(resume_key),
           done = std::move(done)](Worker& worker) mutable {
    std::move(done)(ScanNow(worker, filter, limit, resume_key));
  });
}

absl::StatusOr<ScanResult> PostgresEngine::ScanNow(Worker& worker, const ScanFilter& filter,
                                                   size_t limit, const std::string& resume_key) {
  if (!alive_) return DeadError();
  if (limit == 0) return absl::InvalidArgumentError("a scan needs a limit above zero");
  const absl::StatusOr<ScanRange> range = ScanRange::Make(filter, resume_key);
  if (!range.ok()) return range.status();
  return AskTwice<ScanResult>(worker, [&](PostgresSession& session) -> absl::StatusOr<ScanResult> {
    PostgresScan source(session, *sealer_, range->open_only(), limit);
    ScanResult page = RunScan(*range, limit, source);
    if (absl::Status status = source.status(); !status.ok()) return status;
    return page;
  });
}

// --- Writing -------------------------------------------------------------------------------------

void PostgresEngine::Commit(std::vector<GuardedWrite> writes, CommitDone done) {
  Enqueue([this, writes = std::move(writes), done = std::move(done)](Worker& worker) mutable {
    std::move(done)(CommitNow(worker, writes));
  });
}

bool PostgresEngine::MakeRow(const core::Record& record, PostgresRow* row) {
  const std::string_view broken = core::BrokenRule(record);
  if (!broken.empty()) {
    Die(absl::StrCat("a record breaks a rule and is not written: ", std::string(broken)));
    return false;
  }
  row->state = static_cast<int64_t>(record.state);
  row->expires_ms = ExpiresAt(record);
  row->token = record.token;
  if (sealer_->Encode(row->key, record, &row->record.emplace())) return true;
  Die("a record could not be sealed");
  return false;
}

bool PostgresEngine::MakeRows(const std::vector<GuardedWrite>& writes,
                              std::vector<PostgresRow>* rows) {
  const int64_t now_ms = engine_.now().latest.time_since_epoch().count();
  for (size_t i = 0; i < writes.size(); ++i) {
    PostgresRow& row = rows->emplace_back(PostgresRow{.key = EncodeKey(writes[i].key),
                                                      .expected = writes[i].expected,
                                                      .expires_ms = now_ms,
                                                      .place = i});
    if (writes[i].record != nullptr && !MakeRow(*writes[i].record, &row)) return false;
  }
  std::sort(rows->begin(), rows->end(),
            [](const PostgresRow& a, const PostgresRow& b) { return a.key < b.key; });
  return true;
}

std::vector<WriteOutcome> PostgresEngine::CommitNow(Worker& worker,
                                                    const std::vector<GuardedWrite>& writes) {
  std::vector<WriteOutcome> outcomes(writes.size(), WriteOutcome::kUnknown);
  std::vector<PostgresRow> rows;
  if (!alive_ || !MakeRows(writes, &rows)) return outcomes;
  outcomes.assign(writes.size(), WriteOutcome::kLostRace);
  const absl::StatusOr<PostgresSession*> session = Ready(worker);
  // The read that follows fails, too, unless it can be reached by then.
  if (!session.ok()) return outcomes;
  if (!Takes(writes, **session)) {
    AddRefused(rows);
    return outcomes;
  }
  rows = WithoutStale(std::move(rows));
  if (rows.empty()) return outcomes;
  const WriteReply reply = WriteRows(worker, rows, **session);
  for (size_t i = 0; i < rows.size(); ++i) {
    WriteOutcome& outcome = outcomes[rows[i].place];
    if (reply.kind == WriteReply::Kind::kUnknown) outcome = WriteOutcome::kUnknown;
    if (reply.kind == WriteReply::Kind::kDone && reply.written[i]) {
      outcome = WriteOutcome::kCommitted;
    }
  }
  if (reply.kind == WriteReply::Kind::kDone) TellOthers(rows, reply.written);
  return outcomes;
}

bool PostgresEngine::Takes(const std::vector<GuardedWrite>& writes, PostgresSession& session) {
  if (!session.is_retired() || WritesMarksAlone(writes)) return true;
  // It may have been taken back since.
  if (session.LookForRetirement().ok() && !session.is_retired()) return true;
  retired_ = true;
  return false;
}

WriteReply PostgresEngine::WriteRows(Worker& worker, const std::vector<PostgresRow>& rows,
                                     PostgresSession& session) {
  using Kind = WriteReply::Kind;
  WriteReply reply;
  for (int i = 0; i < kMaxWriteTries; ++i) {
    reply = session.Write(rows);
    if (reply.kind != Kind::kAgain || !session.usable()) break;
  }
  // Nothing says that it would work the next time: whoever asked is told, instead of going round.
  if (reply.kind == Kind::kAgain && session.usable()) reply.kind = Kind::kRefused;
  switch (reply.kind) {
    case Kind::kDone:
      full_ = false;
      SetReachable(true, absl::OkStatus());
      break;
    case Kind::kAgain:
    case Kind::kFenced:
      // Read and stepped again: what was read may be older than what took the slot.
      break;
    case Kind::kRefused:
      log_(kLogWarning, absl::StrCat("PostgreSQL refuses a batch: ", reply.why.message));
      if (reply.why.sqlstate == "53100") full_ = true;
      AddRefused(rows);
      break;
    case Kind::kUnknown:
      log_(kLogWarning,
           absl::StrCat("it is not known whether a batch was written: ", reply.why.message));
      AddDoubt(worker.slot, session.epoch(), rows);
      worker.session = nullptr;
      break;
  }
  return reply;
}

// Who waits elsewhere for an operation that has ended here.
void PostgresEngine::TellOthers(const std::vector<PostgresRow>& rows,
                                const std::vector<bool>& written) {
  if (!foreign_.has_others()) return;
  std::vector<std::string> ended;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool pending = rows[i].state == static_cast<int64_t>(core::State::kPending);
    if (written[i] && !pending) ended.push_back(rows[i].key);
  }
  if (!ended.empty()) foreign_.Tell(std::move(ended));
}

// --- Upkeep --------------------------------------------------------------------------------------

absl::StatusOr<UpkeepReport> PostgresEngine::Upkeep() {
  absl::Notification finished;
  absl::StatusOr<UpkeepReport> report;
  Enqueue([&](Worker& worker) {
    report = UpkeepNow(worker);
    finished.Notify();
  });
  finished.WaitForNotification();
  return report;
}

absl::StatusOr<UpkeepReport> PostgresEngine::UpkeepNow(Worker& worker) {
  return AskTwice<UpkeepReport>(
      worker, [&](PostgresSession& session) -> absl::StatusOr<UpkeepReport> {
        UpkeepReport report;
        if (absl::Status status = CheckOrigin(session); !status.ok()) return status;
        if (absl::Status status = session.LookForRetirement(); !status.ok()) return status;
        retired_ = session.is_retired();
        // First: what was sent by those that have ended must be beaten before "nothing" loses
        // its version.
        const absl::StatusOr<size_t> others = session.ShowAlive(instance_);
        if (!others.ok()) return others.status();
        // It writes. Where there is no room for more than that, the next new key finds out.
        full_ = false;
        report.others = *others;
        foreign_.SetOthers(*others);
        if (absl::Status status = RemoveExpired(session, &report); !status.ok()) return status;
        if (const auto size = session.Size(); size.ok()) {
          absl::MutexLock lock(&mutex_);
          stats_.table_bytes = size->bytes;
          stats_.estimated_keys = size->rows;
        }
        return report;
      });
}

absl::Status PostgresEngine::RemoveExpired(PostgresSession& session, UpkeepReport* report) {
  const core::Now then = Earlier(engine_.now(), kPostgresRemovalMargin);
  if (then.in_doubt) return absl::OkStatus();
  const int64_t then_ms = then.earliest.time_since_epoch().count();
  for (int i = 0; i < kExpiryBatches; ++i) {
    // What was moved away stays as it was moved.
    if (absl::Status status = session.LookForRetirement(); !status.ok()) return status;
    if (session.is_retired()) {
      retired_ = true;
      break;
    }
    const auto due = session.Due(then_ms, kExpiryBatch, kMaxExpiryBytes);
    if (!due.ok()) return due.status();
    ExpiredRows expired(*due, then, engine_.may_reclaim, *sealer_);
    const auto removed = session.Remove(expired.to_remove());
    if (!removed.ok()) return removed.status();
    const auto shrunk = session.Replace(expired.to_shrink());
    if (!shrunk.ok()) return shrunk.status();
    const auto postponed = session.Postpone(expired.to_postpone());
    if (!postponed.ok()) return postponed.status();
    report->removed += *removed;
    report->shrunk += *shrunk;
    report->postponed += *postponed;
    if (!due->more) break;
  }
  return absl::OkStatus();
}

// --- How it stands -------------------------------------------------------------------------------

void PostgresEngine::OnForeignChange(std::function<void(const core::Key&)> hint) {
  foreign_.SetHint(std::move(hint));
}

Traits PostgresEngine::traits() const {
  return Traits{.exclusive = false,
                .max_batch_writes = kMaxPostgresBatch,
                .clock_skew = options_.clock_skew,
                .lost_before = lost_before_};
}

Pressure PostgresEngine::pressure() const {
  return Pressure{.alive = alive_, .stalled = !reachable_, .full = full_, .retired = retired_};
}

StoreStats PostgresEngine::stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

absl::Status PostgresEngine::FenceOthers() {
  absl::Notification finished;
  absl::StatusOr<bool> fenced;
  Enqueue([&](Worker& worker) {
    fenced = AskTwice<bool>(worker, [&](PostgresSession& session) -> absl::StatusOr<bool> {
      if (absl::Status status = session.FenceOthers(instance_); !status.ok()) return status;
      return true;
    });
    finished.Notify();
  });
  finished.WaitForNotification();
  if (fenced.ok()) return absl::OkStatus();
  return absl::UnavailableError(fenced.status().message());
}

EngineCheck PostgresEngine::CheckStore() {
  const PostgresCheckFacts facts = GatherFacts(options_, [this] { return engine_.now().latest; });
  return {.engine = "postgres", .version = facts.server.version, .findings = Judge(facts)};
}

}  // namespace idempotency::keystore
