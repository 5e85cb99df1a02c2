#include "keystore/engine/postgres/postgres_schema.h"

#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace idempotency::keystore {
namespace {

// Two that migrate at once meet in the catalogue.
constexpr int kMigrationTries = 10;

// A later version adds its step behind this one, and never changes one that was released.
// The sequence is used once, so that its last value is one that was given from the beginning on.
constexpr char kCreate[] = R"(
CREATE TABLE idempotency_meta (
  id int8 PRIMARY KEY CHECK (id = 1),
  schema_version int8 NOT NULL,
  last_epoch int8 NOT NULL,
  token_base int8 NOT NULL,
  origin text NOT NULL,
  lost_before int8 NOT NULL);
CREATE TABLE idempotency_instances (
  instance int8 PRIMARY KEY,
  seen timestamptz NOT NULL);
CREATE TABLE idempotency_slots (
  instance int8 NOT NULL,
  slot int8 NOT NULL,
  epoch int8 NOT NULL,
  PRIMARY KEY (instance, slot));
CREATE TABLE idempotency_records (
  key bytea PRIMARY KEY,
  version int8 NOT NULL,
  replaced int8 NOT NULL,
  expires int8,
  state int2 NOT NULL,
  record bytea);
CREATE INDEX idempotency_records_open ON idempotency_records (key) WHERE state IN (1, 3);
CREATE INDEX idempotency_records_expires ON idempotency_records (expires)
  WHERE expires IS NOT NULL;
CREATE SEQUENCE idempotency_tokens;
INSERT INTO idempotency_meta
  (id, schema_version, last_epoch, token_base, origin, lost_before)
  SELECT 1, 1, 0, 0 * nextval('idempotency_tokens'), '', 0)";

// Of every session, where the server knows the setting. Plans are made once and must not depend on
// how large the tables were then: keys are always looked up by index, in the order given, which is
// also what keeps two batches from locking the same rows in different orders.
constexpr char kSettings[] = R"(
SELECT count(set_config(s.name, w.value, false)) FROM pg_settings s JOIN (VALUES
  ('default_transaction_isolation', 'read committed'),
  ('statement_timeout', '0'),
  ('lock_timeout', '5s'),
  ('idle_in_transaction_session_timeout', '30s'),
  ('client_connection_check_interval', '5s'),
  ('tcp_keepalives_idle', '10'),
  ('tcp_keepalives_interval', '5'),
  ('tcp_keepalives_count', '3'),
  ('plan_cache_mode', 'force_generic_plan'),
  ('enable_seqscan', 'off'),
  ('enable_hashjoin', 'off'),
  ('enable_mergejoin', 'off'),
  ('jit', 'off')) AS w(name, value) ON s.name = w.name)";

constexpr char kFacts[] = R"(
SELECT version(), current_setting('transaction_read_only'),
  current_setting('synchronous_commit', true), current_setting('fsync', true),
  current_setting('full_page_writes', true),
  current_setting('synchronous_standby_names', true))";

constexpr char kKeepDurable[] = R"(
SELECT count(set_config(name, setting, false)) FROM pg_settings
WHERE name = 'synchronous_commit')";

constexpr char kTimeline[] =
    "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int8";
constexpr char kCluster[] = "SELECT system_identifier::int8 FROM pg_control_system()";

constexpr std::string_view kUndefinedTable = "42P01";
constexpr std::string_view kInsufficientPrivilege = "42501";

bool IsClass(const PgFailure& failure, std::string_view start) {
  return failure.sqlstate.compare(0, start.size(), start) == 0;
}

// Off, or less than what an acknowledgement promises; unset where a server has no such setting.
absl::Status CheckDurable(const char* name, std::optional<std::string_view> value) {
  if (!value.has_value() || *value == "on" || *value == "remote_apply") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("PostgreSQL's ", name, " is ", std::string(*value),
                   ", so that what is acknowledged could be lost; set it to on for this role, "
                   "database and server"));
}

// The version of the tables; nothing where there are none.
absl::StatusOr<std::optional<int64_t>> StoredVersion(PgConnection& connection) {
  const PgReply reply = connection.Execute("SELECT schema_version FROM idempotency_meta");
  if (!reply.ok() && reply.failure->sqlstate == kUndefinedTable) {
    return std::optional<int64_t>();
  }
  if (!reply.ok()) return ToStatus(*reply.failure, "cannot read the version of the tables");
  if (reply.result.rows() != 1) {
    return absl::FailedPreconditionError(
        "the table idempotency_meta is empty: these are not tables of ours");
  }
  return std::optional<int64_t>(reply.result.Int(0, 0));
}

