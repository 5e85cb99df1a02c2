#include "keystore/unresolved.h"

#include <algorithm>

#include "keystore/key_hash.h"

namespace idempotency::keystore {

void UnresolvedOperations::Set(const core::Key& key, core::Time since) {
  absl::MutexLock lock(&mutex_);
  const auto [name, is_new] =
      number_of_.try_emplace(key.name_space, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(key.name_space);
  entries_[KeyHash()(key)] = Entry{since.time_since_epoch().count(), name->second};
  size_.store(entries_.size(), std::memory_order_relaxed);
}

void UnresolvedOperations::Erase(const core::Key& key) {
  // Whoever erases a key is the one who has set it, and knows by now.
  if (size_.load(std::memory_order_relaxed) == 0) return;
  absl::MutexLock lock(&mutex_);
  entries_.erase(KeyHash()(key));
  size_.store(entries_.size(), std::memory_order_relaxed);
}

bool UnresolvedOperations::Contains(const core::Key& key) const {
  if (size_.load(std::memory_order_relaxed) == 0) return false;
  absl::MutexLock lock(&mutex_);
  return entries_.contains(KeyHash()(key));
}

std::vector<UnresolvedCount> UnresolvedOperations::Count() const {
  absl::MutexLock lock(&mutex_);
  std::vector<UnresolvedCount> counts(names_.size());
  for (const auto& [hash, entry] : entries_) {
    UnresolvedCount& count = counts[entry.name];
    const core::Time since{core::Duration(entry.since_ms)};
    count.oldest = count.operations == 0 ? since : std::min(count.oldest, since);
    ++count.operations;
  }
  for (size_t i = 0; i < counts.size(); ++i) counts[i].name_space = names_[i];
  std::erase_if(counts, [](const UnresolvedCount& count) { return count.operations == 0; });
  return counts;
}

}  // namespace idempotency::keystore
