// Requests that are valid as they are, for tests to spoil one thing at a time.
#ifndef IDEMPOTENCY_TESTS_SERVICE_EDGE_REQUESTS_H_
#define IDEMPOTENCY_TESTS_SERVICE_EDGE_REQUESTS_H_

#include <string>

#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::service {

inline v1::OperationId ValidId() {
  v1::OperationId id;
  id.set_namespace_("payments");
  id.set_scope("acct-1");
  id.set_key("order-1");
  return id;
}

inline v1::Fingerprint ValidFingerprint() {
  v1::Fingerprint fingerprint;
  fingerprint.set_algorithm("sha256/jcs-1");
  fingerprint.set_digest(std::string(32, 'd'));
  return fingerprint;
}

inline v1::ReserveRequest ValidReserve() {
  v1::ReserveRequest request;
  *request.mutable_id() = ValidId();
  *request.mutable_fingerprint() = ValidFingerprint();
  request.set_attempt_id("attempt-00000001");
  return request;
}

inline v1::CompleteRequest ValidComplete() {
  v1::CompleteRequest request;
  *request.mutable_id() = ValidId();
  request.set_fencing_token(7);
  request.set_verdict(v1::VERDICT_SUCCEEDED);
  return request;
}

inline v1::ResolveOperationRequest ValidResolve() {
  v1::ResolveOperationRequest request;
  *request.mutable_id() = ValidId();
  request.mutable_not_executed();
  request.set_actor("alice");
  request.set_reason("the provider has no such charge");
  return request;
}

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_TESTS_SERVICE_EDGE_REQUESTS_H_
