// Lists that the service gives page by page, as one. A page may be short or empty: only a missing
// token ends them.
#ifndef IDEMPOTENCY_CLIENT_CTL_PAGES_H_
#define IDEMPOTENCY_CLIENT_CTL_PAGES_H_

#include <cstdint>
#include <functional>

#include "client/ctl/connection.h"

namespace idempotency::ctl {

// What lists take where nothing is said.
inline constexpr int64_t kDefaultListLimit = 100;

// Told between two pages how many operations there are so far: never for a list of one page.
using TellListed = std::function<void(uint64_t listed)>;

// At most `limit` operations; 0: all. Where there may be more, *all has the token of the next page.
Connection::Error ListPages(Connection& connection, v1::ListOperationsRequest request,
                            int64_t limit, const TellListed& tell, v1::ListOperationsResponse* all);

Connection::Error ListPages(Connection& connection, v1::ListNamespacesResponse* all);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_PAGES_H_
