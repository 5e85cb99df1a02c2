// A command on its way through a lane, from Submit to its reply.
#ifndef IDEMPOTENCY_KEYSTORE_PENDING_COMMAND_H_
#define IDEMPOTENCY_KEYSTORE_PENDING_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "keystore/core/time.h"
#include "keystore/fair_order.h"
#include "keystore/key_store.h"
#include "keystore/quota.h"

namespace idempotency::keystore {

struct PendingCommand {
  uint64_t id = 0;  // given by the lane's queue; 0: the lane asks it of itself
  Request request;
  ReplyCallback done;
  TenantId tenant;
  // Until when it may wait for a lease to end; unset: it does not wait (any more).
  core::Time wait_until;
  // When the caller stops listening; unset: never.
  core::Time caller_leaves;
  // Made by the key store itself: not counted, not observed.
  bool internal = false;
  // It has waited for a lease to end.
  bool has_waited = false;
  // A Reserve that quotas were asked about, and what they had against a new key the last time.
  bool metered = false;
  std::optional<QuotaExcess> quota;
  // It was written, and nobody knows whether that took effect.
  bool may_have_effect = false;
  // Of what settles an operation over its owner's head: what that write was guarded by; 0: there is
  // no such write.
  Version doubted = 0;
};

using PendingCommandPtr = std::unique_ptr<PendingCommand>;

// Reads and reservations: dropped without harm when their caller is gone.
inline bool MayBeDropped(const core::Command& command) {
  return std::holds_alternative<core::ReserveCommand>(command) ||
         std::holds_alternative<core::GetCommand>(command) ||
         std::holds_alternative<core::InspectCommand>(command);
}

// Nobody would receive the answer: it is better not begun. What may have had its effect is.
inline bool IsLate(const PendingCommand& command, core::Time now) {
  return core::IsSet(command.caller_leaves) && command.caller_leaves <= now &&
         MayBeDropped(command.request.command) && !command.may_have_effect;
}

// The effect has happened, or may have: its report is never refused for load or space.
inline bool IsFinishing(const core::Command& command) {
  return std::holds_alternative<core::CompleteCommand>(command) ||
         std::holds_alternative<core::MarkUnresolvedCommand>(command) ||
         std::holds_alternative<core::ResolveCommand>(command);
}

// What a command keeps in memory beside its fixed size.
inline size_t ResponseBytes(const core::Command& command) {
  if (const auto* complete = std::get_if<core::CompleteCommand>(&command)) {
    return complete->response.bytes.view().size();
  }
  if (const auto* resolve = std::get_if<core::ResolveCommand>(&command)) {
    return resolve->response.bytes.view().size();
  }
  return 0;
}

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_PENDING_COMMAND_H_
