#include "service/namespace_rows.h"

#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace idempotency::service {
namespace {

struct Rows {
  absl::Mutex mutex;
  std::map<std::string, uint32_t, std::less<>> row_of ABSL_GUARDED_BY(mutex);
  std::vector<std::string> names ABSL_GUARDED_BY(mutex) = {kOtherNamespaces};
};

Rows& TheRows() {
  static Rows* const kRows = new Rows;
  return *kRows;
}

}  // namespace

uint32_t NamespaceRow(std::string_view name) {
  Rows& rows = TheRows();
  absl::MutexLock lock(&rows.mutex);
  const auto known = rows.row_of.find(name);
  if (known != rows.row_of.end()) return known->second;
  if (rows.names.size() == kMaxNamespaceRows) return 0;
  const auto row = static_cast<uint32_t>(rows.names.size());
  rows.names.emplace_back(name);
  rows.row_of.emplace(name, row);
  return row;
}

std::vector<std::string> NamespaceRowNames() {
  Rows& rows = TheRows();
  absl::MutexLock lock(&rows.mutex);
  return rows.names;
}

}  // namespace idempotency::service
