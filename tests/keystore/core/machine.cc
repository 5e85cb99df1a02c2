#include "tests/keystore/core/machine.h"

#include <algorithm>
#include <utility>

#include "keystore/core/invariants.h"

namespace idempotency::core {

std::optional<Record> Machine::Observed() const {
  const auto* record = std::get_if<Record>(&stored_);
  return record == nullptr ? std::nullopt : Observe(*record, now_);
}

void Machine::Write(const Record& record) {
  std::string_view rule = BrokenRule(record);
  if (rule.empty()) {
    const std::optional<Record> before = Observed();
    if (before.has_value()) rule = BrokenRule(*before, record);
  }
  if (broken_.empty()) broken_ = rule;
  token_floor_ = std::max(token_floor_, record.token + 1);
  stored_ = record;
}

Decision Machine::Do(const Command& command) {
  Decision decision = step_(stored_, command, policy_, now_, token_floor_);
  switch (decision.effect) {
    case Effect::kKeep:
      break;
    case Effect::kErase:
      stored_ = Absent{};
      break;
    case Effect::kWrite:
      Write(*decision.record);
      break;
  }
  return decision;
}

}  // namespace idempotency::core
