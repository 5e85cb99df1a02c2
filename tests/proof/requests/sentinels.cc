#include "tests/proof/requests/sentinels.h"

#include <utility>

namespace idempotency::proof {

// Leases of a month and memories of a month: time does nothing to a sentinel.
const char kConfig[] = R"(defaults:
  max_lease_duration: 30d
  max_hold_duration: 60d
  default_lease_duration: 30d
  max_wait_duration: 10s
  retention: 30d
  settle_duration: 30d
unlisted_namespaces: REFUSE
namespaces:
  payments:
  settled: {settle_duration: 0s}
  strict: {max_key_bytes: 20}
)";

namespace {

using grpc::ClientContext;
using grpc::Status;

constexpr const char* kNamespaces[] = {"payments", "settled", "strict"};
constexpr int32_t kPage = 1'000;

v1::OperationId IdOf(Kind kind, const std::string& key) {
  v1::OperationId id;
  // Only where nothing has to settle can it be settled at once.
  id.set_namespace_(kind == Kind::kFreed ? "settled" : "payments");
  id.set_scope("sentinels");
  id.set_key(key);
  return id;
}

}  // namespace

v1::Fingerprint SentinelFingerprint() {
  v1::Fingerprint fingerprint;
  fingerprint.set_algorithm("sha256/bytes-1");
  fingerprint.set_digest(std::string(32, 'f'));
  return fingerprint;
}

std::string SentinelAttempt(const Sentinel& sentinel) {
  return "attempt-of-sentinel-" + sentinel.id.key();
}

Sentinels::Sentinels(const std::shared_ptr<grpc::Channel>& channel)
    : api_(v1::IdempotencyService::NewStub(channel)),
      admin_(v1::IdempotencyAdminService::NewStub(channel)) {}

uint64_t Sentinels::Reserve(const v1::OperationId& id, const std::string& attempt) {
  v1::ReserveRequest request;
  *request.mutable_id() = id;
  *request.mutable_fingerprint() = SentinelFingerprint();
  request.set_attempt_id(attempt);
  request.mutable_owner()->set_worker("worker-of-" + id.key());
  ClientContext context;
  v1::ReserveResponse response;
  const Status status = api_->Reserve(&context, request, &response);
  if (!status.ok()) wrong_ = status.error_message();
  return response.lease().fencing_token();
}

std::string Sentinels::MakeOne(Kind kind, const std::string& key) {
  Sentinel sentinel{kind, IdOf(kind, key)};
  const auto target = [&](auto* request) {
    *request->mutable_id() = sentinel.id;
    request->set_fencing_token(sentinel.token);
  };
  ClientContext context;
  Status status;
  if (kind == Kind::kSuperseded) {
    sentinel.token = sentinel.older_token = Reserve(sentinel.id, "first-attempt-of-" + key);
    v1::ReleaseRequest release;
    target(&release);
    v1::ReleaseResponse released;
    status = api_->Release(&context, release, &released);
  }
  sentinel.token = Reserve(sentinel.id, SentinelAttempt(sentinel));
  if (kind == Kind::kComplete) {
    v1::CompleteRequest complete;
    target(&complete);
    complete.set_verdict(v1::VERDICT_SUCCEEDED);
    complete.mutable_response()->set_body("the answer of " + key);
    v1::CompleteResponse completed;
    status = api_->Complete(&context, complete, &completed);
  }
  if (kind == Kind::kUnresolved || kind == Kind::kFreed) {
    v1::MarkUnresolvedRequest mark;
    target(&mark);
    mark.set_cause(v1::UNRESOLVED_CAUSE_TIMEOUT);
    v1::MarkUnresolvedResponse marked;
    status = api_->MarkUnresolved(&context, mark, &marked);
  }
  if (status.ok() && kind == Kind::kFreed) {
    v1::ResolveOperationRequest resolve;
    *resolve.mutable_id() = sentinel.id;
    resolve.mutable_not_executed();
    resolve.set_actor("harness");
    resolve.set_reason("nothing happened");
    v1::ResolveOperationResponse resolved;
    ClientContext another;
    status = admin_->ResolveOperation(&another, resolve, &resolved);
  }
  all_.push_back(std::move(sentinel));
  return status.ok() ? wrong_ : status.error_message();
}

std::string Sentinels::Make() {
  constexpr std::pair<Kind, const char*> kKinds[] = {{Kind::kPending, "pending"},
                                                     {Kind::kSuperseded, "superseded"},
                                                     {Kind::kComplete, "complete"},
                                                     {Kind::kUnresolved, "unresolved"},
                                                     {Kind::kFreed, "freed"}};
  for (const auto& [kind, name] : kKinds) {
    for (const char* number : {"-1", "-2"}) {
      const std::string wrong = MakeOne(kind, std::string(name) + number);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

void Sentinels::AddListed(const std::string& name_space, std::string* text) {
  v1::ListOperationsRequest request;
  request.set_namespace_(name_space);
  request.set_page_size(kPage);
  for (int state = v1::OPERATION_STATE_PENDING; state <= v1::OPERATION_STATE_FREED; ++state) {
    request.add_states(static_cast<v1::OperationState>(state));
  }
  do {
    ClientContext context;
    v1::ListOperationsResponse response;
    const Status status = admin_->ListOperations(&context, request, &response);
    if (!status.ok()) *text += "cannot be listed: " + status.error_message() + "\n";
    for (const v1::Operation& operation : response.operations()) {
      *text += operation.ShortDebugString() + "\n";
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
}

// Without what is the clock's.
void Sentinels::AddShown(const Sentinel& sentinel, std::string* text) {
  v1::InspectOperationRequest inspect;
  *inspect.mutable_id() = sentinel.id;
  v1::InspectOperationResponse inspected;
  ClientContext first;
  Status status = admin_->InspectOperation(&first, inspect, &inspected);
  if (!status.ok()) *text += "cannot be inspected: " + status.error_message() + "\n";
  inspected.clear_server_time();
  *text += inspected.ShortDebugString() + "\n";

  v1::GetOperationRequest get;
  *get.mutable_id() = sentinel.id;
  *get.mutable_fingerprint() = SentinelFingerprint();
  v1::GetOperationResponse got;
  ClientContext second;
  status = api_->GetOperation(&second, get, &got);
  if (!status.ok()) *text += "cannot be read: " + status.error_message() + "\n";
  got.clear_server_time();
  got.clear_retry_after();
  *text += got.ShortDebugString() + "\n";
}

std::string Sentinels::Snapshot() {
  std::string text;
  for (const char* name_space : kNamespaces) AddListed(name_space, &text);
  for (const Sentinel& sentinel : all_) AddShown(sentinel, &text);
  return text;
}

}  // namespace idempotency::proof
