#include "keystore/fair_order.h"

namespace idempotency::keystore {

namespace {

// Whoever comes new has its first turn without a round of waiting for credit.
void Begin(int64_t* credit) {
  *credit = std::min(*credit + FairOrder::kQuantum, FairOrder::kQuantum);
}

}  // namespace

template <typename Child>
Child* FairOrder::Round<Child>::Next() {
  for (;;) {
    Child* const child = turns.front();
    if (child->credit > 0) return child;
    if (turns.size() == 1) {
      // Nobody else would gain by its debt.
      child->credit = kQuantum;
      return child;
    }
    // Its turn is over, or it has to pay first; what it gets is for the next time.
    child->credit += kQuantum;
    turns.pop_front();
    turns.push_back(child);
  }
}

FairOrder::Scope* FairOrder::ScopeOf(const TenantId& tenant) {
  if (last_ != nullptr && last_id_ == tenant.scope) return last_;
  const auto known = scopes_.find(tenant.scope);
  if (known != scopes_.end()) {
    last_ = &known->second;
  } else {
    if (scopes_.size() - busy_scopes_ > kMaxIdleTenants) ForgetIdle();
    last_ = &scopes_[tenant.scope];
    last_->name_space = &by_namespace_[tenant.name_space];
  }
  last_id_ = tenant.scope;
  return last_;
}

const FairOrder::Scope* FairOrder::Find(const TenantId& tenant) const {
  const auto known = scopes_.find(tenant.scope);
  return known == scopes_.end() ? nullptr : &known->second;
}

// Looks at all of them: hence not before most are idle.
void FairOrder::ForgetIdle() {
  if (scopes_.size() - busy_scopes_ <= busy_scopes_) return;
  last_ = nullptr;
  absl::erase_if(scopes_, [](const auto& scope) { return scope.second.entries.empty(); });
  // Scopes that are left have entries, and so have their namespaces.
  absl::erase_if(by_namespace_, [](const auto& each) { return each.second.scopes.turns.empty(); });
}

void FairOrder::Push(const TenantId& tenant, uint64_t number, uint32_t cost) {
  Scope* const scope = ScopeOf(tenant);
  if (scope->entries.empty()) {
    Namespace* const name_space = scope->name_space;
    if (name_space->scopes.turns.empty()) {
      Begin(&name_space->credit);
      namespaces_.turns.push_back(name_space);
    }
    Begin(&scope->credit);
    name_space->scopes.turns.push_back(scope);
    ++busy_scopes_;
  }
  scope->entries.push_back({number, cost});
  ++size_;
}

uint64_t FairOrder::Pop() {
  Namespace* const name_space = namespaces_.Next();
  Scope* const scope = name_space->scopes.Next();
  const Entry entry = scope->entries.front();
  scope->entries.pop_front();
  --size_;
  scope->credit -= entry.cost;
  name_space->credit -= entry.cost;
  if (!scope->entries.empty()) return entry.number;
  scope->credit = std::min<int64_t>(scope->credit, 0);
  name_space->scopes.turns.pop_front();
  --busy_scopes_;
  if (name_space->scopes.turns.empty()) {
    name_space->credit = std::min<int64_t>(name_space->credit, 0);
    namespaces_.turns.pop_front();
  }
  return entry.number;
}

void FairOrder::Keep(absl::FunctionRef<bool(uint64_t)> wanted) {
  size_ = 0;
  busy_scopes_ = 0;
  for (Namespace* const name_space : namespaces_.turns) {
    for (Scope* const scope : name_space->scopes.turns) {
      std::erase_if(scope->entries, [&](const Entry& entry) { return !wanted(entry.number); });
      size_ += scope->entries.size();
      busy_scopes_ += scope->entries.empty() ? 0 : 1;
    }
    std::erase_if(name_space->scopes.turns,
                  [](const Scope* scope) { return scope->entries.empty(); });
  }
  std::erase_if(namespaces_.turns,
                [](const Namespace* each) { return each->scopes.turns.empty(); });
}

size_t FairOrder::QueuedOf(const TenantId& tenant) const {
  const Scope* const scope = Find(tenant);
  return scope == nullptr ? 0 : scope->entries.size();
}

size_t FairOrder::AheadOf(const TenantId& tenant) const {
  const Scope* const scope = Find(tenant);
  const size_t own = scope == nullptr ? 0 : scope->entries.size();
  const auto known = by_namespace_.find(tenant.name_space);
  const size_t scopes =
      known == by_namespace_.end() ? 1 : std::max<size_t>(known->second.scopes.turns.size(), 1);
  const size_t namespaces = std::max<size_t>(namespaces_.turns.size(), 1);
  // A turn serves up to kQuantum of each.
  const size_t turns = own / kQuantum + 1;
  return std::min(size_, turns * scopes * namespaces * kQuantum);
}

}  // namespace idempotency::keystore
