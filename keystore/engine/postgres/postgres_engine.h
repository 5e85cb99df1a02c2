// An engine over a PostgreSQL database that several processes share: what is committed there is
// durable, and a key is the same key for all of them.
//
// A few connections, each with a thread of its own, take what is asked in the order asked; answers
// come on those threads. Writes are guarded by versions in the database; serialization failures,
// deadlocks and unique violations are tried again as the guarded writes that they are, a few times.
// What is refused after that, or waits too long for a lock that somebody else has on a record, is
// kLostRace, and fails the next read of its keys: so whoever asked is told.
//
// Where the database turns out to be another than it was, made of a dump while it was in use, the
// engine dies, and what was lost is settled by whoever opens it next (postgres_loss.h). That is
// looked for with every connection and every upkeep. So is whether the store is retired: then
// nothing but marks is written (FenceOthers).
//
// kUnknown: the connection has gone, or the commit was not as durable as it has to be. The keys are
// remembered, and a read of one of them first takes the slot of that connection away from it
// (postgres_session.h), which waits for a statement that still runs and beats one that has not
// begun. Where that cannot be done, the read fails.
//
// Nothing that was erased is without a version: the row stays, without a record, for an hour, and
// no write that was sent before lives as long. A process that was suspended for longer finds its
// slots taken; from then on it writes a new key only where it has found it absent since.
//
// Thread safety: all methods may be called from any thread. Destroying it answers everything that
// was asked, as long as the database does.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_ENGINE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/open_engine.h"
#include "keystore/engine/postgres/foreign_changes.h"
#include "keystore/engine/postgres/postgres_options.h"
#include "keystore/engine/postgres/postgres_session.h"
#include "keystore/engine/record_sealer.h"

namespace idempotency::keystore {

// A record is removed this long after it was forgotten, so that a clock that is a little wrong
// costs space and not records.
inline constexpr core::Duration kPostgresRemovalMargin = std::chrono::hours(1);

struct UpkeepReport {
  size_t others = 0;     // instances that share the database
  size_t removed = 0;    // records and remains of erased ones
  size_t shrunk = 0;     // completed records that have lost their answer
  size_t postponed = 0;  // that stay for now, and would have been due
};

class PostgresEngine final : public Engine {
 public:
  // Connects once, and creates or migrates the tables. Of `engine` its clock, may_reclaim, log,
  // random bytes and the keys of responses count. INVALID_ARGUMENT for a bad option,
  // FAILED_PRECONDITION where the server or the tables are not as they have to be, UNAVAILABLE
  // where it cannot be reached.
  static absl::StatusOr<std::unique_ptr<PostgresEngine>> Open(EngineOptions engine,
                                                              PostgresOptions options);
  ~PostgresEngine() override;

  void Read(std::vector<core::Key> keys, ReadDone done) override;
  void Commit(std::vector<GuardedWrite> writes, CommitDone done) override;
  void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) override;
  void OnForeignChange(std::function<void(const core::Key&)> hint) override;
  Traits traits() const override;
  // Stalled while the database cannot be reached.
  Pressure pressure() const override;
  StoreStats stats() const override ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the slots of all others from them: whoever opens a session anew looks first whether the
  // store is retired. Waits for statements that are under way.
  absl::Status FenceOthers() override ABSL_LOCKS_EXCLUDED(mutex_);
  EngineCheck CheckStore() override;

  // Shows that this instance is alive, ends those that have not for long, looks whether the store
  // is retired, and removes what has expired where it is not: what the engine does by itself every
  // upkeep_interval. Waits for its end.
  absl::StatusOr<UpkeepReport> Upkeep() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A thread with its connection, where it has one.
  struct Worker {
    SlotName slot;
    std::unique_ptr<PostgresSession> session;
    bool had_session = false;
  };
  using Task = absl::AnyInvocable<void(Worker&) &&>;

  // Writes of a slot's earlier sessions that may take effect yet.
  struct Doubt {
    SlotName slot;
    int64_t epoch = 0;
    absl::flat_hash_set<std::string> keys;
  };

  PostgresEngine(EngineOptions engine, PostgresOptions options,
                 std::shared_ptr<const RecordSealer> sealer);

