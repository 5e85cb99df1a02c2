#include "keystore/tenant_usage.h"

#include "absl/hash/hash.h"
#include "keystore/key_hash.h"

namespace idempotency::keystore {
namespace {

uint64_t HashOf(std::string_view name_space) { return absl::HashOf(name_space); }
uint64_t HashOf(std::string_view name_space, std::string_view scope) {
  return absl::HashOf(name_space, scope);
}

}  // namespace

TenantUsage::Tenant& TenantUsage::TenantOf(std::string_view name_space) {
  return namespaces_[HashOf(name_space)];
}

TenantUsage::Tenant& TenantUsage::TenantOf(std::string_view name_space, std::string_view scope) {
  const uint64_t hash = HashOf(name_space, scope);
  const auto known = scopes_.find(hash);
  if (known != scopes_.end()) return known->second;
  if (scopes_.size() - open_scopes_ > kMaxIdleTenants) ForgetIdle();
  Tenant& tenant = scopes_[hash];
  tenant.name_space = &TenantOf(name_space);
  return tenant;
}

void TenantUsage::SetOpen(const core::Key& key, bool open) {
  const uint64_t hash = KeyHash()(key);
  absl::MutexLock lock(&mutex_);
  if (open) {
    const auto [entry, added] = open_.try_emplace(hash);
    if (!added) return;
    Tenant& scope = TenantOf(key.name_space, key.scope);
    entry->second = &scope;
    open_scopes_ += scope.open == 0 ? 1 : 0;
    ++scope.open;
    ++scope.name_space->open;
    return;
  }
  const auto entry = open_.find(hash);
  if (entry == open_.end()) return;
  Tenant& scope = *entry->second;
  open_.erase(entry);
  --scope.open;
  --scope.name_space->open;
  open_scopes_ -= scope.open == 0 ? 1 : 0;
}

// Looks at all of them: hence not before most are idle.
void TenantUsage::ForgetIdle() {
  if (scopes_.size() - open_scopes_ <= open_scopes_) return;
  const auto is_idle = [](const Tenants::value_type& tenant) { return tenant.second.open == 0; };
  absl::erase_if(scopes_, is_idle);
  // Scopes that are left have open operations, and so have their namespaces.
  absl::erase_if(namespaces_, is_idle);
}

std::optional<QuotaExcess> TenantUsage::Ask(const core::Key& key, const core::Policy& policy,
                                            core::Time now, bool counts) {
  const bool of_namespace = IsLimited(policy.quota);
  const bool of_scope = IsLimited(policy.scope_quota);
  if (!of_namespace && !of_scope) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  Tenant& scope = TenantOf(key.name_space, key.scope);
  std::optional<QuotaExcess> excess;
  if (of_scope) excess = AskOne(&scope, policy.scope_quota, key, true, now, counts);
  // What the scope may not do must not use up what its namespace may.
  if (excess && excess->kind == QuotaKind::kReserves) return excess;
  if (!of_namespace) return excess;
  const auto other = AskOne(scope.name_space, policy.quota, key, false, now, counts);
  return excess ? excess : other;
}

std::optional<QuotaExcess> TenantUsage::AskOne(Tenant* tenant, const core::Quota& quota,
                                               const core::Key& key, bool of_scope, core::Time now,
                                               bool counts) {
  const std::optional<Rate> rate = RateOf(quota);
  if (rate && counts && !tenant->reserves.Take(*rate, now)) {
    return RateExcess(*rate, &tenant->reserves, now, of_scope);
  }
  Usage usage{tenant->open, 0};
  if (quota.stored_bytes != core::kUnlimited && stored_bytes_) {
    const bool known = core::IsSet(tenant->bytes_asked) && now >= tenant->bytes_asked;
    if (!known || now - tenant->bytes_asked >= kBytesAskedAgain) {
      const auto scope = of_scope ? std::optional<std::string_view>(key.scope) : std::nullopt;
      tenant->stored_bytes = stored_bytes_(key.name_space, scope).value_or(0);
      tenant->bytes_asked = now;
    }
    usage.stored_bytes = tenant->stored_bytes;
  }
  return FindExcess(quota, usage, of_scope);
}

uint64_t TenantUsage::OpenIn(std::string_view name_space,
                             std::optional<std::string_view> scope) const {
  absl::MutexLock lock(&mutex_);
  const Tenants& tenants = scope ? scopes_ : namespaces_;
  const auto tenant = tenants.find(scope ? HashOf(name_space, *scope) : HashOf(name_space));
  return tenant == tenants.end() ? 0 : tenant->second.open;
}

size_t TenantUsage::tenants() const {
  absl::MutexLock lock(&mutex_);
  return namespaces_.size() + scopes_.size();
}

}  // namespace idempotency::keystore
