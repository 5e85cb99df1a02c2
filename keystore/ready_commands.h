// What a lane takes before its queue: woken waiters, commands that have to be stepped again, and
// what the lane asks of itself (such commands have the id 0). Any other can be taken out by its id.
//
// Thread safety: none; used by whoever runs the lane.
#ifndef IDEMPOTENCY_KEYSTORE_READY_COMMANDS_H_
#define IDEMPOTENCY_KEYSTORE_READY_COMMANDS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "keystore/pending_command.h"

namespace idempotency::keystore {

class ReadyCommands {
 public:
  void Add(std::vector<PendingCommandPtr> commands);
  // Before all others, in their order.
  void AddFirst(std::vector<PendingCommandPtr> commands);
  // The first; null where there is none.
  PendingCommandPtr Pop();
  // Null where it is not here. It may be changed until it is taken.
  PendingCommand* Find(uint64_t id) const;
  // Null likewise.
  PendingCommandPtr Take(uint64_t id);

  bool empty() const { return commands_.empty(); }

 private:
  using Line = std::list<PendingCommandPtr>;

  void Insert(Line::iterator before, std::vector<PendingCommandPtr> commands);

  Line commands_;
  absl::flat_hash_map<uint64_t, Line::iterator> by_id_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_READY_COMMANDS_H_
