#include "keystore/ready_commands.h"

#include <utility>

namespace idempotency::keystore {

void ReadyCommands::Insert(Line::iterator before, std::vector<PendingCommandPtr> commands) {
  for (PendingCommandPtr& command : commands) {
    const uint64_t id = command->id;
    const auto place = commands_.insert(before, std::move(command));
    if (id != 0) by_id_.emplace(id, place);
  }
}

void ReadyCommands::Add(std::vector<PendingCommandPtr> commands) {
  Insert(commands_.end(), std::move(commands));
}

void ReadyCommands::AddFirst(std::vector<PendingCommandPtr> commands) {
  Insert(commands_.begin(), std::move(commands));
}

PendingCommandPtr ReadyCommands::Pop() {
  if (commands_.empty()) return nullptr;
  PendingCommandPtr command = std::move(commands_.front());
  commands_.pop_front();
  if (command->id != 0) by_id_.erase(command->id);
  return command;
}

PendingCommand* ReadyCommands::Find(uint64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second->get();
}

PendingCommandPtr ReadyCommands::Take(uint64_t id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  PendingCommandPtr command = std::move(*found->second);
  commands_.erase(found->second);
  by_id_.erase(found);
  return command;
}

}  // namespace idempotency::keystore
