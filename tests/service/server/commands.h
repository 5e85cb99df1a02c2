// Requests on one operation, short enough to read a story in.
#ifndef IDEMPOTENCY_TESTS_SERVICE_SERVER_COMMANDS_H_
#define IDEMPOTENCY_TESTS_SERVICE_SERVER_COMMANDS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "service/wire_time.h"

namespace idempotency::testing {

inline v1::OperationId Id(const std::string& key) {
  v1::OperationId id;
  id.set_namespace_("payments");
  id.set_scope("acct-1");
  id.set_key(key);
  return id;
}

// The fingerprint of a request of this content.
inline v1::Fingerprint Print(char content = 'd') {
  v1::Fingerprint fingerprint;
  fingerprint.set_algorithm("sha256/jcs-1");
  fingerprint.set_digest(std::string(32, content));
  return fingerprint;
}

inline v1::ReserveRequest Reserve(const std::string& key, const std::string& attempt = "1") {
  v1::ReserveRequest request;
  *request.mutable_id() = Id(key);
  *request.mutable_fingerprint() = Print();
  request.set_attempt_id("attempt-of-" + std::string(16, '0') + attempt);
  return request;
}

inline v1::ReserveRequest WaitingReserve(const std::string& key, const std::string& attempt,
                                         core::Duration wait) {
  v1::ReserveRequest request = Reserve(key, attempt);
  service::SetDuration(wait, request.mutable_wait_duration());
  return request;
}

inline v1::RenewRequest Renew(const std::string& key, uint64_t token) {
  v1::RenewRequest request;
  *request.mutable_id() = Id(key);
  request.set_fencing_token(token);
  return request;
}

inline v1::CompleteRequest Complete(const std::string& key, uint64_t token,
                                    const std::string& body = "done") {
  v1::CompleteRequest request;
  *request.mutable_id() = Id(key);
  request.set_fencing_token(token);
  request.set_verdict(v1::VERDICT_SUCCEEDED);
  request.mutable_response()->set_http_status(200);
  request.mutable_response()->set_body(body);
  return request;
}

inline v1::ReleaseRequest Release(const std::string& key, uint64_t token) {
  v1::ReleaseRequest request;
  *request.mutable_id() = Id(key);
  request.set_fencing_token(token);
  return request;
}

inline v1::MarkUnresolvedRequest Mark(const std::string& key, uint64_t token) {
  v1::MarkUnresolvedRequest request;
  *request.mutable_id() = Id(key);
  request.set_fencing_token(token);
  request.set_cause(v1::UNRESOLVED_CAUSE_TIMEOUT);
  return request;
}

inline v1::GetOperationRequest Get(const std::string& key) {
  v1::GetOperationRequest request;
  *request.mutable_id() = Id(key);
  *request.mutable_fingerprint() = Print();
  return request;
}

inline v1::InspectOperationRequest Inspect(const std::string& key) {
  v1::InspectOperationRequest request;
  *request.mutable_id() = Id(key);
  return request;
}

inline v1::ResolveOperationRequest Resolve(const std::string& key) {
  v1::ResolveOperationRequest request;
  *request.mutable_id() = Id(key);
  request.mutable_completed()->set_verdict(v1::VERDICT_SUCCEEDED);
  request.set_actor("alice");
  request.set_reason("seen in the provider's dashboard");
  return request;
}

inline v1::DeleteOperationRequest Delete(const std::string& key, bool force = false) {
  v1::DeleteOperationRequest request;
  *request.mutable_id() = Id(key);
  request.set_actor("alice");
  request.set_reason("test data");
  request.set_force(force);
  return request;
}

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SERVICE_SERVER_COMMANDS_H_
