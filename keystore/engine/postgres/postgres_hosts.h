// Which of several servers is the one to begin with. Before anything is known, the first that takes
// writes may be an old primary that has come back: it has lost what was written since, and whatever
// it grants is granted again by others.
//
// Thread safety: a pure function.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_HOSTS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_HOSTS_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "keystore/core/time.h"
#include "keystore/engine/postgres/pg_connection.h"

namespace idempotency::keystore {

// Of the hosts that the URI names (PgConnection::HostsNamed), one that takes writes: of the cluster
// that has our tables, the one that was promoted last. All are connected to at once; who has not
// answered after look_timeout is passed over. UNAVAILABLE, with what each says, where there is
// none.
absl::StatusOr<size_t> NewestHost(const std::string& uri, const PgOptions& options,
                                  core::Duration look_timeout);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_HOSTS_H_
