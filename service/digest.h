// Digests of what callers report: the store compares them and keeps nothing else of it.
//
// SHA-256 over the parts, each behind its length, cut to 128 bits. The parts are taken field by
// field in a fixed order, so that the digest does not depend on how a message was serialized.
// They are stored: a change of the order or of a part makes repeats look different.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_DIGEST_H_
#define IDEMPOTENCY_SERVICE_DIGEST_H_

#include <string_view>

#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/core/record.h"

namespace idempotency::service {

core::Digest DigestAttemptId(std::string_view attempt_id);

// Of verdict, provider_request_id and the response as reported, before anything is cut.
core::Digest DigestContent(const v1::CompleteRequest& request);
// Always the same: all that a Release says is that nothing happened, whatever its detail.
core::Digest DigestContent(const v1::ReleaseRequest& request);
core::Digest DigestContent(const v1::MarkUnresolvedRequest& request);
// Of resolution, verdict, response and provider_request_id; not of who said so, and why.
core::Digest DigestContent(const v1::ResolveOperationRequest& request);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_DIGEST_H_
