#include "keystore/engine/postgres/postgres_check.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "keystore/engine/postgres/postgres_schema.h"

namespace idempotency::keystore {
namespace {

constexpr NamedCheck kConnection("postgres.connection",
                                 "Where no server takes writes every answer is UNAVAILABLE.");
constexpr NamedCheck kVersion(
    "postgres.version",
    "Before 12 a failed sync may be taken for one that worked; releases without support have "
    "faults that nobody mends.");
constexpr NamedCheck kFsync("postgres.fsync",
                            "Without it nothing that is committed is on a disk, and a crash of the "
                            "machine loses or damages it.");
constexpr NamedCheck kFullPageWrites(
    "postgres.full_page_writes",
    "Without it a crash in the middle of a page's write leaves it damaged.");
constexpr NamedCheck kSynchronousCommit(
    "postgres.synchronous_commit",
    "A commit has to be on the disk, and on the standby where there is one, before it is "
    "acknowledged.");
constexpr NamedCheck kStandby(
    "postgres.standby",
    "What only one machine has is lost with it, and so is what a standby has not heard of when it "
    "takes over.");
constexpr NamedCheck kChecksums("postgres.data_checksums",
                                "Without them damage on the disk is read as if it were data.");
constexpr NamedCheck kSchema("postgres.schema",
                             "Servers of different versions must not share tables that they "
                             "understand differently.");
constexpr NamedCheck kRights("postgres.rights",
                             "What the role may not do is refused in the middle of a call; what it "
                             "may beyond that is open to whoever takes the service over.");
constexpr NamedCheck kConnections(
    "postgres.connections",
    "A server that gets no connection answers nothing, after a failover as well.");
constexpr NamedCheck kTls("postgres.tls",
                          "In the clear others on the network can read and change every record.");
constexpr NamedCheck kHosts("postgres.hosts",
                            "Where two of the hosts take writes, there are two stores, and an "
                            "operation can be granted in each.");
constexpr NamedCheck kClock("postgres.clock",
                            "A lease is over for other servers --clock_skew_ms after its end: "
                            "clocks that are further apart "
                            "end leases too early or too late.");

constexpr int64_t kSyncFailuresAreFatal = 120'000;
constexpr int64_t kOldestSupported = 150'000;

// --- What follows from what was seen -------------------------------------------------------------

constexpr char kAskAgain[] = "see to the database and to the role's rights; then ask again";

// What libpq and the server say comes in several lines.
std::string OneLine(const absl::Status& status) {
  return absl::StrJoin(absl::StrSplit(std::string(status.message()), absl::ByAnyChar("\n\t"),
                                      absl::SkipWhitespace()),
                       " ");
}

Finding NotTold(const NamedCheck& check) {
  return check.NotChecked("the server does not say", kAskAgain);
}

Finding JudgeConnection(const PostgresCheckFacts& facts) {
  if (!facts.connected.ok()) {
    return kConnection.Fails(OneLine(facts.connected),
                             "start the database, and see to --postgres_uri and the network");
  }
  if (facts.server.in_recovery == true) {
    return kConnection.Fails("the server is a standby, which takes no writes",
                             "promote it, or name the primary in --postgres_uri");
  }
  if (facts.server.read_only == "on") {
    return kConnection.Fails("the session is read-only (default_transaction_read_only)",
                             "set it to off for the role, the database and the server");
  }
  if (!facts.takes_writes.ok()) {
    return kConnection.Fails(OneLine(facts.takes_writes), kAskAgain);
  }
  return kConnection.Ok("a server takes writes");
}

Finding JudgeVersion(const PostgresServerFacts& server) {
  if (server.version.empty()) return NotTold(kVersion);
  const bool own = server.version.rfind("PostgreSQL ", 0) == 0 &&
                   server.version.find("-YB-") == std::string::npos;
  if (!own || !server.version_number.has_value()) {
    return kVersion.NotChecked(server.version,
                               "it is not PostgreSQL itself, on which alone this was tried: try it "
                               "with what you rely on");
  }
  if (*server.version_number < kSyncFailuresAreFatal) {
    return kVersion.Fails(server.version, "upgrade to a release that is maintained");
  }
  if (*server.version_number < kOldestSupported) {
    return kVersion.Warning(absl::StrCat(server.version, ": older than what this was tried on"),
                            "upgrade to 15 or newer");
  }
  return kVersion.Ok(server.version);
}

// Of a setting that has to be on.
Finding JudgeOn(const NamedCheck& check, const std::optional<std::string>& value,
                const char* next_step) {
  if (!value.has_value()) return NotTold(check);
  if (*value == "on") return check.Ok("on");
  return check.Fails(absl::StrCat(*value, ": the service makes no new connection"), next_step);
}

Finding JudgeSynchronousCommit(const std::optional<std::string>& value) {
  if (!value.has_value()) return NotTold(kSynchronousCommit);
  const std::string seen = absl::StrCat("a new session has ", *value);
  if (*value == "on" || *value == "remote_apply") return kSynchronousCommit.Ok(seen);
  return kSynchronousCommit.Fails(
      absl::StrCat(seen, ": the service makes no new connection; those that it has keep on"),
      "set it to on for the role, the database and the server (ALTER ROLE ... SET, ALTER SYSTEM "
      "SET)");
}

// For how many standbys a commit waits: "ANY 2 (a, b, c)", "FIRST 1 (a)", "2 (a, b)", or names
// alone. Nothing where it cannot be told.
std::optional<int64_t> StandbysWaitedFor(const std::string& names) {
  const size_t list = names.find('(');
  if (list == std::string::npos) return 1;
  int64_t count = 0;
  const std::vector<std::string> words =
      absl::StrSplit(names.substr(0, list), absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.empty() || words.size() > 2) return std::nullopt;
  if (!absl::SimpleAtoi(words.back(), &count) || count < 1) return std::nullopt;
  return count;
}

Finding JudgeStandby(const PostgresServerFacts& server) {
  if (!server.synchronous_standbys.has_value()) return NotTold(kStandby);
  const std::string connected = server.standbys.has_value()
                                    ? absl::StrCat(*server.standbys, " connected")
                                    : "how many is hidden";
  if (server.synchronous_standbys->empty()) {
    return kStandby.Warning(absl::StrCat("commits wait for no standby (", connected, ")"),
                            "set synchronous_standby_names, and see to it that a failover goes to "
                            "such a standby alone");
  }
  if (!server.standbys_in_sync.has_value()) {
    return kStandby.NotChecked(
        absl::StrCat("commits wait for standbys; whether any is in sync is hidden (", connected,
                     ")"),
        "grant pg_monitor to the role, or look at pg_stat_replication as a superuser");
  }
  if (*server.standbys_in_sync == 0) {
    return kStandby.Fails(
        absl::StrCat("commits wait for a standby, and none is in sync (", connected,
                     "): nothing is acknowledged"),
        "start the standby; see pg_stat_replication on the primary, and the standby's log");
  }
  const std::optional<int64_t> wanted = StandbysWaitedFor(*server.synchronous_standbys);
  const std::string seen = absl::StrCat("commits wait for standbys, and ", *server.standbys_in_sync,
                                        *server.standbys_in_sync == 1 ? " is" : " are", " in sync");
  if (!wanted.has_value()) {
    return kStandby.NotChecked(absl::StrCat(seen, "; how many they wait for cannot be told"),
                               "compare synchronous_standby_names with pg_stat_replication");
  }
  if (*server.standbys_in_sync < *wanted) {
    return kStandby.Fails(
        absl::StrCat(seen, " of the ", *wanted, " that each waits for: nothing is acknowledged"),
        "start the others; see pg_stat_replication on the primary, and the "
        "standbys' logs");
  }
  return kStandby.Ok(seen);
}

Finding JudgeChecksums(const std::optional<std::string>& value) {
  if (!value.has_value()) return NotTold(kChecksums);
  if (*value == "on") return kChecksums.Ok("on");
  return kChecksums.Warning(*value, "stop the server and run pg_checksums --enable");
}

Finding JudgeSchema(const absl::StatusOr<int64_t>& version) {
  if (!version.ok()) {
    return kSchema.NotChecked(absl::StrCat("it cannot be read: ", OneLine(version.status())),
                              kAskAgain);
  }
  const std::string seen = absl::StrCat("the tables have version ", *version, ", and this server ",
                                        kPostgresSchemaVersion);
  if (*version == kPostgresSchemaVersion) return kSchema.Ok(seen);
  return kSchema.Fails(seen, "start the newest program that uses them, on every server");
}

Finding JudgeRights(const PostgresCheckFacts& facts) {
  if (!facts.may_write.ok()) {
    return kRights.NotChecked(
        absl::StrCat("they cannot be read: ", OneLine(facts.may_write.status())), kAskAgain);
  }
  if (!*facts.may_write) {
    return kRights.Fails("the role may not read or change all of our tables",
                         "make the role their owner, or grant SELECT, INSERT, UPDATE, DELETE on "
                         "them and USAGE, SELECT on the sequence");
  }
  if (facts.server.is_superuser == true) {
    return kRights.Warning("the role is a superuser", "use a role that owns its schema alone");
  }
  if (!facts.server.is_superuser.has_value()) return NotTold(kRights);
  return kRights.Ok("the role may do what it has to, and is no superuser");
}

Finding JudgeConnections(const PostgresCheckFacts& facts) {
  const PostgresServerFacts& server = facts.server;
  if (!server.max_connections.has_value() || !server.used_connections.has_value()) {
    return NotTold(kConnections);
  }
  const std::string seen =
      absl::StrCat(*server.used_connections, " of ", *server.max_connections,
                   " connections are taken, and each server of ours has ", facts.connections);
  const auto wanted = static_cast<int64_t>(facts.connections);
  if (wanted > *server.max_connections) {
    return kConnections.Fails(seen, "raise max_connections, or lower --postgres_connections");
  }
  if (*server.max_connections - *server.used_connections < wanted) {
    return kConnections.Warning(absl::StrCat(seen, ": another would not get them"),
                                "raise max_connections, or lower --postgres_connections");
  }
  return kConnections.Ok(seen);
}

Finding JudgeTls(const PostgresCheckFacts& facts) {
  if (!facts.connected.ok()) return NotTold(kTls);
  const PgPeer& peer = facts.peer;
  if (peer.local) {
    return kTls.Ok(peer.tls ? "connections are encrypted"
                            : "connections are in the clear, and do not leave this machine");
  }
  const char* const next =
      "add sslmode=verify-full to --postgres_uri, and sslrootcert=FILE where the certificate is of "
      "an authority of your own";
  if (!peer.tls) return kTls.Warning("connections are in the clear", next);
  if (peer.sslmode == "verify-full" || peer.sslmode == "verify-ca") {
    return kTls.Ok(absl::StrCat("connections are encrypted (sslmode=", peer.sslmode, ")"));
  }
  if (peer.sslmode == "require") {
    return kTls.Warning(
        "connections are encrypted, but without a root certificate sslmode=require takes anybody "
        "for the database who stands in between",
        next);
  }
  return kTls.Warning(
      absl::StrCat("this connection is encrypted, but sslmode=", peer.sslmode,
                   " gives that up where somebody who stands in between says that there is no TLS"),
      next);
}

Finding JudgeHosts(const PostgresCheckFacts& facts) {
  if (!facts.connected.ok()) return NotTold(kHosts);
  if (facts.peer.hosts <= 1) return kHosts.Ok("one host is named");
  return kHosts.NotChecked(
      absl::StrCat(
          facts.peer.hosts, " hosts are named, and the first that takes writes is used, ",
          facts.peer.attributes_named ? "" : "though the URI has no target_session_attrs, ", "now ",
          facts.peer.host, "; that no other takes writes is not looked at"),
      "see to it that an old primary is fenced before a standby is promoted");
}

std::string Milliseconds(core::Duration span) { return absl::StrCat(span.count(), " ms"); }

Finding JudgeClock(const PostgresCheckFacts& facts) {
  if (!facts.server_time.has_value()) return NotTold(kClock);
  // How far its clock is ahead of ours lies between these.
  const core::Duration least = *facts.server_time - facts.after;
  const core::Duration most = *facts.server_time - facts.before;
  const core::Duration farthest = std::max(std::chrono::abs(least), std::chrono::abs(most));
  const bool may_agree = least <= core::Duration::zero() && most >= core::Duration::zero();
  const core::Duration nearest = may_agree
                                     ? core::Duration::zero()
                                     : std::min(std::chrono::abs(least), std::chrono::abs(most));
  const std::string seen = absl::StrCat(
      "the database's clock is ahead of this server's by ", Milliseconds(least), " to ",
      Milliseconds(most), "; servers may be ", Milliseconds(facts.clock_skew), " apart");
  if (nearest > facts.clock_skew) {
    return kClock.Fails(
        seen,
        "synchronise the clocks of this server and of the database's; ask the other "
        "servers, too");
  }
  // Two servers that are as far from the database, on either side, are within what is allowed.
  if (2 * farthest <= facts.clock_skew) return kClock.Ok(seen);
  if (2 * nearest > facts.clock_skew) {
    return kClock.Warning(
        absl::StrCat(seen, ": another server may be as far off on the other side"),
        "ask the other servers, too, and compare");
  }
  return kClock.NotChecked(absl::StrCat(seen, ": the answer took too long to tell"),
                           "ask again, and compare the clocks of all servers (chronyc tracking)");
}

// --- Looking -------------------------------------------------------------------------------------

// Of the time that there is.
constexpr int kAskingPart = 6;

constexpr char kServer[] = R"(
SELECT version(), current_setting('server_version_num', true)::int8,
  pg_is_in_recovery()::int::int8, current_setting('default_transaction_read_only', true),
  current_setting('fsync', true), current_setting('full_page_writes', true),
  current_setting('synchronous_commit', true), current_setting('synchronous_standby_names', true),
  current_setting('data_checksums', true),
  current_setting('max_connections', true)::int8 -
    current_setting('superuser_reserved_connections', true)::int8)";

// Of others' sessions some may know only that they are there, and in which database.
constexpr char kActivity[] = R"(
SELECT count(*)::int8 FROM pg_stat_activity
WHERE backend_type = 'client backend' OR (backend_type IS NULL AND datid IS NOT NULL))";

