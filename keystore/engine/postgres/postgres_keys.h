// Which keys the database needs (needed_keys.h), in a table of its own: a row for each id. It is
// made by the first server that seals, in tables of whatever version: one that does not know it
// goes on as before.
//
//   idempotency_response_keys  id
//
// Thread safety: a pure function, but for the connection that it is given.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_KEYS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "keystore/engine/key_ring.h"
#include "keystore/engine/postgres/pg_connection.h"

namespace idempotency::keystore {

// Whether the database may be opened with these keys; durable when it returns is that the current
// one is needed. To be called before anything is sealed, on a connection that was prepared. Several
// may do so at once. FAILED_PRECONDITION where a key is missing, or the table must not be made;
// UNAVAILABLE where the database does not answer.
absl::Status CheckResponseKeys(PgConnection& connection, const KeyRing& keys,
                               const std::vector<std::string>& lost);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_KEYS_H_
