#include "keystore/engine/postgres/postgres_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/limits.h"
#include "keystore/engine/transfer/retirement.h"

namespace idempotency::keystore {
namespace {

constexpr int kCommitBits = 29;
constexpr uint64_t kMaxCommits = (uint64_t{1} << kCommitBits) - 1;

// Every table is read as of one moment, but for the sequence, which is read as of now: so the floor
// is never older than the rows.
constexpr char kRead[] = R"(
SELECT 0::int8 AS n, m.token_base + 256 * t.last_value AS version, NULL::int8 AS size,
  NULL::bytea AS record
  FROM idempotency_meta m, idempotency_tokens t WHERE m.id = 1
UNION ALL
SELECT f.n, f.version, f.size, CASE WHEN f.before < $2::int8 THEN f.record END
FROM (SELECT q.n, r.version, octet_length(r.record)::int8 AS size, r.record,
    coalesce(sum(octet_length(r.record)) OVER
      (ORDER BY q.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
  FROM unnest($1::bytea[]) WITH ORDINALITY AS q(key, n)
  JOIN idempotency_records r ON r.key = q.key) f)";

// The slot is locked first, so that raising its epoch waits for all of this or beats all of it. The
// sub-query keeps a guard that names a version from making a row where there is none; the guard
// itself is the WHERE of the conflict, which looks at what is stored by then. `replaced` is stored
// because that WHERE sees nothing of the row to be inserted but its columns.
constexpr char kWrite[] = R"(
WITH fence AS (
  SELECT nextval('idempotency_tokens') AS block FROM idempotency_slots
  WHERE instance = $1::int8 AND slot = $2::int8 AND epoch = $3::int8 FOR SHARE),
written AS (
  INSERT INTO idempotency_records AS r (key, version, replaced, expires, state, record)
  SELECT w.key, $4::int8, w.expected, w.expires, w.state::int2, w.record
  FROM unnest($5::bytea[], $6::int8[], $7::int8[], $8::int8[], $9::bytea[])
    AS w(key, expected, expires, state, record)
  WHERE EXISTS (SELECT 1 FROM fence) AND w.expected =
    coalesce((SELECT x.version FROM idempotency_records x WHERE x.key = w.key), 0)
  ON CONFLICT (key) DO UPDATE SET version = excluded.version, replaced = excluded.replaced,
    expires = excluded.expires, state = excluded.state, record = excluded.record
  WHERE r.version = excluded.replaced
  RETURNING r.key)
SELECT NULL::bytea AS key FROM fence UNION ALL SELECT key FROM written)";

// Rows that match, at most $2 of them, each with its record where less than $3 bytes of records
// are before it.
std::string PageSql(const std::string& where, const std::string& order) {
  return absl::StrCat(
      "SELECT f.key, f.version, f.size, CASE WHEN f.before < $3::int8 THEN f.record END "
      "FROM (SELECT p.key, p.version, p.expires, octet_length(p.record)::int8 AS size, p.record, "
      "coalesce(sum(octet_length(p.record)) OVER (ORDER BY p.",
      order,
      " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before "
      "FROM (SELECT key, version, expires, record FROM idempotency_records WHERE ",
      where, " ORDER BY ", order, " LIMIT $2::int8) p) f ORDER BY f.", order);
}

// What expires is removed behind the same fence as every write: whoever raises the slot's epoch
// waits for it, or it removes nothing. Tells whether the fence was there, and how many rows it
// were.
std::string FencedSql(const std::string& change) {
  return absl::StrCat(
      "WITH fence AS (SELECT 1 FROM idempotency_slots "
      "WHERE instance = $1::int8 AND slot = $2::int8 AND epoch = $3::int8 FOR SHARE), changed AS (",
      change,
      " WHERE r.key = w.key AND r.version = w.expected RETURNING 1) "
      "SELECT (SELECT count(*) FROM fence), (SELECT count(*) FROM changed)");
}

constexpr char kReplace[] = R"(
UPDATE idempotency_records r
SET expires = w.expires, state = w.state::int2, record = w.record
FROM fence, unnest($4::bytea[], $5::int8[], $6::int8[], $7::int8[], $8::bytea[])
  AS w(key, expected, expires, state, record))";

constexpr char kPostpone[] = R"(
UPDATE idempotency_records r SET expires = w.expires
FROM fence, unnest($4::bytea[], $5::int8[], $6::int8[]) AS w(key, expected, expires))";