constexpr char kReplication[] = R"(
SELECT count(*)::int8, (count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')))::int8,
  (count(*) FILTER (WHERE sync_state IS NULL))::int8
FROM pg_stat_replication)";

constexpr char kSuperuser[] = R"(
SELECT rolsuper::int::int8 FROM pg_roles WHERE rolname = current_user)";

constexpr char kSchemaVersion[] = "SELECT schema_version FROM idempotency_meta";

constexpr char kMayWrite[] = R"(
SELECT (bool_and(has_table_privilege(t, 'SELECT') AND has_table_privilege(t, 'INSERT') AND
    has_table_privilege(t, 'UPDATE') AND has_table_privilege(t, 'DELETE')) AND
  has_sequence_privilege('idempotency_tokens', 'USAGE') AND
  has_sequence_privilege('idempotency_tokens', 'SELECT'))::int::int8
FROM unnest(ARRAY['idempotency_meta', 'idempotency_instances', 'idempotency_slots',
  'idempotency_records']) AS t)";

constexpr char kTime[] = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8";

std::optional<std::string> Text(const PgResult& result, size_t column) {
  if (result.IsNull(0, column)) return std::nullopt;
  return std::string(result.Bytes(0, column));
}

std::optional<int64_t> Number(const PgResult& result, size_t column) {
  if (result.IsNull(0, column)) return std::nullopt;
  return result.Int(0, column);
}

