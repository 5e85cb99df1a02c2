// Whether a PostgreSQL keeps the promises that we make on top of it: the settings that make a
// commit durable as a new session would have them, standbys, tables and rights, room for
// connections, TLS, and its clock.
//
// Thread safety: pure functions, but for the connection that is asked.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_CHECK_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine_check.h"
#include "keystore/engine/postgres/pg_connection.h"
#include "keystore/engine/postgres/postgres_options.h"

namespace idempotency::keystore {

// What the server says of itself to a session like ours; unset: it does not say, or no such thing
// is known to it.
struct PostgresServerFacts {
  std::string version;  // "PostgreSQL 15.14 (Debian ...)"
  std::optional<int64_t> version_number;
  std::optional<bool> in_recovery;
  std::optional<std::string> read_only;  // default_transaction_read_only
  std::optional<std::string> fsync;
  std::optional<std::string> full_page_writes;
  std::optional<std::string> synchronous_commit;
  std::optional<std::string> synchronous_standbys;  // synchronous_standby_names
  std::optional<std::string> data_checksums;
  // How many standbys there are, and how many of them commits wait for. The second is unset where
  // the role may not know.
  std::optional<int64_t> standbys;
  std::optional<int64_t> standbys_in_sync;
  // For everybody but superusers, and how many are taken.
  std::optional<int64_t> max_connections;
  std::optional<int64_t> used_connections;
  std::optional<bool> is_superuser;
};

struct PostgresCheckFacts {
  // Of a connection as the engine makes it.
  absl::Status takes_writes = absl::UnknownError("not asked");
  // Of one to any server that answers. Not OK: nothing could be asked.
  absl::Status connected = absl::UnknownError("not asked");
  PgPeer peer;
  PostgresServerFacts server;
  absl::StatusOr<int64_t> schema_version = absl::UnknownError("not asked");
  // May do to our tables what has to be done.
  absl::StatusOr<bool> may_write = absl::UnknownError("not asked");
  // What its clock said, and ours before and after.
  std::optional<core::Time> server_time;
  core::Time before;
  core::Time after;
  // As configured.
  size_t connections = 0;  // those of upkeep and hints among them
  core::Duration clock_skew{0};
};

// A finding for each check.
std::vector<Finding> Judge(const PostgresCheckFacts& facts);

// Connects to a server that takes writes, as the engine does, to look; where there is none, to any
// that answers. Blocks, for as long as options.look_timeout says in all.
PostgresCheckFacts GatherFacts(const PostgresOptions& options,
                               const std::function<core::Time()>& now);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_CHECK_H_
