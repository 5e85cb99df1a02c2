// What callers may do. Asked first of all, before anything that depends on the configuration or on
// records, so that a refusal tells nothing about either.
#ifndef IDEMPOTENCY_SERVICE_ACCESS_H_
#define IDEMPOTENCY_SERVICE_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "service/identity/principal.h"

namespace idempotency::service {

enum class Permission : uint8_t {
  kOperate,      // Reserve, Renew, Complete, Release, MarkUnresolved
  kRead,         // GetOperation, GetNamespace
  kInspect,      // InspectOperation, ListOperations, ListNamespaces
  kResolve,      // ResolveOperation
  kDelete,       // DeleteOperation
  kForceDelete,  // DeleteOperation with force
  // CreateBackup, ListBackups, CheckEngine, ExportRecords, ImportRecords, RetireStore,
  // ReinstateStore: asked with no namespace and no scope
  kWholeStore,
};
inline constexpr size_t kPermissions = 7;

// Thread safety: may be asked from any thread. Must not block.
class AccessPolicy {
 public:
  virtual ~AccessPolicy() = default;
  // `scope` empty: operations without one, and to list, all of them. Nothing: the namespace as
  // such, of which whoever may do it in some scope may know. Names are as sent, not checked.
  virtual bool Allows(const Principal& principal, Permission permission,
                      std::string_view name_space, std::optional<std::string_view> scope) const = 0;
};

// Everybody who can connect may do everything: right only where connecting is itself the
// permission, as on loopback and Unix sockets.
class AllowAll final : public AccessPolicy {
 public:
  bool Allows(const Principal& principal, Permission permission, std::string_view name_space,
              std::optional<std::string_view> scope) const override {
    return true;
  }
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_ACCESS_H_
