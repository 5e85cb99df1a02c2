#include "keystore/open_leases.h"

namespace idempotency::keystore {

void OpenLeases::Set(const core::Key& key, core::Time expire) {
  const auto [entry, added] = ends_.try_emplace(key);
  if (!added) by_end_.erase(entry->second);
  // Most leases are equally long, and the newest ends last.
  entry->second = by_end_.emplace_hint(by_end_.end(), expire, &entry->first);
}

bool OpenLeases::Erase(const core::Key& key) {
  if (ends_.empty()) return false;
  const auto entry = ends_.find(key);
  if (entry == ends_.end()) return false;
  by_end_.erase(entry->second);
  ends_.erase(entry);
  return true;
}

std::optional<core::Time> OpenLeases::EndOf(const core::Key& key) const {
  const auto entry = ends_.find(key);
  if (entry == ends_.end()) return std::nullopt;
  return entry->second->first;
}

std::vector<core::Key> OpenLeases::TakeDue(core::Time now, size_t limit) {
  std::vector<core::Key> due;
  while (due.size() < limit && !by_end_.empty() && by_end_.begin()->first <= now) {
    due.push_back(*by_end_.begin()->second);
    Erase(due.back());
  }
  return due;
}

std::optional<core::Time> OpenLeases::NextDue() const {
  if (by_end_.empty()) return std::nullopt;
  return by_end_.begin()->first;
}

}  // namespace idempotency::keystore
