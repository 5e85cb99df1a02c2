// Small numbers for the namespaces that a configuration of this process has named: what counts by
// namespace has a row for each, and finds it without looking up a name.
//
// Thread safety: all functions may be called from any thread.
#ifndef IDEMPOTENCY_SERVICE_NAMESPACE_ROWS_H_
#define IDEMPOTENCY_SERVICE_NAMESPACE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::service {

// Row 0: every namespace without a row of its own.
inline constexpr size_t kMaxNamespaceRows = 4096;
// How row 0 is called; no namespace can be.
inline constexpr char kOtherNamespaces[] = "_other";

// The row of `name`, the same for as long as the process lives; 0 where all are taken, which needs
// several reloads, each with other names. Takes a lock: for those who read a configuration.
uint32_t NamespaceRow(std::string_view name);

// The names of all rows, in order.
std::vector<std::string> NamespaceRowNames();

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_NAMESPACE_ROWS_H_
