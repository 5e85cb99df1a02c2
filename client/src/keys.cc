#include "idempotency/keys.h"

#include "client/src/framed_hash.h"

namespace idempotency {

std::string ProviderKey(const OperationId& id) {
  return internal::Base64Url(internal::Sha256(internal::Frames({id.name_space, id.scope, id.key})));
}

std::string RandomKey() { return RandomKey(*SystemEnvironment()); }

std::string RandomKey(Environment& environment) { return environment.RandomId(); }

std::string DeriveKey(std::string_view domain_label, std::string_view business_id) {
  return internal::Hex(internal::Sha256(internal::Frames({"derive-1", domain_label, business_id})));
}

}  // namespace idempotency