constexpr char kRemove[] = R"(
DELETE FROM idempotency_records r
USING fence, unnest($4::bytea[], $5::int8[]) AS w(key, expected))";

// 1577836800: 2020-01-01.
constexpr char kNextEpoch[] = R"(
WITH clock AS (SELECT floor(extract(epoch FROM clock_timestamp()))::int8 - 1577836800 AS seconds)
UPDATE idempotency_meta SET
  last_epoch = greatest(last_epoch + 1, (SELECT seconds FROM clock)),
  token_base = greatest(token_base, (SELECT seconds FROM clock) << 21)
WHERE id = 1 RETURNING last_epoch)";

constexpr char kShowInstance[] = R"(
INSERT INTO idempotency_instances (instance, seen) VALUES ($1::int8, now())
ON CONFLICT (instance) DO UPDATE SET seen = excluded.seen)";

constexpr char kTakeSlot[] = R"(
INSERT INTO idempotency_slots AS s (instance, slot, epoch) VALUES ($1::int8, $2::int8, $3::int8)
ON CONFLICT (instance, slot) DO UPDATE SET epoch = excluded.epoch WHERE s.epoch < excluded.epoch)";

constexpr char kFence[] = R"(
UPDATE idempotency_slots SET epoch = $3::int8
WHERE instance = $1::int8 AND slot = $2::int8 AND epoch < $3::int8)";

constexpr char kFenceOthers[] = R"(
UPDATE idempotency_slots SET epoch = $2::int8
WHERE instance <> $1::int8 AND epoch < $2::int8)";

constexpr char kCountKey[] =
    "SELECT count(*) FROM idempotency_records WHERE key = $1::bytea AND record IS NOT NULL";

constexpr char kRaiseFloor[] =
    "UPDATE idempotency_meta SET token_base = greatest(token_base, $1::int8) WHERE id = 1";

constexpr char kReadOrigin[] = "SELECT origin, lost_before FROM idempotency_meta WHERE id = 1";
// Only PostgreSQL itself tells.
constexpr char kHere[] = R"(
SELECT s.system_identifier::text || '/' || d.oid::text || '/' ||
  'idempotency_records'::regclass::oid::text
FROM pg_control_system() s, pg_database d WHERE d.datname = current_database())";
constexpr char kSetOrigin[] = R"(
UPDATE idempotency_meta SET origin = $1::text, lost_before = $2::int8
WHERE id = 1 AND origin = $3::text)";

constexpr char kTakeInstances[] =
    "DELETE FROM idempotency_instances WHERE seen < now() - interval '10 minutes'";
constexpr char kTakeSlots[] = R"(
DELETE FROM idempotency_slots s
WHERE NOT EXISTS (SELECT 1 FROM idempotency_instances i WHERE i.instance = s.instance))";
constexpr char kCountOthers[] =
    "SELECT count(*) FROM idempotency_instances WHERE instance <> $1::int8";
constexpr char kSize[] = R"(
SELECT pg_total_relation_size(oid)::int8, greatest(reltuples, 0)::int8
FROM pg_class WHERE oid = 'idempotency_records'::regclass)";
constexpr char kLeaveInstance[] = "DELETE FROM idempotency_instances WHERE instance = $1::int8";

std::vector<std::pair<std::string, std::string>> Statements() {
  return {{"read", kRead},
          {"write", kWrite},
          {"scan", PageSql("key >= $1::bytea AND record IS NOT NULL", "key")},
          {"scan_open", PageSql("key >= $1::bytea AND state IN (1, 3)", "key")},
          {"due", PageSql("expires <= $1::int8", "expires")},
          {"replace", FencedSql(kReplace)},
          {"postpone", FencedSql(kPostpone)},
          {"remove", FencedSql(kRemove)}};
}

// The transaction was rolled back for the sake of another, and may be tried again. Unique
// violations come from YugabyteDB, which reports a lost race so. Not where a lock was waited for in
// vain (55P03): it has taken lock_timeout, and everything else waits behind it.
bool MayWorkAgain(std::string_view sqlstate) {
  return sqlstate == "40001" || sqlstate == "40P01" || sqlstate == "23505" || sqlstate == "57014";
}

// The server does not know either (CockroachDB), or says it while it ends the session.
bool IsUnknown(std::string_view sqlstate) {
  return sqlstate.empty() || sqlstate == "40003" || sqlstate.substr(0, 3) == "57P";
}

