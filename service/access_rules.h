// Who may do what, by the rules of the configuration: what no rule allows is denied.
#ifndef IDEMPOTENCY_SERVICE_ACCESS_RULES_H_
#define IDEMPOTENCY_SERVICE_ACCESS_RULES_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "service/access.h"
#include "service/name_pattern.h"

namespace idempotency::service {

inline constexpr int kMaxAccessRules = 1000;
inline constexpr int kMaxAccessPatterns = 1000;  // of a rule and a field
inline constexpr size_t kMaxAccessPatternBytes = kMaxPrincipalNameBytes;

// As in idempotency.config.v1.AccessRole, which says what each may do.
enum class AccessRole : uint8_t { kCaller = 1, kReader, kReconciler, kOperator, kAdmin };

using Permissions = std::bitset<kPermissions>;
Permissions PermissionsOf(AccessRole role);

struct AccessRule {
  std::vector<NamePattern> identities;
  std::vector<NamePattern> namespaces;
  std::vector<NamePattern> scopes;  // none: every scope, and operations without one
  // The scope is what {scope} stands for in the identity; `scopes` is empty then.
  bool scope_from_identity = false;
  Permissions permissions;
};

// Immutable. Thread safety: any thread may use it. A question takes time for every rule that
// speaks of the permission and the namespace.
class AccessRules {
 public:
  AccessRules() = default;
  explicit AccessRules(std::vector<AccessRule> rules) : rules_(std::move(rules)) {}

  bool empty() const { return rules_.empty(); }

  // As AccessPolicy::Allows. Who has not proved a name may do nothing.
  bool Allows(const Principal& principal, Permission permission, std::string_view name_space,
              std::optional<std::string_view> scope) const;

 private:
  std::vector<AccessRule> rules_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_ACCESS_RULES_H_
