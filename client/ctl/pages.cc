#include "client/ctl/pages.h"

#include <algorithm>

namespace idempotency::ctl {
namespace {

// The most that the service puts on one page.
constexpr int64_t kMaxPageSize = 1000;

}  // namespace

Connection::Error ListPages(Connection& connection, v1::ListOperationsRequest request,
                            int64_t limit, const TellListed& tell,
                            v1::ListOperationsResponse* all) {
  for (;;) {
    const int64_t wanted = limit == 0 ? kMaxPageSize : limit - all->operations_size();
    request.set_page_size(static_cast<int32_t>(std::min(wanted, kMaxPageSize)));
    v1::ListOperationsResponse page;
    if (auto error = connection.ListOperations(request, &page)) return error;
    all->mutable_operations()->MergeFrom(page.operations());
    all->set_next_page_token(page.next_page_token());
    const bool full = limit != 0 && all->operations_size() >= limit;
    if (all->next_page_token().empty() || full) return std::nullopt;
    request.set_page_token(page.next_page_token());
    tell(static_cast<uint64_t>(all->operations_size()));
  }
}

Connection::Error ListPages(Connection& connection, v1::ListNamespacesResponse* all) {
  v1::ListNamespacesRequest request;
  do {
    v1::ListNamespacesResponse page;
    if (auto error = connection.ListNamespaces(request, &page)) return error;
    all->mutable_namespaces()->MergeFrom(page.namespaces());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return std::nullopt;
}

}  // namespace idempotency::ctl
