// The commands of one lane that wait for a lease to end: first come, first served per key.
//
// Thread safety: none; used by whoever runs the lane.
#ifndef IDEMPOTENCY_KEYSTORE_WAITERS_H_
#define IDEMPOTENCY_KEYSTORE_WAITERS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/key_hash.h"
#include "keystore/pending_command.h"

namespace idempotency::keystore {

class Waiters {
 public:
  // command->wait_until must be set.
  void Add(PendingCommandPtr command);

  // All that wait for `key`, in the order in which they came; they wait no longer.
  std::vector<PendingCommandPtr> TakeKey(const core::Key& key);
  // Those whose wait is over at `now`, in the order of their ends.
  std::vector<PendingCommandPtr> TakeDue(core::Time now);
  std::vector<PendingCommandPtr> TakeAll();
  // The command with this id, or null.
  PendingCommandPtr Take(uint64_t id);

  size_t size() const { return by_id_.size(); }
  size_t CountOf(const core::Key& key) const;
  // When the first wait ends.
  std::optional<core::Time> NextDue() const;

 private:
  using Lines = std::unordered_map<core::Key, std::list<PendingCommandPtr>, KeyHash>;
  // Entries of the map stay where they are while they are in it.
  struct Place {
    Lines::value_type* line = nullptr;
    std::list<PendingCommandPtr>::iterator command;
  };

  Lines lines_;
  std::unordered_map<uint64_t, Place> by_id_;
  std::set<std::pair<core::Time, uint64_t>> by_end_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_WAITERS_H_
