// The commands of one lane that nobody has taken yet. Each tenant's are taken in the order in which
// they came, and tenants take turns (fair_order.h). Any command can be taken out by its id: a
// connection that dies cancels all its calls at once, and looking through the queue for each would
// hold up the lane.
//
// Thread safety: none; the lane's lock is held around it.
#ifndef IDEMPOTENCY_KEYSTORE_COMMAND_QUEUE_H_
#define IDEMPOTENCY_KEYSTORE_COMMAND_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "keystore/fair_order.h"
#include "keystore/pending_command.h"

namespace idempotency::keystore {

class CommandQueue {
 public:
  // Gives the command its id: 1 for the first, then always one more.
  uint64_t Push(PendingCommandPtr command);
  // The next in turn; null where there is none.
  PendingCommandPtr Pop();

  // Null where it is not in the queue (any more).
  const PendingCommand* Find(uint64_t id);
  // Null likewise.
  PendingCommandPtr Take(uint64_t id);

  bool empty() const { return held_ == 0; }
  size_t size() const { return held_; }
  // More than one tenant has commands here.
  bool is_shared() const { return order_.is_shared(); }
  bool has_long_lines() const { return order_.has_long_lines(); }
  // As FairOrder says; commands that were taken out may be among them for a while.
  size_t QueuedOf(const TenantId& tenant) const { return order_.QueuedOf(tenant); }
  size_t AheadOf(const TenantId& tenant) const { return order_.AheadOf(tenant); }
  // Empty ones included.
  size_t places() const { return places_.size(); }
  // How many places have been looked at by Find and Take so far, and moved because of them.
  uint64_t steps() const { return steps_; }

 private:
  // Of a command that was taken out the place is left, so that those behind it need not move.
  struct Place {
    uint64_t id = 0;
    PendingCommandPtr command;
  };

  std::deque<Place>::iterator PlaceOf(uint64_t id);
  PendingCommandPtr Empty(std::deque<Place>::iterator place);
  void DropEmptyPlaces();

  std::deque<Place> places_;  // by id; the first holds a command
  FairOrder order_;           // of the ids, those of commands that were taken out among them
  size_t held_ = 0;
  uint64_t last_id_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_COMMAND_QUEUE_H_