// It does not take writes any more: it is not the primary now.
bool IsReadOnly(std::string_view sqlstate) { return sqlstate == "25006"; }

}  // namespace

// --- Opening -------------------------------------------------------------------------------------

void SessionShared::Note(const PostgresPlace& place) {
  int64_t none = 0;
  if (place.cluster != 0) cluster.compare_exchange_strong(none, place.cluster);
  if (!IsOurs(place)) return;
  int64_t known = timeline.load();
  while (known < place.timeline && !timeline.compare_exchange_weak(known, place.timeline)) {
  }
}

absl::StatusOr<std::unique_ptr<PostgresSession>> PostgresSession::Open(
    const SessionOptions& options, SessionShared* shared, SlotName* slot) {
  std::unique_ptr<PostgresSession> session;
  const auto attempt = [&](const PgOptions& one) -> absl::Status {
    auto made = Connect(options.uri, one, shared);
    if (made.ok()) session = *std::move(made);
    return made.status();
  };
  absl::Status status = TryHosts(options.uri, options.connection, &shared->host, attempt);
  if (status.ok()) status = session->PrepareStatements();
  if (status.ok()) status = session->TakeSlot(slot);
  if (status.ok()) status = session->LookForRetirement();
  if (!status.ok()) return status;
  return session;
}

absl::StatusOr<std::unique_ptr<PostgresSession>> PostgresSession::Connect(const std::string& uri,
                                                                          const PgOptions& options,
                                                                          SessionShared* shared) {
  auto connection = PgConnection::Connect(uri, options);
  if (!connection.ok()) return connection.status();
  std::unique_ptr<PostgresSession> session(new PostgresSession(*std::move(connection), shared));
  if (absl::Status status = session->LookOver(); !status.ok()) return status;
  return session;
}

absl::Status PostgresSession::LookOver() {
  absl::StatusOr<PostgresFacts> facts = PrepareServer(*connection_);
  if (!facts.ok()) return facts.status();
  facts_ = *std::move(facts);
  if (shared_->IsLeftBehind(facts_.place)) {
    return absl::AbortedError(absl::StrCat(connection_->Peer().host, " is on timeline ",
                                           facts_.place.timeline,
                                           ", and another was promoted to timeline ",
                                           shared_->timeline.load(), ": it has been left behind"));
  }
  if (absl::Status status = CheckSchema(*connection_); !status.ok()) {
    if (shared_->IsOurs(facts_.place)) return status;
    return absl::AbortedError(absl::StrCat(
        connection_->Peer().host, " is of another cluster: ", std::string(status.message())));
  }
  // Not before: a server without our tables would shut out the one that has them.
  shared_->Note(facts_.place);
  return absl::OkStatus();
}

absl::Status PostgresSession::PrepareStatements() {
  for (const auto& [name, sql] : Statements()) {
    const PgReply reply = connection_->Prepare(name, sql);
    if (!reply.ok()) return ToStatus(*reply.failure, absl::StrCat("cannot prepare ", name));
  }
  return absl::OkStatus();
}

absl::Status PostgresSession::Change(const char* sql, const PgParams& params, const char* what) {
  const PgReply reply = connection_->Execute(sql, params);
  if (!reply.ok()) return ToStatus(*reply.failure, what);
  if (reply.warning.empty()) return absl::OkStatus();
  usable_ = false;
  return absl::UnavailableError(absl::StrCat(what, ": ", reply.warning));
}

absl::StatusOr<int64_t> PostgresSession::NextEpoch() {
  const PgReply reply = connection_->Execute(kNextEpoch);
  if (!reply.ok()) return ToStatus(*reply.failure, "cannot take an epoch");
  if (!reply.warning.empty()) return absl::UnavailableError(reply.warning);
  if (reply.result.rows() != 1) {
    return absl::FailedPreconditionError("the table idempotency_meta is empty");
  }
  return reply.result.Int(0, 0);
}

absl::Status PostgresSession::TakeSlot(SlotName* slot) {
  const absl::StatusOr<int64_t> epoch = NextEpoch();
  if (!epoch.ok()) return epoch.status();
  if (slot->instance == 0) slot->instance = *epoch;
  slot_ = *slot;
  epoch_ = *epoch;
  absl::Status status =
      Change(kShowInstance, PgParams().Int(slot_.instance), "cannot show the instance");
  if (!status.ok()) return status;
  return Change(kTakeSlot, PgParams().Int(slot_.instance).Int(slot_.slot).Int(epoch_),
                "cannot take the slot");
}

