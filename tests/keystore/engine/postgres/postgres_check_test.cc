// What a check makes of a PostgreSQL; and what it sees of real ones.
#include "keystore/engine/postgres/postgres_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keystore/clock.h"
#include "keystore/engine/postgres/postgres_hosts.h"
#include "keystore/engine/postgres/postgres_schema.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/findings.h"
#include "tests/keystore/engine/postgres/postgres_fixture.h"
#include "tests/support/becomes_true.h"

namespace idempotency::keystore {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""h;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr core::Time kThen{core::Duration(1'800'000'000'000)};

PostgresCheckFacts Good() {
  PostgresCheckFacts facts{.takes_writes = absl::OkStatus(),
                           .connected = absl::OkStatus(),
                           .peer = {.host = "db1", .tls = true, .sslmode = "verify-full"},
                           .server = {.version = "PostgreSQL 15.14",
                                      .version_number = 150'014,
                                      .in_recovery = false,
                                      .read_only = "off",
                                      .fsync = "on",
                                      .full_page_writes = "on",
                                      .synchronous_commit = "on",
                                      .synchronous_standbys = "a",
                                      .data_checksums = "on",
                                      .standbys = 1,
                                      .standbys_in_sync = 1,
                                      .max_connections = 10,
                                      .used_connections = 4,
                                      .is_superuser = false},
                           .schema_version = kPostgresSchemaVersion,
                           .may_write = true,
                           .server_time = kThen,
                           .before = kThen - 1ms,
                           .after = kThen + 1ms,
                           .connections = 6,
                           .clock_skew = 500ms};
  return facts;
}

TEST(PostgresCheck, WhatIsWellIsCalledWell) {
  EXPECT_EQ(IdsOf(Judge(Good()), Severity::kOk).size(), Judge(Good()).size());
  ExpectDocumented(Judge(Good()));
}

using F = PostgresCheckFacts;

void Shift(F& facts, core::Duration ahead) { *facts.server_time += ahead; }

std::vector<FactsRow<F>> RowsOfSettings() {
  return {
      {"a standby", [](F& f) { f.server.in_recovery = true; }, "postgres.connection",
       Severity::kGuaranteeFails},
      {"read-only", [](F& f) { f.server.read_only = "on"; }, "postgres.connection",
       Severity::kGuaranteeFails},
      {"refused as the engine asks", [](F& f) { f.takes_writes = absl::UnavailableError("no"); },
       "postgres.connection", Severity::kGuaranteeFails},
      {"sync failures forgotten", [](F& f) { f.server.version_number = 119'999; },
       "postgres.version", Severity::kGuaranteeFails},
      {"old", [](F& f) { f.server.version_number = 149'999; }, "postgres.version",
       Severity::kWarning},
      {"another program", [](F& f) { f.server.version = "CockroachDB CCL v23.1"; },
       "postgres.version", Severity::kNotChecked},
      {"another program in disguise", [](F& f) { f.server.version = "PostgreSQL 15.2-YB-2.25"; },
       "postgres.version", Severity::kNotChecked},
      {"not synced", [](F& f) { f.server.fsync = "off"; }, "postgres.fsync",
       Severity::kGuaranteeFails},
      {"no fsync", [](F& f) { f.server.fsync.reset(); }, "postgres.fsync", Severity::kNotChecked},
      {"torn pages", [](F& f) { f.server.full_page_writes = "off"; }, "postgres.full_page_writes",
       Severity::kGuaranteeFails},
      {"commits do not wait", [](F& f) { f.server.synchronous_commit = "off"; },
       "postgres.synchronous_commit", Severity::kGuaranteeFails},
      {"commits wait for this disk alone", [](F& f) { f.server.synchronous_commit = "local"; },
       "postgres.synchronous_commit", Severity::kGuaranteeFails},
      {"commits wait for the standby's memory",
       [](F& f) { f.server.synchronous_commit = "remote_write"; }, "postgres.synchronous_commit",
       Severity::kGuaranteeFails},
      {"no standby", [](F& f) { f.server.synchronous_standbys = ""; }, "postgres.standby",
       Severity::kWarning},
      {"no standby in sync", [](F& f) { f.server.standbys_in_sync = 0; }, "postgres.standby",
       Severity::kGuaranteeFails},
      {"one standby of two", [](F& f) { f.server.synchronous_standbys = "ANY 2 (a, b, c)"; },
       "postgres.standby", Severity::kGuaranteeFails},
      {"one standby of the first two", [](F& f) { f.server.synchronous_standbys = "2(a,b)"; },
       "postgres.standby", Severity::kGuaranteeFails},
      {"standbys that cannot be counted",
       [](F& f) { f.server.synchronous_standbys = "SOME OF (a, b)"; }, "postgres.standby",
       Severity::kNotChecked},
      {"standbys hidden", [](F& f) { f.server.standbys_in_sync.reset(); }, "postgres.standby",
       Severity::kNotChecked},
      {"no checksums", [](F& f) { f.server.data_checksums = "off"; }, "postgres.data_checksums",
       Severity::kWarning}};
}

std::vector<FactsRow<F>> RowsOfSurroundings() {
  return {
      {"newer tables", [](F& f) { f.schema_version = kPostgresSchemaVersion + 1; },
       "postgres.schema", Severity::kGuaranteeFails},
      {"no tables", [](F& f) { f.schema_version = absl::UnavailableError("none"); },
       "postgres.schema", Severity::kNotChecked},
      {"no rights", [](F& f) { f.may_write = false; }, "postgres.rights",
       Severity::kGuaranteeFails},
      {"all rights", [](F& f) { f.server.is_superuser = true; }, "postgres.rights",
       Severity::kWarning},
      {"rights hidden", [](F& f) { f.server.is_superuser.reset(); }, "postgres.rights",
       Severity::kNotChecked},
      {"no room for one server", [](F& f) { f.server.max_connections = 5; }, "postgres.connections",
       Severity::kGuaranteeFails},
      {"no room for another", [](F& f) { f.server.used_connections = 5; }, "postgres.connections",
       Severity::kWarning},
      {"connections hidden", [](F& f) { f.server.used_connections.reset(); },
       "postgres.connections", Severity::kNotChecked},
      {"in the clear", [](F& f) { f.peer.tls = false; }, "postgres.tls", Severity::kWarning},
      {"encrypted if nobody minds", [](F& f) { f.peer.sslmode = "prefer"; }, "postgres.tls",
       Severity::kWarning},
      {"encrypted if the database insists", [](F& f) { f.peer.sslmode = "allow"; }, "postgres.tls",
       Severity::kWarning},
      {"encrypted, for anybody", [](F& f) { f.peer.sslmode = "require"; }, "postgres.tls",
       Severity::kWarning},
      {"several hosts", [](F& f) { f.peer.hosts = 2; }, "postgres.hosts", Severity::kNotChecked},
      {"a clock that is ahead", [](F& f) { Shift(f, 502ms); }, "postgres.clock",
       Severity::kGuaranteeFails},
      {"a clock that is behind", [](F& f) { Shift(f, -502ms); }, "postgres.clock",
       Severity::kGuaranteeFails},
      {"a clock that is half as far ahead", [](F& f) { Shift(f, 252ms); }, "postgres.clock",
       Severity::kWarning},
      {"nobody can tell", [](F& f) { f.before = kThen - 251ms; }, "postgres.clock",
       Severity::kNotChecked},
      {"no time", [](F& f) { f.server_time.reset(); }, "postgres.clock", Severity::kNotChecked}};
}

TEST(PostgresCheck, EachFindingByWhatRaisesIt) {
  std::vector<FactsRow<F>> rows = RowsOfSettings();
  for (const FactsRow<F>& row : RowsOfSurroundings()) rows.push_back(row);
  ExpectRows<F>(Good, rows);
}

TEST(PostgresCheck, LimitsAreExact) {
  F facts = Good();
  // As far as two servers, one on either side, may be.
  Shift(facts, 249ms);
  EXPECT_EQ(FindingOf(Judge(facts), "postgres.clock").severity, Severity::kOk);
  facts.server.synchronous_commit = "remote_apply";
  facts.server.version_number = 150'000;
  for (const PgPeer& peer : {PgPeer{.host = "/run", .sslmode = "prefer", .local = true},
                             PgPeer{.host = "::1", .tls = true, .sslmode = "allow", .local = true},
                             PgPeer{.host = "db1", .tls = true, .sslmode = "verify-ca"}}) {
    facts.peer = peer;
    EXPECT_EQ(IdsOf(Judge(facts), Severity::kOk).size(), Judge(facts).size()) << peer.host;
  }
}

TEST(PostgresCheck, WhereNobodyAnswersNothingIsCalledWell) {
  F facts;
  facts.connected = absl::UnavailableError("no route to it");
  const std::vector<Finding> findings = Judge(facts);
  EXPECT_EQ(IdsOf(findings, Severity::kGuaranteeFails),
            std::set<std::string>{"postgres.connection"});
  EXPECT_THAT(IdsOf(findings, Severity::kOk), IsEmpty());
  EXPECT_THAT(FindingOf(findings, "postgres.connection").seen, HasSubstr("no route"));
}

// --- Real ones -----------------------------------------------------------------------------------

// On the machine's clock, as the database; which may be further apart than any machine is slow.
struct FixtureOn : PostgresFixture {
  explicit FixtureOn(PostgresServer* server) : PostgresFixture(server) {
    options.now = [] { return core::At(ReadKernelTime().wall); };
    postgres.clock_skew = 24h;
    postgres.look_timeout = 1h;
  }
};

class RealPostgresCheck : public ::testing::Test {
 protected:
  std::vector<Finding> Look(PostgresEngine& engine) { return engine.CheckStore().findings; }

  static bool Becomes(PostgresEngine& engine, const std::string& id, Severity severity) {
    return BecomesTrue(
        [&] { return FindingOf(engine.CheckStore().findings, id).severity == severity; });
  }
};

TEST_F(RealPostgresCheck, OfAServerAsItIsInstalled) {
  FixtureOn fixture(&SharedPostgres());
  const auto engine = fixture.Open();
  const EngineCheck check = engine->CheckStore();
  EXPECT_EQ(check.engine, "postgres");
  EXPECT_THAT(check.version, HasSubstr("PostgreSQL 15"));
  EXPECT_THAT(IdsOf(check.findings, Severity::kGuaranteeFails), IsEmpty());
  EXPECT_EQ(
      IdsOf(check.findings, Severity::kWarning),
      (std::set<std::string>{"postgres.standby", "postgres.data_checksums", "postgres.rights"}));
  EXPECT_THAT(IdsOf(check.findings, Severity::kNotChecked), IsEmpty());
}

TEST_F(RealPostgresCheck, OfOneThatWasToldNotToSync) {
  PostgresServer server;
  FixtureOn fixture(&server);
  fixture.postgres.connections = 1;
  const auto engine = fixture.Open();
  server.Sql("ALTER SYSTEM SET fsync = off");
  server.Sql("ALTER SYSTEM SET synchronous_commit = off");
  server.Sql("SELECT pg_reload_conf()");
  EXPECT_TRUE(Becomes(*engine, "postgres.fsync", Severity::kGuaranteeFails));
  EXPECT_TRUE(Becomes(*engine, "postgres.synchronous_commit", Severity::kGuaranteeFails));
  // The one session that is open keeps what it had, and goes on.
  EXPECT_TRUE(Read(*engine, {PayKey("a")}).ok());
}

TEST_F(RealPostgresCheck, OfARoleThatOwnsItsSchemaAloneAndMayNotKnowOfStandbys) {
  PostgresServer& server = SharedPostgres();
  FixtureOn fixture(&server);
  server.Sql("CREATE ROLE modest LOGIN");
  server.Sql("ALTER SCHEMA " + fixture.schema() + " OWNER TO modest");
  const std::string as_postgres = "user=postgres";
  const size_t at = fixture.postgres.uri.find(as_postgres);
  ASSERT_NE(at, std::string::npos);
  fixture.postgres.uri.replace(at, as_postgres.size(), "user=modest");
  const auto engine = fixture.Open();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(FindingOf(Look(*engine), "postgres.rights").severity, Severity::kOk);
  fixture.Sql("REVOKE DELETE ON idempotency_records FROM modest");
  EXPECT_EQ(FindingOf(Look(*engine), "postgres.rights").severity, Severity::kGuaranteeFails);
}

TEST_F(RealPostgresCheck, OfOneThatTakesNoWritesAnyMoreOrIsGone) {
  PostgresServer server;
  FixtureOn fixture(&server);
  const auto engine = fixture.Open();
  server.Sql("ALTER SYSTEM SET default_transaction_read_only = on");
  server.Sql("SELECT pg_reload_conf()");
  EXPECT_TRUE(Becomes(*engine, "postgres.connection", Severity::kGuaranteeFails));
  // It is asked all the same.
  EXPECT_EQ(FindingOf(Look(*engine), "postgres.fsync").severity, Severity::kOk);
  server.Kill();
  EXPECT_EQ(FindingOf(Look(*engine), "postgres.fsync").severity, Severity::kNotChecked);
  EXPECT_EQ(FindingOf(Look(*engine), "postgres.connection").severity, Severity::kGuaranteeFails);
}

TEST_F(RealPostgresCheck, OfOneWithAStandbyThatGoes) {
  PostgresServer primary;
  auto standby = std::make_unique<PostgresServer>(primary, "a");
  FixtureOn fixture(&primary);
  primary.Sql("ALTER SYSTEM SET synchronous_standby_names = 'a'");
  primary.Sql("SELECT pg_reload_conf()");
  const auto engine = fixture.Open();
  EXPECT_TRUE(Becomes(*engine, "postgres.standby", Severity::kOk));
  standby.reset();
  EXPECT_TRUE(Becomes(*engine, "postgres.standby", Severity::kGuaranteeFails));
  // So that what the engine says when it ends does not wait for it.
  primary.Sql("ALTER SYSTEM RESET synchronous_standby_names");
  primary.Sql("SELECT pg_reload_conf()");
}

TEST_F(RealPostgresCheck, OfSeveralHosts) {
  FixtureOn fixture(&SharedPostgres());
  auto options = fixture.postgres;
  options.uri = "postgresql://postgres@127.0.0.1:" + std::to_string(fixture.server().port()) +
                ",127.0.0.1:" + std::to_string(fixture.server().port()) + "/postgres";
  PostgresCheckFacts facts = GatherFacts(options, [] { return core::Time(); });
  EXPECT_EQ(facts.peer.hosts, 2u);
  EXPECT_FALSE(facts.peer.attributes_named);
  EXPECT_TRUE(facts.peer.local);
  EXPECT_EQ(FindingOf(Judge(facts), "postgres.hosts").severity, Severity::kNotChecked);
  EXPECT_EQ(facts.peer.sslmode, "prefer");
  EXPECT_EQ(FindingOf(Judge(facts), "postgres.tls").severity, Severity::kOk);
  options.uri += "?target_session_attrs=primary";
  EXPECT_TRUE(GatherFacts(options, [] { return core::Time(); }).peer.attributes_named);
  // One port for all; and one host that may be anywhere.
  options.uri = "host=127.0.0.1,0.0.0.0 user=postgres dbname=postgres port=" +
                std::to_string(fixture.server().port());
  facts = GatherFacts(options, [] { return core::Time(); });
  EXPECT_EQ(facts.takes_writes, absl::OkStatus());
  EXPECT_EQ(facts.peer.hosts, 2u);
  EXPECT_EQ(FindingOf(Judge(facts), "postgres.tls").severity, Severity::kWarning);
}

// Where it asked one host after the other, this would take days.
TEST_F(RealPostgresCheck, OfHostsOfWhichSomeSayNothing) {
  const SilentHost silent;
  FixtureOn fixture(&SharedPostgres());
  auto options = fixture.postgres;
  const std::string real = "127.0.0.1:" + std::to_string(fixture.server().port());
  options.uri = "postgresql://postgres@" + silent.at() + "," + real + "," + silent.at() +
                "/postgres?connect_timeout=86400";
  PostgresCheckFacts facts = GatherFacts(options, [] { return core::Time(); });
  EXPECT_EQ(facts.takes_writes, absl::OkStatus());
  EXPECT_EQ(facts.peer.hosts, 3u);
  EXPECT_THAT(facts.server.version, HasSubstr("PostgreSQL"));
  options.uri = "postgresql://postgres@" + silent.at() + "," + silent.at() +
                "/postgres?connect_timeout=86400";
  options.look_timeout = 60ms;
  facts = GatherFacts(options, [] { return core::Time(); });
  EXPECT_THAT(facts.connected.message(), HasSubstr("no answer in time from " + silent.at()));
  EXPECT_THAT(facts.takes_writes.message(), HasSubstr("no answer in time"));
}

TEST(PostgresHosts, AreNotWaitedForBeyondTheirTime) {
  const SilentHost one;
  const SilentHost other;
  const std::string uri =
      "postgresql://postgres@" + one.at() + "," + other.at() + "/postgres?connect_timeout=86400";
  const absl::StatusOr<size_t> host = NewestHost(uri, {.reply_timeout = 24h}, 60ms);
  EXPECT_EQ(host.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(host.status().message(), HasSubstr("no answer in time from " + one.at()));
  EXPECT_THAT(host.status().message(), HasSubstr("no answer in time from " + other.at()));
}

TEST_F(RealPostgresCheck, WaitsForNoStatementBeyondItsTime) {
  FixtureOn fixture(&SharedPostgres());
  const PgTimer until(60ms);
  const auto connection = PgConnection::Connect(
      fixture.postgres.uri, {.reply_timeout = std::chrono::hours(1), .until = &until});
  ASSERT_TRUE(connection.ok()) << connection.status();
  const PgReply reply = (*connection)->Execute("SELECT pg_sleep(86400)");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.failure->message, "no answer in time");
  EXPECT_FALSE((*connection)->alive());
}

}  // namespace
}  // namespace idempotency::keystore