absl::Status CheckVersion(int64_t version) {
  if (version == kPostgresSchemaVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the tables in the database have version ", version, ", and this program knows ",
                   kPostgresSchemaVersion, "; start the newest program that uses them"));
}

}  // namespace

absl::Status ToStatus(const PgFailure& failure, const std::string& what) {
  std::string message = absl::StrCat(what, ": ", failure.message);
  if (failure.sqlstate.empty()) return absl::UnavailableError(message);
  if (failure.sqlstate == kInsufficientPrivilege) {
    return absl::FailedPreconditionError(absl::StrCat(
        message, "; give the role CREATE on the schema, or let its owner start this once"));
  }
  const bool is_wrong = IsClass(failure, "42") || IsClass(failure, "3D") ||
                        IsClass(failure, "28") || IsClass(failure, "22");
  return is_wrong ? absl::FailedPreconditionError(message) : absl::UnavailableError(message);
}

absl::StatusOr<PostgresFacts> PrepareServer(PgConnection& connection) {
  const PgReply set = connection.Execute(kSettings);
  if (!set.ok()) return ToStatus(*set.failure, "cannot set up a session");
  const PgReply reply = connection.Execute(kFacts);
  if (!reply.ok()) return ToStatus(*reply.failure, "cannot read the server's settings");
  const auto setting = [&reply](size_t column) -> std::optional<std::string_view> {
    if (reply.result.IsNull(0, column)) return std::nullopt;
    return reply.result.Bytes(0, column);
  };
  if (setting(1) != "off") {
    return absl::FailedPreconditionError(
        "the session is read-only (default_transaction_read_only): use a role that may write");
  }
  absl::Status durable = CheckDurable("synchronous_commit", setting(2));
  durable.Update(CheckDurable("fsync", setting(3)));
  durable.Update(CheckDurable("full_page_writes", setting(4)));
  if (!durable.ok()) return durable;
  // It stays so in this session, whatever the server is told meanwhile.
  const PgReply kept = connection.Execute(kKeepDurable);
  if (!kept.ok()) return ToStatus(*kept.failure, "cannot set up a session");
  PostgresFacts facts{.version = std::string(*setting(0)),
                      .synchronous_standbys = std::string(setting(5).value_or(""))};
  const absl::StatusOr<PostgresPlace> place = ReadPlace(connection);
  if (!place.ok()) return place.status();
  facts.place = *place;
  return facts;
}

absl::StatusOr<PostgresPlace> ReadPlace(PgConnection& connection) {
  PostgresPlace place;
  const PgReply timeline = connection.Execute(kTimeline);
  if (timeline.ok()) place.timeline = timeline.result.Int(0, 0);
  if (!connection.alive()) return ToStatus(*timeline.failure, "cannot ask for the timeline");
  const PgReply cluster = connection.Execute(kCluster);
  if (cluster.ok()) place.cluster = cluster.result.Int(0, 0);
  if (!connection.alive()) return ToStatus(*cluster.failure, "cannot ask for the cluster");
  return place;
}

bool HasTables(PgConnection& connection) {
  const absl::StatusOr<std::optional<int64_t>> version = StoredVersion(connection);
  return version.ok() && version->has_value();
}

absl::Status CheckSchema(PgConnection& connection) {
  const absl::StatusOr<std::optional<int64_t>> version = StoredVersion(connection);
  if (!version.ok()) return version.status();
  if (!version->has_value()) {
    return absl::FailedPreconditionError("the tables are gone from the database");
  }
  return CheckVersion(**version);
}

absl::Status MigrateSchema(PgConnection& connection) {
  absl::Status last;
  for (int i = 0; i < kMigrationTries && connection.alive(); ++i) {
    const absl::StatusOr<std::optional<int64_t>> version = StoredVersion(connection);
    if (!version.ok()) return version.status();
    if (version->has_value()) return CheckVersion(**version);
    const PgReply created = connection.Run(kCreate);
    if (created.ok()) continue;
    last = ToStatus(*created.failure, "cannot create the tables");
    if (created.failure->sqlstate == kInsufficientPrivilege) return last;
  }
  return last;
}

}  // namespace idempotency::keystore
