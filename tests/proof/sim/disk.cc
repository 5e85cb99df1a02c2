#include "tests/proof/sim/disk.h"

#include <algorithm>
#include <string>

#include "keystore/core/invariants.h"

namespace idempotency::proof {

Row SimDisk::DurableRow(size_t key) const {
  Row row = rows_[key];
  for (size_t i = unsynced_.size(); i > 0; --i) {
    const Change& change = history_->changes[unsynced_[i - 1]];
    if (change.key == key) row = Row{change.before, change.version_before};
  }
  return row;
}

Row SimDisk::OldRow(size_t key, size_t back) const {
  Row row = rows_[key];
  for (size_t i = history_->changes.size(); i > 0 && back > 0; --i) {
    const Change& change = history_->changes[i - 1];
    if (change.key != key || change.lost) continue;
    row = Row{change.before, change.version_before};
    --back;
  }
  return row;
}

void SimDisk::Apply(const AskedWrite& write) {
  Row& row = rows_[write.key];
  if (write.record != nullptr) {
    const std::string_view rule = core::BrokenRule(*write.record);
    if (!rule.empty())
      history_->Break("a record that breaks a rule is written: " + std::string(rule));
    highest_token_ = std::max(highest_token_, write.record->token);
  }
  history_->changes.push_back(Change{.key = write.key,
                                     .replica = write.replica,
                                     .asked = write.asked,
                                     .asked_at = write.asked_at,
                                     .applied = history_->Next(),
                                     .before = row.record,
                                     .after = write.record,
                                     .version_before = row.version,
                                     .by_filter = write.by_filter});
  unsynced_.push_back(history_->changes.size() - 1);
  row = Row{write.record, ++last_version_};
  if (write.record == nullptr && nothing_is_nothing_) row.version = 0;
}

bool SimDisk::ApplyIfExpected(const AskedWrite& write) {
  if (rows_[write.key].version != write.expected) return false;
  Apply(write);
  return true;
}

void SimDisk::Sync() {
  if (unsynced_.empty()) return;
  const Seq now = history_->Next();
  for (const size_t i : unsynced_) history_->changes[i].durable = now;
  unsynced_.clear();
}

void SimDisk::Crash(size_t survivors) {
  while (unsynced_.size() > survivors) {
    Change& change = history_->changes[unsynced_.back()];
    rows_[change.key] = Row{change.before, change.version_before};
    change.lost = true;
    ++history_->counts.lost_writes;
    unsynced_.pop_back();
  }
  history_->counts.survived_writes += unsynced_.size();
  Sync();
}

uint64_t SimDisk::stored_token_floor() const {
  uint64_t highest = 0;
  for (const Row& row : rows_) {
    if (row.record != nullptr) highest = std::max(highest, row.record->token);
  }
  return highest + 1;
}

}  // namespace idempotency::proof