absl::StatusOr<int64_t> PostgresSession::Fence(const SlotName& slot) {
  const absl::StatusOr<int64_t> epoch = NextEpoch();
  if (!epoch.ok()) return epoch.status();
  const absl::Status fenced = Change(
      kFence, PgParams().Int(slot.instance).Int(slot.slot).Int(*epoch), "cannot fence a slot");
  if (!fenced.ok()) return fenced;
  return *epoch;
}

absl::Status PostgresSession::FenceOthers(int64_t instance) {
  const absl::StatusOr<int64_t> epoch = NextEpoch();
  if (!epoch.ok()) return epoch.status();
  return Change(kFenceOthers, PgParams().Int(instance).Int(*epoch), "cannot fence other servers");
}

absl::Status PostgresSession::LookForRetirement() {
  const PgReply found =
      connection_->Execute(kCountKey, PgParams().Bytes(EncodeKey(RetirementKey())));
  if (!found.ok()) return ToStatus(*found.failure, "cannot look whether the store is retired");
  is_retired_ = found.result.Int(0, 0) != 0;
  return absl::OkStatus();
}

absl::StatusOr<TableOrigin> PostgresSession::ReadOrigin() {
  const PgReply stored = connection_->Execute(kReadOrigin);
  if (!stored.ok()) return ToStatus(*stored.failure, "cannot read where the tables were made");
  if (stored.result.rows() != 1) {
    return absl::FailedPreconditionError("the table idempotency_meta is empty");
  }
  TableOrigin origin{.made_at = std::string(stored.result.Bytes(0, 0)),
                     .lost_before_ms = stored.result.Int(0, 1)};
  const PgReply here = connection_->Execute(kHere);
  if (here.ok() && here.result.rows() == 1) origin.here = here.result.Bytes(0, 0);
  if (!connection_->alive()) return ToStatus(*here.failure, "cannot ask where the tables are");
  return origin;
}

absl::Status PostgresSession::SetOrigin(const TableOrigin& origin, int64_t lost_before_ms) {
  return Change(kSetOrigin, PgParams().Bytes(origin.here).Int(lost_before_ms).Bytes(origin.made_at),
                "cannot say where the tables were made");
}

// --- Reading -------------------------------------------------------------------------------------

absl::Status PostgresSession::Failed(const PgReply& reply, const char* what) {
  if (IsReadOnly(reply.failure->sqlstate)) usable_ = false;
  return absl::UnavailableError(absl::StrCat(what, ": ", reply.failure->message));
}

void PostgresSession::NoteFloor(uint64_t floor) {
  uint64_t known = shared_->floor.load();
  while (known < floor && !shared_->floor.compare_exchange_weak(known, floor)) {
  }
}

absl::StatusOr<RowsRead> PostgresSession::Read(const std::vector<std::string>& keys,
                                               size_t max_bytes) {
  PgReply reply = connection_->ExecutePrepared(
      "read",
      PgParams().ByteArrays({keys.begin(), keys.end()}).Int(static_cast<int64_t>(max_bytes)));
  if (!reply.ok()) return Failed(reply, "cannot read");
  RowsRead read{.result = std::move(reply.result)};
  for (size_t i = 0; i < read.result.rows(); ++i) {
    const auto n = static_cast<size_t>(read.result.Int(i, 0));
    const auto version = static_cast<uint64_t>(read.result.Int(i, 1));
    if (n == 0) {
      read.token_floor = version;
      continue;
    }
    if (n > keys.size()) return absl::UnavailableError("the server answers what was not asked");
    const bool erased = read.result.IsNull(i, 2);
    read.rows.push_back({.index = n - 1,
                         .key = keys[n - 1],
                         .version = version,
                         .erased = erased,
                         .put_off = !erased && read.result.IsNull(i, 3),
                         .record = read.result.Bytes(i, 3)});
  }
  if (read.token_floor == 0) return absl::UnavailableError("the server has told no token floor");
  NoteFloor(read.token_floor);
  return read;
}

