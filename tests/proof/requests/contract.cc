#include "tests/proof/requests/contract.h"

#include <cstdlib>

#include "grpcpp/support/status.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::proof {
namespace {

constexpr uint32_t kWithId = kReserve | kRenew | kComplete | kRelease | kMarkUnresolved |
                             kGetOperation | kInspectOperation | kResolveOperation |
                             kDeleteOperation;
constexpr uint32_t kOwners = kRenew | kComplete | kRelease | kMarkUnresolved;
constexpr uint32_t kOperators = kResolveOperation | kDeleteOperation;

const std::string kApi = "/idempotency.v1.IdempotencyService/";
const std::string kAdmin = "/idempotency.v1.IdempotencyAdminService/";

}  // namespace

const std::vector<MethodInfo>& Methods() {
  static const auto* const kMethods = new std::vector<MethodInfo>{
      {kReserve, kApi + "Reserve", &v1::ReserveRequest::default_instance(), "reserve"},
      {kRenew, kApi + "Renew", &v1::RenewRequest::default_instance(), "renew"},
      {kComplete, kApi + "Complete", &v1::CompleteRequest::default_instance(), "complete"},
      {kRelease, kApi + "Release", &v1::ReleaseRequest::default_instance(), "release"},
      {kMarkUnresolved, kApi + "MarkUnresolved", &v1::MarkUnresolvedRequest::default_instance(),
       "mark_unresolved"},
      {kGetOperation, kApi + "GetOperation", &v1::GetOperationRequest::default_instance(),
       "get_operation"},
      {kGetNamespace, kApi + "GetNamespace", &v1::GetNamespaceRequest::default_instance(), nullptr},
      {kInspectOperation, kAdmin + "InspectOperation",
       &v1::InspectOperationRequest::default_instance(), nullptr},
      {kListOperations, kAdmin + "ListOperations", &v1::ListOperationsRequest::default_instance(),
       nullptr},
      {kResolveOperation, kAdmin + "ResolveOperation",
       &v1::ResolveOperationRequest::default_instance(), nullptr},
      {kDeleteOperation, kAdmin + "DeleteOperation",
       &v1::DeleteOperationRequest::default_instance(), nullptr},
      {kListNamespaces, kAdmin + "ListNamespaces", &v1::ListNamespacesRequest::default_instance(),
       nullptr},
  };
  return *kMethods;
}

const MethodInfo& InfoOf(Method method) {
  for (const MethodInfo& info : Methods()) {
    if (info.method == method) return info;
  }
  std::abort();
}

const std::vector<FieldRule>& FieldRules() {
  static const auto* const kRules = new std::vector<FieldRule>{
      {kWithId, "id", Rule::kRequired},
      {kWithId, "id.namespace", Rule::kName, 1, 64},
      // Where the namespace does not waive it. On what is not there DeleteOperation is ok, and so
      // is one without a scope.
      {kWithId & ~kDeleteOperation, "id.scope", Rule::kIdText, 1, 255},
      {kDeleteOperation, "id.scope", Rule::kIdText, 0, 255},
      {kWithId, "id.key", Rule::kIdText, 1, 255},

      {kReserve, "fingerprint", Rule::kRequired},
      {kReserve | kGetOperation, "fingerprint.algorithm", Rule::kText, 1, 64},
      {kReserve | kGetOperation, "fingerprint.digest", Rule::kBytes, 16, 64},
      {kReserve, "attempt_id", Rule::kText, 16, 64},
      {kReserve | kRenew, "lease_duration", Rule::kLease},
      {kReserve | kGetOperation, "wait_duration", Rule::kNotNegativeDuration},
      {kReserve | kRenew, "owner.worker", Rule::kText, 0, 255},
      {kReserve | kRenew, "owner.operation_ref", Rule::kText, 0, 255},
      {kReserve | kRenew, "owner.traceparent", Rule::kText, 0, 255},
      {kReserve, "labels", Rule::kLabels},
      {kReserve, "operation_age", Rule::kDuration},

      {kOwners, "fencing_token", Rule::kToken},
      {kRenew, "progress", Rule::kBytes, 0, 4096},
      {kComplete, "verdict", Rule::kVerdict},

      {kResolveOperation, "resolution", Rule::kRequired},
      {kResolveOperation, "completed.verdict", Rule::kVerdict},
      {kResolveOperation, "provider_request_id", Rule::kText, 0, 255},
      {kOperators, "actor", Rule::kText, 1, 255},
      {kOperators, "reason", Rule::kText, 1, 1024},

      {kListOperations, "namespace", Rule::kName, 1, 64},
      {kListOperations, "scope", Rule::kText, 0, 255},
      {kListOperations, "key_prefix", Rule::kText, 0, 255},
      {kListOperations, "operation_ref", Rule::kText, 0, 255},
      {kListOperations, "states", Rule::kStates},
      {kListOperations, "min_age", Rule::kNotNegativeDuration},
      {kListOperations | kListNamespaces, "page_size", Rule::kNotNegativeNumber},
      {kListOperations | kListNamespaces, "page_token", Rule::kPageToken},

      {kGetNamespace, "name", Rule::kName, 1, 64},
  };
  return *kRules;
}

const ReasonRule* FindReason(const std::string& reason) {
  using grpc::StatusCode;
  static const auto* const kReasons = new std::vector<ReasonRule>{
      {"INVALID_FIELD", StatusCode::INVALID_ARGUMENT, false},
      {"NAMESPACE_NOT_FOUND", StatusCode::NOT_FOUND, false},
      {"OPERATION_NOT_FOUND", StatusCode::NOT_FOUND, false},
      {"ACCESS_DENIED", StatusCode::PERMISSION_DENIED, false},
      {"STALE_FENCING_TOKEN", StatusCode::FAILED_PRECONDITION, false},
      {"UNKNOWN_FENCING_TOKEN", StatusCode::INVALID_ARGUMENT, false},
      {"LEASE_LAPSED", StatusCode::FAILED_PRECONDITION, false},
      {"ALREADY_COMPLETE", StatusCode::FAILED_PRECONDITION, false},
      {"ATTEMPT_FINISHED", StatusCode::FAILED_PRECONDITION, false},
      {"OUTCOME_UNKNOWN", StatusCode::FAILED_PRECONDITION, false},
      {"LEASE_LIVE", StatusCode::FAILED_PRECONDITION, true},
      {"NOT_SETTLED", StatusCode::FAILED_PRECONDITION, true},
      {"WRONG_STATE", StatusCode::FAILED_PRECONDITION, false},
      {"ETAG_MISMATCH", StatusCode::ABORTED, false},
      {"QUOTA_EXCEEDED", StatusCode::RESOURCE_EXHAUSTED, true},
      {"OVERLOADED", StatusCode::RESOURCE_EXHAUSTED, true},
      {"STORE_FULL", StatusCode::RESOURCE_EXHAUSTED, false},
      {"STORE_UNAVAILABLE", StatusCode::UNAVAILABLE, true},
      {"RECORD_UNREADABLE", StatusCode::DATA_LOSS, false},
  };
  for (const ReasonRule& rule : *kReasons) {
    if (reason == rule.reason) return &rule;
  }
  return nullptr;
}

}  // namespace idempotency::proof
