// What becomes of rows that are due: it asks core::Observe, as every read does, about a moment that
// is a margin ago.
//
//   an erased key, or a record that is forgotten   is removed
//   COMPLETE whose retention is over               shrinks to its EXPIRED remains, in place
//   everything else                                stays, and is looked at again later: what
//                                                  cannot be read, namespaces that must not be
//                                                  reclaimed
//
// Thread safety: a value.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_EXPIRY_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_EXPIRY_H_

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/engine/postgres/postgres_session.h"
#include "keystore/engine/record_sealer.h"

namespace idempotency::keystore {

// When a record can be looked at for removal, in milliseconds since 1970. Open ones never are:
// they go through a lane.
std::optional<int64_t> ExpiresAt(const core::Record& record);

class ExpiredRows {
 public:
  using MayReclaim = std::function<bool(std::string_view name_space)>;

  // Judges rows as of `then`; an unset may_reclaim allows all.
  ExpiredRows(const RowsRead& due, const core::Now& then, const MayReclaim& may_reclaim,
              const RecordSealer& sealer);

  // Each in the order of their keys.
  const std::vector<PostgresRow>& to_remove() const { return to_remove_; }
  const std::vector<PostgresRow>& to_shrink() const { return to_shrink_; }
  const std::vector<PostgresRow>& to_postpone() const { return to_postpone_; }

 private:
  void Judge(const StoredRow& row, const core::Now& then, const MayReclaim& may_reclaim,
             const RecordSealer& sealer);

  std::vector<PostgresRow> to_remove_;
  std::vector<PostgresRow> to_shrink_;
  std::vector<PostgresRow> to_postpone_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_EXPIRY_H_
