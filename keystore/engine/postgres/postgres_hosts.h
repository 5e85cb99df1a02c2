// Which of several servers is the one to go to. The first that takes writes may be an old primary
// that has come back: it has lost what was written since, and whatever it grants is granted again
// by others.
//
// Thread safety: functions may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_HOSTS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_HOSTS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"
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

// The host that was the one when somebody looked last; any number: none is known.
using KnownHost = std::atomic<size_t>;
inline constexpr size_t kNoHost = std::numeric_limits<size_t>::max();

// Tries the hosts that the URI names one after the other, each alone (options.only_host), and the
// known one first: one that is silent is waited for by whoever comes to it, which takes seconds.
// The first for which `attempt` says OK is the one, and is known from then on. Where it is none of
// them: the first error that says more than ABORTED (it is not the one) and UNAVAILABLE, since a
// host that is set up wrongly does not stand in front of one that is right; else UNAVAILABLE, with
// what was said of each.
absl::Status TryHosts(const std::string& uri, const PgOptions& options, KnownHost* known,
                      const std::function<absl::Status(const PgOptions&)>& attempt);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_HOSTS_H_