std::optional<bool> Truth(const PgResult& result, size_t column) {
  const std::optional<int64_t> number = Number(result, column);
  return number.has_value() ? std::optional(*number != 0) : std::nullopt;
}

// One row; nothing where it is refused, as some servers refuse what they do not know.
std::optional<PgResult> AskFor(PgConnection& connection, const char* sql) {
  PgReply reply = connection.Execute(sql);
  if (!reply.ok() || reply.result.rows() != 1) return std::nullopt;
  return std::move(reply.result);
}

absl::StatusOr<int64_t> AskNumber(PgConnection& connection, const char* sql) {
  const PgReply reply = connection.Execute(sql);
  if (!reply.ok()) return absl::UnavailableError(reply.failure->message);
  if (reply.result.rows() != 1) return absl::UnavailableError("there is no row");
  return reply.result.Int(0, 0);
}

PostgresServerFacts AskServer(PgConnection& connection) {
  PostgresServerFacts server;
  if (const auto row = AskFor(connection, kServer)) {
    server.version = Text(*row, 0).value_or("");
    server.version_number = Number(*row, 1);
    server.in_recovery = Truth(*row, 2);
    server.read_only = Text(*row, 3);
    server.fsync = Text(*row, 4);
    server.full_page_writes = Text(*row, 5);
    server.synchronous_commit = Text(*row, 6);
    server.synchronous_standbys = Text(*row, 7);
    server.data_checksums = Text(*row, 8);
    server.max_connections = Number(*row, 9);
  }
  if (const auto row = AskFor(connection, kActivity)) server.used_connections = Number(*row, 0);
  if (const auto row = AskFor(connection, kReplication)) {
    server.standbys = Number(*row, 0);
    const bool hidden = Number(*row, 2) != 0;
    if (!hidden) server.standbys_in_sync = Number(*row, 1);
  }
  if (const auto row = AskFor(connection, kSuperuser)) server.is_superuser = Truth(*row, 0);
  return server;
}

}  // namespace

