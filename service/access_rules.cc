#include "service/access_rules.h"

#include <algorithm>
#include <initializer_list>

namespace idempotency::service {
namespace {

Permissions Of(std::initializer_list<Permission> each) {
  Permissions permissions;
  for (const Permission permission : each) permissions.set(static_cast<size_t>(permission));
  return permissions;
}

bool AnyMatches(const std::vector<NamePattern>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](const NamePattern& pattern) { return pattern.Matches(name); });
}

bool IsOfIdentity(const AccessRule& rule, std::string_view name,
                  std::optional<std::string_view> scope) {
  return std::any_of(rule.identities.begin(), rule.identities.end(),
                     [&](const NamePattern& pattern) { return pattern.Matches(name, scope); });
}

}  // namespace

Permissions PermissionsOf(AccessRole role) {
  const Permissions reader = Of({Permission::kRead, Permission::kInspect});
  const Permissions reconciler = reader | Of({Permission::kResolve});
  switch (role) {
    case AccessRole::kCaller:
      return Of({Permission::kOperate, Permission::kRead});
    case AccessRole::kReader:
      return reader;
    case AccessRole::kReconciler:
      return reconciler;
    case AccessRole::kOperator:
      return reconciler | Of({Permission::kDelete});
    case AccessRole::kAdmin:
      return Permissions().set();
  }
  return {};
}

bool AccessRules::Allows(const Principal& principal, Permission permission,
                         std::string_view name_space, std::optional<std::string_view> scope) const {
  if (principal.kind == PrincipalKind::kNobody || principal.name.empty()) return false;
  return std::any_of(rules_.begin(), rules_.end(), [&](const AccessRule& rule) {
    if (!rule.permissions.test(static_cast<size_t>(permission))) return false;
    if (!AnyMatches(rule.namespaces, name_space)) return false;
    if (scope && !rule.scopes.empty() && !AnyMatches(rule.scopes, *scope)) return false;
    return IsOfIdentity(rule, principal.name, scope);
  });
}

}  // namespace idempotency::service