  absl::Status Prepare(Worker& first);
  void Start(Worker first);
  void Enqueue(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  void Work(Worker worker) ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsClosing() const ABSL_LOCKS_EXCLUDED(mutex_);
  void KeepUp();

  absl::StatusOr<PostgresSession*> Ready(Worker& worker);
  // Runs it with a session, and once more with another where the first has broken meanwhile.
  template <typename Result, typename Ask>
  absl::StatusOr<Result> AskTwice(Worker& worker, Ask ask);
  void SetReachable(bool reachable, const absl::Status& why);
  absl::Status DeadError() const;
  // UNAVAILABLE, and the engine dead, where the database is not the one that was opened.
  absl::Status CheckOrigin(PostgresSession& session);
  void Die(std::string_view why);

  absl::StatusOr<ReadResult> ReadNow(Worker& worker, const std::vector<core::Key>& keys);
  ReadResult EntriesOf(const RowsRead& read, size_t keys);
  std::vector<WriteOutcome> CommitNow(Worker& worker, const std::vector<GuardedWrite>& writes);
  // In the order of their keys. False, and the engine dead, where a record must not be written.
  bool MakeRows(const std::vector<GuardedWrite>& writes, std::vector<PostgresRow>* rows);
  bool MakeRow(const core::Record& record, PostgresRow* row);
  WriteReply WriteRows(Worker& worker, const std::vector<PostgresRow>& rows,
                       PostgresSession& session);
  // Whether it takes these writes: of a retired store, marks alone.
  bool Takes(const std::vector<GuardedWrite>& writes, PostgresSession& session);
  void TellOthers(const std::vector<PostgresRow>& rows, const std::vector<bool>& written);
  absl::StatusOr<ScanResult> ScanNow(Worker& worker, const ScanFilter& filter, size_t limit,
                                     const std::string& resume_key);
  absl::StatusOr<UpkeepReport> UpkeepNow(Worker& worker);
  absl::Status RemoveExpired(PostgresSession& session, UpkeepReport* report);

  // --- What was found absent ---
  uint64_t generation() const ABSL_LOCKS_EXCLUDED(mutex_);
  // A session was lost: what was found absent before may have come and gone.
  void BeginGeneration() ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteAbsent(const std::vector<std::string>& keys, const ReadResult& result,
                  uint64_t generation) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of writes that expect nothing, leaves those out whose key was not found absent lately.
  std::vector<PostgresRow> WithoutStale(std::vector<PostgresRow> rows) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- What a read must not overlook ---
  void AddDoubt(const SlotName& slot, int64_t epoch, const std::vector<PostgresRow>& rows)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Those of the slot's sessions whose epochs are below this one.
  void DropDoubts(const SlotName& slot, int64_t epoch) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<SlotName> DoubtfulSlots(const std::vector<std::string>& keys)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SettleDoubts(PostgresSession& session, const std::vector<std::string>& keys);
  // Keys whose write the database has refused: the next read of them fails, so that whoever asked
  // is told and does not go round.
  void AddRefused(const std::vector<PostgresRow>& rows) ABSL_LOCKS_EXCLUDED(mutex_);
  bool TakeRefused(const std::vector<std::string>& keys) ABSL_LOCKS_EXCLUDED(mutex_);

  const EngineOptions engine_;
  const PostgresOptions options_;
  const SessionOptions session_options_;
  const std::shared_ptr<const RecordSealer> sealer_;
  const LogFunction log_;
  SessionShared shared_;
  int64_t instance_ = 0;
  core::Time lost_before_;
  // Of Prepare: from then on the database has to stay the one that it is.
  bool prepared_ = false;
  ForeignChanges foreign_;

  std::atomic<bool> alive_{true};
  std::atomic<bool> reachable_{true};
  std::atomic<bool> full_{false};
  // As the newest session or the last upkeep has found it.
  std::atomic<bool> retired_{false};

  mutable absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  // Threads that have a task, which may ask for more.
  size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Doubt> doubts_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> refused_ ABSL_GUARDED_BY(mutex_);
  // How often a session was lost; then, what was found absent since, and not written yet.
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_set<std::string> absent_ ABSL_GUARDED_BY(mutex_);
  StoreStats stats_ ABSL_GUARDED_BY(mutex_);
  PgWaker upkeep_waker_;
  PgWaker closing_waker_;

  std::vector<std::thread> workers_;
  std::thread upkeep_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_ENGINE_H_
