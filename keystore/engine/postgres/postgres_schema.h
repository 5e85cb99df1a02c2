// The tables that the engine keeps its records in, how they come to be, and what a server has to
// be like. All of it is SQL that PostgreSQL, YugabyteDB and CockroachDB speak; the tests run on
// PostgreSQL alone.
//
//   idempotency_meta       one row: the schema's version, the newest epoch, a floor of tokens,
//                          where the tables were made, and when it was found that they have lost
//                          records (postgres_loss.h; ms since 1970, 0: never)
//   idempotency_tokens     a sequence: rises with every commit (postgres_session.h)
//   idempotency_instances  the processes that are at work, and when each was seen last
//   idempotency_slots      their connections, each with the epoch that its writes must name
//   idempotency_records    key (key_codec.h), version, the version that it replaced, state,
//                          when it can be looked at for removal (ms since 1970), record
//
//   idempotency_response_keys  only where a server has sealed (postgres_keys.h)
//
// A row of state 0 without a record names nothing: the key was erased (engine.h, Version).
//
// Thread safety: pure functions, but for the connection that they are given.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_SCHEMA_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_SCHEMA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/engine/postgres/pg_connection.h"

namespace idempotency::keystore {

inline constexpr int64_t kPostgresSchemaVersion = 1;

// Which server it is, as far as it tells: others but PostgreSQL itself do not.
struct PostgresPlace {
  // A number that it has in common with its standbys, and with nobody else; zero: not told.
  int64_t cluster = 0;
  // Rises with every promotion in the cluster; zero: not told.
  int64_t timeline = 0;
};

// What the server said of itself when the connection was made.
struct PostgresFacts {
  std::string version;
  PostgresPlace place;
  // The standbys that a commit waits for, as set; empty: it waits for none.
  std::string synchronous_standbys;
};

// What a failure means for whoever wanted to connect: UNAVAILABLE where it may pass.
absl::Status ToStatus(const PgFailure& failure, const std::string& what);

// Sets what has to be set in each session, and asserts what the operator has to have set.
// FAILED_PRECONDITION, with what to do about it, where a commit would not be durable or the
// session does not take writes.
absl::StatusOr<PostgresFacts> PrepareServer(PgConnection& connection);

// Without setting or asserting anything.
absl::StatusOr<PostgresPlace> ReadPlace(PgConnection& connection);
// Whether there are tables of ours, of whatever version, as far as can be seen.
bool HasTables(PgConnection& connection);

// Creates the tables or brings them to kPostgresSchemaVersion. Several processes may do so at
// once. FAILED_PRECONDITION where they are of a newer version, or must not be created.
absl::Status MigrateSchema(PgConnection& connection);

// FAILED_PRECONDITION where the tables are not of this version.
absl::Status CheckSchema(PgConnection& connection);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_SCHEMA_H_
