#include "idempotency/fingerprint_proto.h"

#include "client/src/fingerprint_digest.h"
#include "client/src/proto_canonical.h"

namespace idempotency {

absl::StatusOr<Fingerprint> FingerprintMessage(std::string_view method, std::string_view resource,
                                               const google::protobuf::Message& message,
                                               const FingerprintOptions& options) {
  const absl::StatusOr<std::string> content = internal::CanonicalMessage(message, options.exclude);
  if (!content.ok()) return content.status();
  return internal::DigestRequest(internal::kProtoForm, method, resource, *content,
                                 options.key ? &*options.key : nullptr);
}

}  // namespace idempotency
