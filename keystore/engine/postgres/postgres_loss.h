// A database that was made of a dump, or copied, has lost what was acknowledged after that. It is
// noticed by where the tables were made: the cluster, the database and the table of records each
// have a number there that a dump does not bring along.
//
// Thread safety: a pure function, but for the session that it is given.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_LOSS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_LOSS_H_

#include "absl/status/statusor.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/postgres/postgres_session.h"
#include "keystore/engine/record_sealer.h"

namespace idempotency::keystore {

// The tables are not where they were made, as far as is known.
bool IsRestored(const TableOrigin& origin);

// Looks whether the tables are where they were made, and where they are not, makes what is PENDING
// unresolved (core/loss.h) and remembers the time. Gives the last such time; unset: never. Several
// may do so at once, and one that was interrupted is done again.
absl::StatusOr<core::Time> SettleLoss(PostgresSession& session, const RecordSealer& sealer,
                                      const core::Now& now, const LogFunction& log);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_LOSS_H_
