// Access by the rules of the configuration in force.
#ifndef IDEMPOTENCY_SERVICE_RULED_ACCESS_H_
#define IDEMPOTENCY_SERVICE_RULED_ACCESS_H_

#include <optional>
#include <string_view>

#include "service/access.h"
#include "service/config.h"
#include "service/identity/authenticator.h"

namespace idempotency::service {

class RuledAccess final : public AccessPolicy {
 public:
  // Both must outlive it. Where `authenticator` is null, or does not require anybody to prove who
  // they are, whoever can connect may do everything. Asked anew each time: a reload may bring
  // identities, and from then on the rules hold.
  RuledAccess(const ConfigHolder* config, const Authenticator* authenticator)
      : config_(config), authenticator_(authenticator) {}

  bool Allows(const Principal& principal, Permission permission, std::string_view name_space,
              std::optional<std::string_view> scope) const override {
    if (authenticator_ == nullptr || !authenticator_->required()) return true;
    return config_->Get()->access().Allows(principal, permission, name_space, scope);
  }

 private:
  const ConfigHolder* const config_;
  const Authenticator* const authenticator_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_RULED_ACCESS_H_
