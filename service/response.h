// The answer to replay: what is kept of what an owner reported, and back.
//
// The store keeps a serialized idempotency.v1.CachedResponse that nobody but this file looks
// into. Whatever is over a limit is left out and flagged, never refused: the effect that it
// answers for has happened.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_RESPONSE_H_
#define IDEMPOTENCY_SERVICE_RESPONSE_H_

#include <cstddef>
#include <string_view>

#include "idempotency/v1/operation.pb.h"
#include "keystore/core/record.h"

namespace idempotency::service {

// Texts are cut at a character; metadata over its limits or bearing credentials is left out
// (metadata_omitted), and so is a body over `max_body_bytes` (body_omitted). A body that the
// owner has left out itself counts as omitted, too.
core::Response StoreResponse(const v1::CachedResponse& reported, size_t max_body_bytes);

// What is stored where the store does not take the answer with its body: the rest of it, and that
// the body was omitted.
core::Response WithoutBody(const core::Response& stored);

// False where the stored bytes are not a CachedResponse; `out` is then worthless.
[[nodiscard]] bool LoadResponse(const core::Response& stored, v1::CachedResponse* out);

// Whether metadata of this name is never stored. Names are compared without regard to case.
bool BearsCredentials(std::string_view metadata_name);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_RESPONSE_H_
