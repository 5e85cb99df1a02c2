#include "keystore/waiters.h"

namespace idempotency::keystore {

void Waiters::Add(PendingCommandPtr command) {
  const uint64_t id = command->id;
  by_end_.emplace(command->wait_until, id);
  auto& line = *lines_.try_emplace(command->request.key).first;
  by_id_.emplace(id, Place{&line, line.second.insert(line.second.end(), std::move(command))});
}

std::vector<PendingCommandPtr> Waiters::TakeKey(const core::Key& key) {
  std::vector<PendingCommandPtr> taken;
  if (lines_.empty()) return taken;
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
  const auto [line, place] = entry->second;
  PendingCommandPtr taken = std::move(*place);
  by_end_.erase({taken->wait_until, id});
  by_id_.erase(entry);
  line->second.erase(place);
  if (line->second.empty()) lines_.erase(lines_.find(line->first));
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