std::vector<Finding> Judge(const PostgresCheckFacts& facts) {
  const PostgresServerFacts& server = facts.server;
  return {JudgeConnection(facts),
          JudgeVersion(server),
          JudgeOn(kFsync, server.fsync,
                  "set it to on, and restore from a backup or a standby what "
                  "was written meanwhile if the machine has crashed"),
          JudgeOn(kFullPageWrites, server.full_page_writes, "set it to on"),
          JudgeSynchronousCommit(server.synchronous_commit),
          JudgeStandby(server),
          JudgeChecksums(server.data_checksums),
          JudgeSchema(facts.schema_version),
          JudgeRights(facts),
          JudgeConnections(facts),
          JudgeTls(facts),
          JudgeHosts(facts),
          JudgeClock(facts)};
}

PostgresCheckFacts GatherFacts(const PostgresOptions& options,
                               const std::function<core::Time()>& now) {
  PostgresCheckFacts facts{.connections = options.connections + kPostgresOwnConnections,
                           .clock_skew = options.clock_skew};
  const PgTimer until(options.look_timeout);
  const PgTimer connected_until(options.look_timeout - options.look_timeout / kAskingPart);
  const PgOptions looking{.application_name = "idempotencyd check",
                          .reply_timeout = options.look_timeout,
                          .until = &until,
                          .allow_plaintext = options.allow_plaintext};
  PgConnection::Found found = PgConnection::Find(options.uri, looking, connected_until);
  facts.takes_writes = found.takes_writes;
  facts.connected = found.connection.status();
  if (!found.connection.ok()) return facts;
  PgConnection& server = **found.connection;
  facts.peer = server.Peer();
  facts.server = AskServer(server);
  facts.schema_version = AskNumber(server, kSchemaVersion);
  if (const auto may = AskNumber(server, kMayWrite); may.ok()) {
    facts.may_write = *may != 0;
  } else {
    facts.may_write = may.status();
  }
  facts.before = now();
  const absl::StatusOr<int64_t> time = AskNumber(server, kTime);
  facts.after = now();
  if (time.ok()) facts.server_time = core::Time(core::Duration(*time));
  return facts;
}

}  // namespace idempotency::keystore