namespace {

// A page of keys in order; what was put off for its size, and all behind it, is left for the next.
RowsRead PageOf(PgResult result, size_t limit) {
  RowsRead page{.result = std::move(result)};
  page.more = page.result.rows() >= limit;
  for (size_t i = 0; i < page.result.rows(); ++i) {
    const bool erased = page.result.IsNull(i, 2);
    if (!erased && page.result.IsNull(i, 3)) {
      page.more = true;
      break;
    }
    page.rows.push_back({.key = page.result.Bytes(i, 0),
                         .version = static_cast<uint64_t>(page.result.Int(i, 1)),
                         .erased = erased,
                         .record = page.result.Bytes(i, 3)});
  }
  return page;
}

}  // namespace

absl::StatusOr<RowsRead> PostgresSession::Scan(std::string_view start, bool open_only, size_t limit,
                                               size_t max_bytes) {
  PgReply reply = connection_->ExecutePrepared(open_only ? "scan_open" : "scan",
                                               PgParams()
                                                   .Bytes(start)
                                                   .Int(static_cast<int64_t>(limit))
                                                   .Int(static_cast<int64_t>(max_bytes)));
  if (!reply.ok()) return Failed(reply, "cannot scan");
  return PageOf(std::move(reply.result), limit);
}

absl::StatusOr<RowsRead> PostgresSession::Due(int64_t expires_ms, size_t limit, size_t max_bytes) {
  PgReply reply = connection_->ExecutePrepared("due", PgParams()
                                                          .Int(expires_ms)
                                                          .Int(static_cast<int64_t>(limit))
                                                          .Int(static_cast<int64_t>(max_bytes)));
  if (!reply.ok()) return Failed(reply, "cannot look for what has expired");
  return PageOf(std::move(reply.result), limit);
}

// --- Writing -------------------------------------------------------------------------------------

namespace {

// The columns of rows, as arrays.
struct Columns {
  explicit Columns(const std::vector<PostgresRow>& rows) {
    for (const PostgresRow& row : rows) {
      keys.emplace_back(row.key);
      expected.emplace_back(static_cast<int64_t>(row.expected));
      expires.push_back(row.expires_ms);
      states.emplace_back(row.state);
      if (row.record.has_value()) {
        records.emplace_back(*row.record);
      } else {
        records.emplace_back(std::nullopt);
      }
    }
  }

  std::vector<std::optional<std::string_view>> keys;
  std::vector<std::optional<int64_t>> expected;
  std::vector<std::optional<int64_t>> expires;
  std::vector<std::optional<int64_t>> states;
  std::vector<std::optional<std::string_view>> records;
};

uint64_t NewestToken(const std::vector<PostgresRow>& rows) {
  uint64_t newest = 0;
  for (const PostgresRow& row : rows) newest = std::max(newest, row.token);
  return newest;
}

}  // namespace

// A commit moves the floor by kMaxPostgresBatch, which covers tokens that were made of any floor
// that was read before. No others come from the key store.
absl::Status PostgresSession::RaiseFloor(uint64_t above) {
  const uint64_t floor = std::min(above + 1, core::kMaxFencingToken);
  return Change(kRaiseFloor, PgParams().Int(static_cast<int64_t>(floor)),
                "cannot raise the token floor");
}

WriteReply PostgresSession::Write(const std::vector<PostgresRow>& rows) {
  const uint64_t newest = NewestToken(rows);
  if (newest >= shared_->floor.load() + kMaxPostgresBatch) {
    const absl::Status raised = RaiseFloor(newest);
    if (!raised.ok()) {
      return {.kind = usable() ? WriteReply::Kind::kAgain : WriteReply::Kind::kFenced,
              .why = {.message = std::string(raised.message())}};
    }
  }
  const int64_t version = epoch_ << kCommitBits | static_cast<int64_t>(++commits_);
  if (commits_ == kMaxCommits) usable_ = false;
  const Columns columns(rows);
  PgParams params;
  params.Int(slot_.instance).Int(slot_.slot).Int(epoch_).Int(version);
  params.ByteArrays(columns.keys).Ints(columns.expected).Ints(columns.expires);
  params.Ints(columns.states).ByteArrays(columns.records);
  return Judge(connection_->ExecutePrepared("write", params), rows);
}

