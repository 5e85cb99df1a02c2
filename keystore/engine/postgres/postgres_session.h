// A connection that the engine works with: it has been looked over, knows the statements, and holds
// a slot.
//
// A batch of writes is one statement, and so one transaction that holds locks only while the server
// runs it, not while it arrives. It names the epoch of its slot, and takes effect only while that
// is the slot's: whoever raises the epoch waits for a statement that is under way, and has beaten
// every one that comes later. That is how a write whose reply was lost is kept from taking effect
// behind the back of a later read.
//
//   version      := epoch << 29 | number of the commit in its session, from 1
//   epoch        := above all before it, and at least the seconds since 2020 by the server's clock
//   token floor  := token_base + 256 * last value of the sequence
//   token_base   := at least those seconds << 21, raised when a session opens
//
// So versions and tokens go on rising also where the database was restored from a dump, as long as
// it did fewer than 8,192 commits a second and opened less than a connection a second, on average,
// between dump and restore.
//
// Thread safety: none; one thread at a time.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_SESSION_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/postgres/pg_connection.h"
#include "keystore/engine/postgres/postgres_hosts.h"
#include "keystore/engine/postgres/postgres_schema.h"

namespace idempotency::keystore {

// As many tokens as one commit can use: the most commands of a batch.
inline constexpr size_t kMaxPostgresBatch = 256;

// Whose writes an epoch fences. Instances are processes.
struct SlotName {
  int64_t instance = 0;
  int64_t slot = 0;

  friend bool operator==(const SlotName&, const SlotName&) = default;
};

// A row as it is to be stored.
struct PostgresRow {
  std::string key;
  // What it replaces, and what it is called when it is stored anew rather than as it was.
  Version expected = 0;
  int64_t state = 0;  // zero: erased
  // When it can be looked at for removal; unset: never.
  std::optional<int64_t> expires_ms;
  // Unset: erased.
  std::optional<std::string> record;
  // Of the record; zero: none.
  uint64_t token = 0;
  // Which write it is of those that it was made of; not stored.
  size_t place = 0;
};

// A row as it is stored.
struct StoredRow {
  // Read: the place of the key among those asked for. Scans: unused.
  size_t index = 0;
  std::string_view key;
  Version version = 0;
  bool erased = false;
  // The record is there, and is not read, since those before it are large.
  bool put_off = false;
  std::string_view record;
};

// Rows, and the answer that their bytes are in.
struct RowsRead {
  PgResult result;
  std::vector<StoredRow> rows;
  uint64_t token_floor = 0;  // of Read
  bool more = false;         // of Scan and Due: there are rows behind the last
};

struct WriteReply {
  enum class Kind : uint8_t {
    kDone,     // `written` says which rows; it is durable
    kAgain,    // nothing was written; the same may work now
    kFenced,   // nothing was written; the session has lost its slot
    kRefused,  // nothing was written, and the same would be refused again, or wait as long
    kUnknown,  // it may have been written, or be written yet
  };
  Kind kind = Kind::kUnknown;
  std::vector<bool> written;
  PgFailure why;
};

struct SessionOptions {
  std::string uri;
  PgOptions connection;
};

// What the sessions of one engine know together.
struct SessionShared {
  // Keeps where the first server is that has our tables, and of its cluster the highest timeline.
  void Note(const PostgresPlace& place);
  // Only then do their timelines tell anything.
  bool IsOurs(const PostgresPlace& place) const {
    const int64_t known = cluster.load(std::memory_order_relaxed);
    return known == 0 || place.cluster == 0 || place.cluster == known;
  }
  bool IsLeftBehind(const PostgresPlace& place) const {
    return IsOurs(place) && place.timeline < timeline.load(std::memory_order_relaxed);
  }

  // Zero: none is known.
  std::atomic<int64_t> cluster{0};
  // The highest there was: who is on a lower one has been left behind.
  std::atomic<int64_t> timeline{0};
  // The highest token floor that was read or made.
  std::atomic<uint64_t> floor{0};
  // Where sessions go first.
  KnownHost host{kNoHost};
};

// How large the table of records is, with its indexes, and roughly how many rows it has.
struct TableSize {
  uint64_t bytes = 0;
  uint64_t rows = 0;
};

// Where the tables were made, as they say, and where they are. Empty: not known.
struct TableOrigin {
  std::string made_at;
  std::string here;
  int64_t lost_before_ms = 0;
};

class PostgresSession {
 public:
  // Connects, looks whether the server and the tables are as they have to be, and takes the slot
  // from whoever had it: no write of an earlier session of the slot takes effect any more. Then
  // looks whether the store is retired. Where
  // slot->instance is zero, it becomes a number that nobody else has. `shared` must outlive it.
  static absl::StatusOr<std::unique_ptr<PostgresSession>> Open(const SessionOptions& options,
                                                               SessionShared* shared,
                                                               SlotName* slot);

