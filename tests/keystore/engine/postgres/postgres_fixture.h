// One PostgreSQL for all tests of a program, in which each test has a schema of its own; engines on
// it, on a clock that the test moves.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_POSTGRES_POSTGRES_FIXTURE_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_POSTGRES_POSTGRES_FIXTURE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "keystore/engine/postgres/pg_connection.h"
#include "keystore/engine/postgres/postgres_engine.h"
#include "keystore/engine/postgres/postgres_session.h"
#include "tests/keystore/engine/rocksdb_fixture.h"
#include "tests/support/postgres_process.h"

namespace idempotency::keystore {

// Started when it is first asked for.
PostgresServer& SharedPostgres();

// On loopback: takes connections, and says nothing.
class SilentHost {
 public:
  SilentHost();
  ~SilentHost();
  SilentHost(const SilentHost&) = delete;
  SilentHost& operator=(const SilentHost&) = delete;

  int port() const { return port_; }
  std::string at() const { return "127.0.0.1:" + std::to_string(port_); }
  // How many have come since it was asked last; it lets go of them.
  size_t TakeCallers();

 private:
  const int socket_;
  int port_ = 0;
};

class PostgresFixture {
 public:
  explicit PostgresFixture(PostgresServer* server = &SharedPostgres());

  // What the next Open uses; a test may change it.
  PostgresOptions postgres;
  EngineOptions options;
  Surroundings& surroundings() { return *surroundings_; }
  PostgresServer& server() { return *server_; }
  const std::string& schema() const { return schema_; }

  // Another engine on the same store; null and a failed test where that fails.
  std::unique_ptr<PostgresEngine> Open();
  // The status that opening gives.
  absl::Status TryOpen();

  // Behind the engines' backs: in the test's schema, as the superuser; what it prints.
  std::string Sql(const std::string& sql);
  // A connection of the test's own, for what has to stay open.
  std::unique_ptr<PgConnection> Connect();
  // A session beside the engines', which must have made the tables.
  std::unique_ptr<PostgresSession> OpenSession(SlotName* slot);

  // Waits until a statement with this text waits for a lock.
  void AwaitBlocked(const std::string& part_of_statement);

 private:
  PostgresServer* const server_;
  const std::string schema_;
  const std::shared_ptr<Surroundings> surroundings_;
  SessionShared shared_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_POSTGRES_POSTGRES_FIXTURE_H_
