// The step that all fingerprints share: from what was made of a request to its digest.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_FINGERPRINT_DIGEST_H_
#define IDEMPOTENCY_CLIENT_SRC_FINGERPRINT_DIGEST_H_

#include <string_view>

#include "idempotency/fingerprint.h"
#include "idempotency/types.h"

namespace idempotency::internal {

inline constexpr std::string_view kBytesForm = "bytes-1";
inline constexpr std::string_view kJsonForm = "jcs-1";
inline constexpr std::string_view kProtoForm = "proto-1";

// key: null for a fingerprint without one.
Fingerprint DigestRequest(std::string_view form, std::string_view method, std::string_view resource,
                          std::string_view content, const FingerprintKey* key);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_FINGERPRINT_DIGEST_H_
