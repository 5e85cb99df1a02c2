#include "keystore/engine/postgres/postgres_expiry.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "keystore/codec/key_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/core/transition.h"

namespace idempotency::keystore {
namespace {

// When what stays is looked at again.
constexpr core::Duration kLookedAtAgain = std::chrono::hours(1);

int64_t Milliseconds(core::Time time) { return time.time_since_epoch().count(); }

void SortByKey(std::vector<PostgresRow>* rows) {
  std::sort(rows->begin(), rows->end(),
            [](const PostgresRow& a, const PostgresRow& b) { return a.key < b.key; });
}

}  // namespace

std::optional<int64_t> ExpiresAt(const core::Record& record) {
  switch (record.state) {
    case core::State::kPending:
    case core::State::kUnresolved:
      return std::nullopt;
    case core::State::kComplete:
      return Milliseconds(record.response_expire_time);
    case core::State::kExpired:
    case core::State::kFreed:
      return Milliseconds(record.forget_time);
  }
  return std::nullopt;
}

ExpiredRows::ExpiredRows(const RowsRead& due, const core::Now& then, const MayReclaim& may_reclaim,
                         const RecordSealer& sealer) {
  for (const StoredRow& row : due.rows) Judge(row, then, may_reclaim, sealer);
  SortByKey(&to_remove_);
  SortByKey(&to_shrink_);
  SortByKey(&to_postpone_);
}

void ExpiredRows::Judge(const StoredRow& row, const core::Now& then, const MayReclaim& may_reclaim,
                        const RecordSealer& sealer) {
  PostgresRow changed{.key = std::string(row.key), .expected = row.version};
  changed.expires_ms = Milliseconds(core::Add(then.latest, kLookedAtAgain));
  if (row.erased) return to_remove_.push_back(std::move(changed));
  const std::optional<core::Key> key = DecodeKey(row.key);
  const bool may = key.has_value() && (!may_reclaim || may_reclaim(key->name_space));
  std::optional<OpenedRecord> opened = sealer.Decode(row.key, row.record);
  if (!may || !opened.has_value()) return to_postpone_.push_back(std::move(changed));
  const core::State state = opened->record.state;
  const std::optional<core::Record> left = core::Observe(std::move(opened->record), then);
  if (!left.has_value()) return to_remove_.push_back(std::move(changed));
  const bool shrinks = state == core::State::kComplete && left->state == core::State::kExpired &&
                       core::BrokenRule(*left).empty() &&
                       sealer.Encode(changed.key, *left, &changed.record.emplace());
  if (!shrinks) {
    changed.record.reset();
    return to_postpone_.push_back(std::move(changed));
  }
  changed.state = static_cast<int64_t>(left->state);
  changed.expires_ms = ExpiresAt(*left);
  to_shrink_.push_back(std::move(changed));
}

}  // namespace idempotency::keystore
