#include "keystore/waiters.h"

#include <algorithm>

namespace idempotency::keystore {

void Waiters::Add(PendingCommandPtr command) {
  by_end_.emplace(command->wait_until, command->id);
  by_id_.emplace(command->id, command->request.key);
  auto& line = lines_[command->request.key];
  line.push_back(std::move(command));
}

std::vector<PendingCommandPtr> Waiters::TakeKey(const core::Key& key) {
  std::vector<PendingCommandPtr> taken;
  const auto line = lines_.find(key);
  if (line == lines_.end()) return taken;
  for (PendingCommandPtr& command : line->second) {
    by_end_.erase({command->wait_until, command->id});
    by_id_.erase(command->id);
    taken.push_back(std::move(command));
  }
  lines_.erase(line);
  return taken;
}

std::vector<PendingCommandPtr> Waiters::TakeDue(core::Time now) {
  std::vector<PendingCommandPtr> taken;
  while (!by_end_.empty() && by_end_.begin()->first <= now) {
    taken.push_back(Take(by_end_.begin()->second));
  }
  return taken;
}

std::vector<PendingCommandPtr> Waiters::TakeAll() {
  std::vector<PendingCommandPtr> taken;
  while (!by_end_.empty()) taken.push_back(Take(by_end_.begin()->second));
  return taken;
}

PendingCommandPtr Waiters::Take(uint64_t id) {
  const auto entry = by_id_.find(id);
  if (entry == by_id_.end()) return nullptr;
  const auto line = lines_.find(entry->second);
  auto& commands = line->second;
  const auto place = std::find_if(commands.begin(), commands.end(),
                                  [id](const auto& command) { return command->id == id; });
  PendingCommandPtr taken = std::move(*place);
  by_end_.erase({taken->wait_until, id});
  by_id_.erase(entry);
  commands.erase(place);
  if (commands.empty()) lines_.erase(line);
  return taken;
}

size_t Waiters::CountOf(const core::Key& key) const {
  const auto line = lines_.find(key);
  return line == lines_.end() ? 0 : line->second.size();
}

std::optional<core::Time> Waiters::NextDue() const {
  if (by_end_.empty()) return std::nullopt;
  return by_end_.begin()->first;
}

}  // namespace idempotency::keystore
