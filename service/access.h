// Who calls, and what they may do. Asked first of all, before anything that depends on the
// configuration or on records, so that a refusal tells nothing about either.
#ifndef IDEMPOTENCY_SERVICE_ACCESS_H_
#define IDEMPOTENCY_SERVICE_ACCESS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::service {

// Who calls, as far as the transport knows.
struct Principal {
  // The authenticated name; empty on a connection that authenticates nobody.
  std::string name;
};

enum class Permission : uint8_t {
  kOperate,     // everything in IdempotencyService
  kAdminister,  // everything in IdempotencyAdminService
};

// Thread safety: may be asked from any thread. Must not block.
class AccessPolicy {
 public:
  virtual ~AccessPolicy() = default;
  // `scope` empty: every scope of the namespace, or the operation without one. `name_space`
  // empty: the service as a whole. Both are as sent, not checked.
  virtual bool Allows(const Principal& principal, Permission permission,
                      std::string_view name_space, std::string_view scope) const = 0;
};

// Everybody who can connect may do everything: right only where connecting is itself the
// permission, as on loopback and Unix sockets.
class AllowAll final : public AccessPolicy {
 public:
  bool Allows(const Principal& principal, Permission permission, std::string_view name_space,
              std::string_view scope) const override {
    return true;
  }
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_ACCESS_H_