WriteReply PostgresSession::Judge(const PgReply& reply, const std::vector<PostgresRow>& rows) {
  using Kind = WriteReply::Kind;
  if (!reply.ok()) {
    const std::string& sqlstate = reply.failure->sqlstate;
    Kind kind = MayWorkAgain(sqlstate) ? Kind::kAgain : Kind::kRefused;
    if (IsReadOnly(sqlstate)) kind = Kind::kFenced;
    if (IsUnknown(sqlstate)) kind = Kind::kUnknown;
    if (kind == Kind::kFenced || kind == Kind::kUnknown) usable_ = false;
    return {.kind = kind, .why = *reply.failure};
  }
  if (!reply.warning.empty()) {
    // It is stored here and not where it should be, too: a wait for a standby was broken off.
    usable_ = false;
    return {.kind = Kind::kUnknown, .why = {.message = reply.warning}};
  }
  WriteReply done{.kind = Kind::kDone, .written = std::vector<bool>(rows.size())};
  size_t at = 0;
  for (size_t i = 1; i < reply.result.rows(); ++i) {
    const std::string_view key = reply.result.Bytes(i, 0);
    while (at < rows.size() && rows[at].key != key) ++at;
    if (at < rows.size()) done.written[at] = true;
  }
  if (reply.result.rows() == 0 || !reply.result.IsNull(0, 0)) {
    usable_ = false;
    return {.kind = Kind::kFenced, .why = {.message = "the slot has another epoch"}};
  }
  return done;
}

PgParams PostgresSession::OfSlot() const {
  return PgParams().Int(slot_.instance).Int(slot_.slot).Int(epoch_);
}

absl::StatusOr<size_t> PostgresSession::Counted(const PgReply& reply, const char* what) {
  if (!reply.ok()) return Failed(reply, what);
  if (reply.result.Int(0, 0) == 0) {
    usable_ = false;
    return absl::UnavailableError(absl::StrCat(what, ": the slot has another epoch"));
  }
  return static_cast<size_t>(reply.result.Int(0, 1));
}

absl::StatusOr<size_t> PostgresSession::Replace(const std::vector<PostgresRow>& rows) {
  if (rows.empty()) return size_t{0};
  const Columns columns(rows);
  PgReply reply = connection_->ExecutePrepared("replace", OfSlot()
                                                              .ByteArrays(columns.keys)
                                                              .Ints(columns.expected)
                                                              .Ints(columns.expires)
                                                              .Ints(columns.states)
                                                              .ByteArrays(columns.records));
  return Counted(reply, "cannot shrink what has expired");
}

absl::StatusOr<size_t> PostgresSession::Postpone(const std::vector<PostgresRow>& rows) {
  if (rows.empty()) return size_t{0};
  const Columns columns(rows);
  PgReply reply = connection_->ExecutePrepared(
      "postpone", OfSlot().ByteArrays(columns.keys).Ints(columns.expected).Ints(columns.expires));
  return Counted(reply, "cannot postpone what stays");
}

absl::StatusOr<size_t> PostgresSession::Remove(const std::vector<PostgresRow>& rows) {
  if (rows.empty()) return size_t{0};
  const Columns columns(rows);
  PgReply reply = connection_->ExecutePrepared(
      "remove", OfSlot().ByteArrays(columns.keys).Ints(columns.expected));
  return Counted(reply, "cannot remove what has expired");
}

// --- Instances -----------------------------------------------------------------------------------

absl::StatusOr<size_t> PostgresSession::ShowAlive(int64_t instance) {
  absl::Status status = Change(kShowInstance, PgParams().Int(instance), "cannot show the instance");
  if (status.ok()) status = Change(kTakeInstances, {}, "cannot take instances that have ended");
  if (status.ok()) status = Change(kTakeSlots, {}, "cannot take slots of ended instances");
  if (!status.ok()) return status;
  const PgReply others = connection_->Execute(kCountOthers, PgParams().Int(instance));
  if (!others.ok()) return Failed(others, "cannot count instances");
  return static_cast<size_t>(others.result.Int(0, 0));
}

absl::StatusOr<TableSize> PostgresSession::Size() {
  const PgReply reply = connection_->Execute(kSize);
  if (!reply.ok() || reply.result.rows() != 1) {
    return absl::UnavailableError("the server does not tell how large the table is");
  }
  return TableSize{.bytes = static_cast<uint64_t>(reply.result.Int(0, 0)),
                   .rows = static_cast<uint64_t>(reply.result.Int(0, 1))};
}

absl::Status PostgresSession::Leave(int64_t instance) {
  absl::Status status = Change(kLeaveInstance, PgParams().Int(instance), "cannot leave");
  if (status.ok()) status = Change(kTakeSlots, {}, "cannot give up the slots");
  return status;
}

}  // namespace idempotency::keystore
