#include "keystore/engine/postgres/postgres_loss.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "keystore/core/loss.h"
#include "keystore/engine/scan.h"

namespace idempotency::keystore {
namespace {

// What becomes of a page of open records. False: one of them has changed meanwhile, or could not
// be written, and the page has to be looked at again.
absl::StatusOr<bool> MakeUnresolved(PostgresSession& session, const RowsRead& page,
                                    const RecordSealer& sealer, const core::Now& now,
                                    size_t* changed) {
  std::vector<PostgresRow> rows;
  for (const StoredRow& row : page.rows) {
    std::optional<OpenedRecord> opened = sealer.Decode(row.key, row.record);
    if (!opened.has_value() || opened->record.state != core::State::kPending) continue;
    const core::Record after = core::AfterLoss(std::move(opened->record), now);
    PostgresRow& made = rows.emplace_back(PostgresRow{.key = std::string(row.key),
                                                      .expected = row.version,
                                                      .state = static_cast<int64_t>(after.state),
                                                      .token = after.token});
    if (!sealer.Encode(made.key, after, &made.record.emplace())) {
      return absl::InternalError("a record could not be sealed");
    }
  }
  if (rows.empty()) return true;
  const WriteReply reply = session.Write(rows);
  if (reply.kind != WriteReply::Kind::kDone && reply.kind != WriteReply::Kind::kAgain) {
    return absl::UnavailableError(
        absl::StrCat("cannot make pending operations unresolved: ", reply.why.message));
  }
  const auto written = std::count(reply.written.begin(), reply.written.end(), true);
  *changed += static_cast<size_t>(written);
  return static_cast<size_t>(written) == rows.size();
}

absl::StatusOr<size_t> MakeAllUnresolved(PostgresSession& session, const RecordSealer& sealer,
                                         const core::Now& now) {
  size_t changed = 0;
  std::string start;
  for (;;) {
    const auto page = session.Scan(start, true, kMaxPostgresBatch, kMaxScanBytes);
    if (!page.ok()) return page.status();
    const absl::StatusOr<bool> all = MakeUnresolved(session, *page, sealer, now, &changed);
    if (!all.ok()) return all.status();
    if (!*all) continue;
    if (!page->more || page->rows.empty()) return changed;
    start = std::string(page->rows.back().key);
    start.push_back('\0');
  }
}

}  // namespace

bool IsRestored(const TableOrigin& origin) {
  return !origin.here.empty() && !origin.made_at.empty() && origin.made_at != origin.here;
}

absl::StatusOr<core::Time> SettleLoss(PostgresSession& session, const RecordSealer& sealer,
                                      const core::Now& now, const LogFunction& log) {
  const absl::StatusOr<TableOrigin> origin = session.ReadOrigin();
  if (!origin.ok()) return origin.status();
  const core::Time before{core::Duration(origin->lost_before_ms)};
  if (!origin->here.empty() && origin->made_at.empty()) {
    const absl::Status kept = session.SetOrigin(*origin, origin->lost_before_ms);
    return kept.ok() ? absl::StatusOr<core::Time>(before) : kept;
  }
  if (!IsRestored(*origin)) return before;
  const absl::StatusOr<size_t> changed = MakeAllUnresolved(session, sealer, now);
  if (!changed.ok()) return changed.status();
  const int64_t lost_before_ms = now.latest.time_since_epoch().count();
  if (absl::Status kept = session.SetOrigin(*origin, lost_before_ms); !kept.ok()) return kept;
  log(kLogWarning,
      absl::StrCat("the tables were not made in this database: it was restored from a dump or "
                   "copied, and what was acknowledged after that is lost. ",
                   *changed,
                   " pending operations are unresolved now; operations begun before now "
                   "of which nothing is known are TOO_OLD where operation_age shows it"));
  // Another may have been first, and its time is what everybody goes by.
  const absl::StatusOr<TableOrigin> settled = session.ReadOrigin();
  if (!settled.ok()) return settled.status();
  return core::Time(core::Duration(settled->lost_before_ms));
}

}  // namespace idempotency::keystore