  // False: open another. It has broken, lost its slot, used up its versions, or is on a server that
  // another session has found to be left behind.
  bool usable() const {
    return usable_ && connection_->alive() && !shared_->IsLeftBehind(facts_.place);
  }
  int64_t epoch() const { return epoch_; }
  PgConnection& connection() { return *connection_; }

  // Those of the keys that are stored, and a floor above every token committed before. Records
  // beyond max_bytes are put off, the first is not.
  absl::StatusOr<RowsRead> Read(const std::vector<std::string>& keys, size_t max_bytes);
  // Rows in the order of their keys, each key once.
  WriteReply Write(const std::vector<PostgresRow>& rows);
  // At most so many rows and bytes (and one row) from `start` on, in order; without erased ones.
  absl::StatusOr<RowsRead> Scan(std::string_view start, bool open_only, size_t limit,
                                size_t max_bytes);

  // Rows that may be looked at for removal by then, the oldest first.
  absl::StatusOr<RowsRead> Due(int64_t expires_ms, size_t limit, size_t max_bytes);
  // Each where `expected` is still what is stored; how many that were. Replace keeps the version:
  // what is stored means the same as before. Postpone changes but when it is looked at again.
  absl::StatusOr<size_t> Replace(const std::vector<PostgresRow>& rows);
  absl::StatusOr<size_t> Postpone(const std::vector<PostgresRow>& rows);
  absl::StatusOr<size_t> Remove(const std::vector<PostgresRow>& rows);

  absl::StatusOr<TableOrigin> ReadOrigin();
  // They were made here, from now on; nothing where another has said so since `origin` was read.
  absl::Status SetOrigin(const TableOrigin& origin, int64_t lost_before_ms);

  // No write that a session of the slot with an epoch below the one that is given back has sent
  // takes effect any more.
  absl::StatusOr<int64_t> Fence(const SlotName& slot);
  // The same of all sessions of all other instances that are open by now.
  absl::Status FenceOthers(int64_t instance);
  // Looks whether the store is retired. Whoever retires it fences others off behind that: so a
  // session that has looked once since it took its slot, and has found nothing, may write for as
  // long as it has it.
  absl::Status LookForRetirement();
  // As it was found last.
  bool is_retired() const { return is_retired_; }
  // Tells that the instance is at work, and takes the slots of those that have not done so for ten
  // minutes. How many others there are.
  absl::StatusOr<size_t> ShowAlive(int64_t instance);
  // UNAVAILABLE where the server does not tell.
  absl::StatusOr<TableSize> Size();
  // The instance has ended.
  absl::Status Leave(int64_t instance);

 private:
  static absl::StatusOr<std::unique_ptr<PostgresSession>> Connect(const std::string& uri,
                                                                  const PgOptions& options,
                                                                  SessionShared* shared);
  PostgresSession(std::unique_ptr<PgConnection> connection, SessionShared* shared)
      : connection_(std::move(connection)), shared_(shared) {}

  absl::Status LookOver();
  absl::Status PrepareStatements();
  absl::StatusOr<int64_t> NextEpoch();
  absl::Status TakeSlot(SlotName* slot);
  // What a fenced statement begins with, and what it has counted. UNAVAILABLE, and not usable any
  // more, where the slot was taken away.
  PgParams OfSlot() const;
  absl::StatusOr<size_t> Counted(const PgReply& reply, const char* what);
  // A change of our own tables that is durable when it is answered.
  absl::Status Change(const char* sql, const PgParams& params, const char* what);
  absl::Status RaiseFloor(uint64_t above);
  void NoteFloor(uint64_t floor);
  WriteReply Judge(const PgReply& reply, const std::vector<PostgresRow>& rows);
  absl::Status Failed(const PgReply& reply, const char* what);

  const std::unique_ptr<PgConnection> connection_;
  SessionShared* const shared_;
  PostgresFacts facts_;
  SlotName slot_;
  int64_t epoch_ = 0;
  uint64_t commits_ = 0;
  bool usable_ = true;
  bool is_retired_ = false;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_SESSION_H_
