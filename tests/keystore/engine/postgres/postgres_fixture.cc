#include "tests/keystore/engine/postgres/postgres_fixture.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/support/becomes_true.h"

namespace idempotency::keystore {
namespace {

std::string NextSchema() {
  static int schemas = 0;
  return "s" + std::to_string(++schemas);
}

}  // namespace

PostgresServer& SharedPostgres() {
  // Not left to the end of the process, by when its files could not be removed.
  static PostgresServer server;
  return server;
}

SilentHost::SilentHost() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  EXPECT_EQ(bind(socket_, address, size), 0);
  EXPECT_EQ(listen(socket_, SOMAXCONN), 0);
  EXPECT_EQ(getsockname(socket_, address, &size), 0);
  port_ = ntohs(at.sin_port);
}

SilentHost::~SilentHost() { close(socket_); }

size_t SilentHost::TakeCallers() {
  size_t callers = 0;
  for (;; ++callers) {
    const int caller = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (caller < 0) return callers;
    close(caller);
  }
}

PostgresFixture::PostgresFixture(PostgresServer* server)
    : server_(server), schema_(NextSchema()), surroundings_(std::make_shared<Surroundings>()) {
  surroundings_->SetNow(core::At(kStart));
  postgres.uri = server_->Uri(schema_);
  postgres.connections = 3;
  postgres.upkeep_interval = core::Duration::zero();
  options.engine = "postgres";
  options.now = [surroundings = surroundings_] { return surroundings->now(); };
  options.log = [surroundings = surroundings_](int level, std::string_view line) {
    surroundings->Log(level, line);
  };
}

std::unique_ptr<PostgresEngine> PostgresFixture::Open() {
  auto engine = PostgresEngine::Open(options, postgres);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

absl::Status PostgresFixture::TryOpen() { return PostgresEngine::Open(options, postgres).status(); }

std::string PostgresFixture::Sql(const std::string& sql) {
  std::string out = server_->Sql("SET search_path = " + schema_ + "; " + sql);
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::unique_ptr<PgConnection> PostgresFixture::Connect() {
  auto connection = PgConnection::Connect(server_->Uri(schema_), {});
  EXPECT_TRUE(connection.ok()) << connection.status();
  return connection.ok() ? *std::move(connection) : nullptr;
}

std::unique_ptr<PostgresSession> PostgresFixture::OpenSession(SlotName* slot) {
  auto session = PostgresSession::Open({.uri = postgres.uri}, &shared_, slot);
  EXPECT_TRUE(session.ok()) << session.status();
  return session.ok() ? *std::move(session) : nullptr;
}

void PostgresFixture::AwaitBlocked(const std::string& part_of_statement) {
  const auto connection = Connect();
  const std::string sql =
      "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position('" +
      part_of_statement + "' in query) > 0 AND pid <> pg_backend_pid()";
  ASSERT_TRUE(BecomesTrue([&] {
    const PgReply reply = connection->Execute(sql);
    EXPECT_TRUE(reply.ok()) << reply.failure->message;
    return reply.ok() && reply.result.Int(0, 0) > 0;
  })) << "nothing waits in "
      << part_of_statement;
}

}  // namespace idempotency::keystore
