#include "keystore/engine/postgres/postgres_scan.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace idempotency::keystore {
namespace {

constexpr size_t kMaxPageRows = 256;

}  // namespace

PostgresScan::PostgresScan(PostgresSession& session, const RecordSealer& sealer, bool open_only,
                           size_t limit)
    : session_(session),
      sealer_(sealer),
      open_only_(open_only),
      // One more, which tells that there is more.
      limit_(std::min(limit, kMaxPageRows) + 1) {}

void PostgresScan::Fetch(std::string start) {
  begun_ = true;
  at_ = 0;
  auto page = session_.Scan(start, open_only_, limit_, kMaxScanBytes);
  if (page.ok()) {
    page_ = *std::move(page);
  } else {
    status_ = page.status();
    page_ = {};
  }
}

void PostgresScan::Seek(std::string_view target) {
  // What is on the page already is not asked for again.
  while (Valid() && key() < target) ++at_;
  const bool beyond = !begun_ || page_.more;
  if (!Valid() && beyond) Fetch(std::string(target));
}

void PostgresScan::Next() {
  std::string last(key());
  if (++at_ < page_.rows.size() || !page_.more) return;
  last.push_back('\0');
  Fetch(std::move(last));
}

core::Stored PostgresScan::Load(size_t* bytes) const {
  const StoredRow& row = page_.rows[at_];
  *bytes = row.key.size() + row.record.size();
  std::optional<OpenedRecord> opened = sealer_.Decode(row.key, row.record);
  if (!opened.has_value()) return core::Unreadable{};
  return std::move(opened->record);
}

}  // namespace idempotency::keystore
