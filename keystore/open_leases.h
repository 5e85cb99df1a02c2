// When the leases of one lane end, and when open records that time makes absent can go. In
// memory only: for waiters, logs and space, never for truth.
//
// Thread safety: none; used by whoever runs the lane.
#ifndef IDEMPOTENCY_KEYSTORE_OPEN_LEASES_H_
#define IDEMPOTENCY_KEYSTORE_OPEN_LEASES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/key_hash.h"

namespace idempotency::keystore {

class OpenLeases {
 public:
  // The lease on `key` ends at `expire`; replaces what was known of it.
  void Set(const core::Key& key, core::Time expire);
  // False where nothing was known of it.
  bool Erase(const core::Key& key);
  bool Contains(const core::Key& key) const { return ends_.contains(key); }
  // Nothing where it is not known.
  std::optional<core::Time> EndOf(const core::Key& key) const;

  // At most `limit` keys whose leases have ended, the oldest first; they are known no longer.
  std::vector<core::Key> TakeDue(core::Time now, size_t limit);
  std::optional<core::Time> NextDue() const;
  size_t size() const { return ends_.size(); }

 private:
  using ByEnd = std::multimap<core::Time, const core::Key*>;

  // Keys of a node map stay where they are, so that the order can point to them.
  absl::node_hash_map<core::Key, ByEnd::iterator, KeyHash> ends_;
  ByEnd by_end_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_OPEN_LEASES_H_
