// Every refusal, as a client sees it: code, reason in ErrorInfo and in the trailer, field, and
// when to try again.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "grpcpp/generic/generic_stub.h"
#include "tests/service/server/commands.h"
#include "tests/service/server/test_engine.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What every kind of call comes down to.
struct Refused {
  grpc::Status status;
  std::string reason;
  google::rpc::ErrorInfo info;
  std::string field;
  bool retry = false;
};

template <typename Response>
Refused Summarise(const CallResult<Response>& result) {
  Refused refused{
      result.status, result.reason, result.template Find<google::rpc::ErrorInfo>(), {}, false};
  const auto bad_request = result.template Find<google::rpc::BadRequest>();
  if (bad_request.field_violations_size() > 0) {
    refused.field = bad_request.field_violations(0).field();
  }
  refused.retry =
      service::ToSpan(result.template Find<google::rpc::RetryInfo>().retry_delay()).length.count() >
      0;
  return refused;
}

uint64_t Acquire(ServiceFixture* service, const std::string& attempt = "1") {
  const auto acquired = service->Call(&Api::Reserve, Reserve("k", attempt));
  EXPECT_EQ(acquired.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  return acquired.response.lease().fencing_token();
}

uint64_t AcquireAndMark(ServiceFixture* service) {
  const uint64_t token = Acquire(service);
  EXPECT_TRUE(service->Call(&Api::MarkUnresolved, Mark("k", token)).status.ok());
  return token;
}

struct ErrorRow {
  const char* name;
  std::function<Refused(ServiceFixture*)> provoke;
  grpc::StatusCode code;
  const char* reason;
  const char* field;
  bool retry;
};

class ErrorTest : public ::testing::TestWithParam<ErrorRow> {};

TEST_P(ErrorTest, SaysWhyInEveryForm) {
  const ErrorRow& row = GetParam();
  ServiceFixture service;
  const Refused refused = row.provoke(&service);
  EXPECT_EQ(refused.status.error_code(), row.code) << refused.status.error_message();
  EXPECT_EQ(refused.reason, row.reason);
  EXPECT_EQ(refused.info.reason(), row.reason);
  EXPECT_EQ(refused.info.domain(), "idempotency.v1");
  EXPECT_EQ(refused.field, row.field);
  EXPECT_EQ(refused.retry, row.retry);
  EXPECT_FALSE(refused.status.error_message().empty());
}

Refused InvalidKey(ServiceFixture* service) {
  return Summarise(service->Call(&Api::Reserve, Reserve("")));
}
Refused MissingId(ServiceFixture* service) {
  v1::ReserveRequest request = Reserve("k");
  request.clear_id();
  return Summarise(service->Call(&Api::Reserve, request));
}
Refused MissingIdOfAnOwner(ServiceFixture* service) {
  v1::CompleteRequest request = Complete("k", 1);
  request.clear_id();
  return Summarise(service->Call(&Api::Complete, request));
}
Refused SensitiveKey(ServiceFixture* service) {
  return Summarise(service->Call(&Api::Reserve, Reserve("alice@example.com")));
}
Refused MissingScope(ServiceFixture* service) {
  v1::ReserveRequest request = Reserve("k");
  request.mutable_id()->clear_scope();
  return Summarise(service->Call(&Api::Reserve, request));
}
Refused MissingScopeOfAnOwner(ServiceFixture* service) {
  v1::ReleaseRequest request = Release("k", 1);
  request.mutable_id()->clear_scope();
  return Summarise(service->Call(&Api::Release, request));
}
Refused TokenZero(ServiceFixture* service) {
  Acquire(service);
  return Summarise(service->Call(&Api::Complete, Complete("k", 0)));
}
Refused NothingThere(ServiceFixture* service) {
  return Summarise(service->Call(&Api::GetOperation, Get("k")));
}
Refused StaleToken(ServiceFixture* service) {
  const uint64_t token = Acquire(service);
  service->Call(&Api::Release, Release("k", token));
  Acquire(service, "2");
  return Summarise(service->Call(&Api::Renew, Renew("k", token)));
}
Refused UnknownToken(ServiceFixture* service) {
  return Summarise(service->Call(&Api::Renew, Renew("k", Acquire(service) + 1000)));
}
Refused Lapsed(ServiceFixture* service) {
  const uint64_t token = Acquire(service);
  service->Advance(seconds(30));
  return Summarise(service->Call(&Api::Renew, Renew("k", token)));
}
Refused OtherContent(ServiceFixture* service) {
  const uint64_t token = Acquire(service);
  service->Call(&Api::Complete, Complete("k", token));
  return Summarise(service->Call(&Api::Complete, Complete("k", token, "other")));
}
Refused FinishedAttempt(ServiceFixture* service) {
  const uint64_t token = Acquire(service);
  service->Call(&Api::Release, Release("k", token));
  return Summarise(service->Call(&Api::Reserve, Reserve("k")));
}
Refused MarkedBefore(ServiceFixture* service) {
  return Summarise(service->Call(&Api::Release, Release("k", AcquireAndMark(service))));
}
Refused LiveLease(ServiceFixture* service) {
  Acquire(service);
  return Summarise(service->Call(&AdminApi::ResolveOperation, Resolve("k")));
}
Refused NotSettled(ServiceFixture* service) {
  AcquireAndMark(service);
  v1::ResolveOperationRequest request = Resolve("k");
  request.mutable_not_executed();
  return Summarise(service->Call(&AdminApi::ResolveOperation, request));
}
Refused WrongState(ServiceFixture* service) {
  service->Call(&Api::Release, Release("k", Acquire(service)));
  return Summarise(service->Call(&AdminApi::ResolveOperation, Resolve("k")));
}
Refused ChangedEtag(ServiceFixture* service) {
  AcquireAndMark(service);
  v1::ResolveOperationRequest request = Resolve("k");
  request.set_etag("1.999");
  return Summarise(service->Call(&AdminApi::ResolveOperation, request));
}

const ErrorRow kErrorRows[] = {
    {"invalid_key", InvalidKey, grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "id.key",
     false},
    {"missing_id", MissingId, grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "id", false},
    {"missing_id_of_an_owner", MissingIdOfAnOwner, grpc::StatusCode::INVALID_ARGUMENT,
     "INVALID_FIELD", "id", false},
    {"sensitive_key", SensitiveKey, grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "id.key",
     false},
    {"missing_scope", MissingScope, grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "id.scope",
     false},
    {"missing_scope_of_an_owner", MissingScopeOfAnOwner, grpc::StatusCode::INVALID_ARGUMENT,
     "INVALID_FIELD", "id.scope", false},
    {"token_zero", TokenZero, grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "fencing_token",
     false},
    {"operation_not_found", NothingThere, grpc::StatusCode::NOT_FOUND, "OPERATION_NOT_FOUND", "",
     false},
    {"stale", StaleToken, grpc::StatusCode::FAILED_PRECONDITION, "STALE_FENCING_TOKEN",
     "fencing_token", false},
    {"unknown_token", UnknownToken, grpc::StatusCode::INVALID_ARGUMENT, "UNKNOWN_FENCING_TOKEN",
     "fencing_token", false},
    {"lapsed", Lapsed, grpc::StatusCode::FAILED_PRECONDITION, "LEASE_LAPSED", "", false},
    {"already_complete", OtherContent, grpc::StatusCode::FAILED_PRECONDITION, "ALREADY_COMPLETE",
     "", false},
    {"attempt_finished", FinishedAttempt, grpc::StatusCode::FAILED_PRECONDITION, "ATTEMPT_FINISHED",
     "attempt_id", false},
    {"outcome_unknown", MarkedBefore, grpc::StatusCode::FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "",
     false},
    {"lease_live", LiveLease, grpc::StatusCode::FAILED_PRECONDITION, "LEASE_LIVE", "", true},
    {"not_settled", NotSettled, grpc::StatusCode::FAILED_PRECONDITION, "NOT_SETTLED", "", true},
    {"wrong_state", WrongState, grpc::StatusCode::FAILED_PRECONDITION, "WRONG_STATE", "", false},
    {"etag_mismatch", ChangedEtag, grpc::StatusCode::ABORTED, "ETAG_MISMATCH", "", false},
};

INSTANTIATE_TEST_SUITE_P(Rows, ErrorTest, ::testing::ValuesIn(kErrorRows),
                         [](const auto& row) { return row.param.name; });

// --- What it takes a particular service to provoke
// ------------------------------------------------

TEST(ErrorsTest, OfANamespaceThatIsNotConfigured) {
  ServiceFixture service({.config = "namespaces: [{name: other}]"});
  const Refused reserve = Summarise(service.Call(&Api::Reserve, Reserve("k")));
  EXPECT_EQ(reserve.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(reserve.reason, "NAMESPACE_NOT_FOUND");
  v1::GetNamespaceRequest request;
  request.set_name("payments");
  EXPECT_EQ(Summarise(service.Call(&Api::GetNamespace, request)).reason, "NAMESPACE_NOT_FOUND");
  // Other verbs say what there is: nothing.
  EXPECT_EQ(Summarise(service.Call(&Api::GetOperation, Get("k"))).reason, "OPERATION_NOT_FOUND");
}

TEST(ErrorsTest, OfANamespaceTakenOutTheRestGoesOn) {
  ServiceFixture service({.config = "namespaces: [{name: payments}]"});
  const uint64_t token = Acquire(&service);
  ASSERT_TRUE(service.Reconfigure("namespaces: [{name: other}]").ok());
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("new")).reason, "NAMESPACE_NOT_FOUND");
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("k")).response.outcome(),
            v1::RESERVE_OUTCOME_ALREADY_HELD);
  EXPECT_TRUE(service.Call(&Api::Complete, Complete("k", token)).status.ok());
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("k")).response.outcome(),
            v1::RESERVE_OUTCOME_COMPLETED);
}

class DenyPayments final : public service::AccessPolicy {
 public:
  bool Allows(const service::Principal&, service::Permission, std::string_view name_space,
              std::optional<std::string_view>) const override {
    return name_space != "payments";
  }
};

TEST(ErrorsTest, OfACallerWithoutAccessAreTheSameWhateverExists) {
  const DenyPayments access;
  // The namespace is not even configured.
  ServiceFixture service({.config = "namespaces: [{name: other}]", .access = &access});
  const Refused reserve = Summarise(service.Call(&Api::Reserve, Reserve("")));
  EXPECT_EQ(reserve.status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(reserve.reason, "ACCESS_DENIED");
  EXPECT_EQ(Summarise(service.Call(&AdminApi::InspectOperation, Inspect("k"))).reason,
            "ACCESS_DENIED");
  v1::ReserveRequest other = Reserve("k");
  other.mutable_id()->set_namespace_("other");
  EXPECT_TRUE(service.Call(&Api::Reserve, other).status.ok());
}

class PressureTest : public ::testing::Test {
 protected:
  PressureTest() : service_({.engine = [this] { return MakeTestEngine(&controls_); }}) {}

  EngineControls controls_;
  ServiceFixture service_;
};

TEST_F(PressureTest, AFullStoreRefusesNewKeysAlone) {
  const uint64_t token = Acquire(&service_);
  controls_.SetPressure({.full = true});
  const Refused refused = Summarise(service_.Call(&Api::Reserve, Reserve("new")));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.reason, "STORE_FULL");
  EXPECT_EQ(service_.Call(&Api::Reserve, Reserve("k")).response.outcome(),
            v1::RESERVE_OUTCOME_ALREADY_HELD);
  EXPECT_TRUE(service_.Call(&Api::Renew, Renew("k", token)).status.ok());
  EXPECT_TRUE(service_.Call(&Api::Complete, Complete("k", token)).status.ok());
}

TEST_F(PressureTest, AStalledStoreRefusesReserve) {
  const uint64_t token = Acquire(&service_);
  controls_.SetPressure({.stalled = true});
  const Refused refused = Summarise(service_.Call(&Api::Reserve, Reserve("new")));
  EXPECT_EQ(refused.reason, "OVERLOADED");
  EXPECT_TRUE(refused.retry);
  EXPECT_TRUE(service_.Call(&Api::Complete, Complete("k", token)).status.ok());
}

TEST_F(PressureTest, AnUnreadableRecordHarmsItsOwnKeyAlone) {
  Acquire(&service_);
  controls_.Spoil(core::Key{"payments", "acct-1", "k"});
  const Refused reserve = Summarise(service_.Call(&Api::Reserve, Reserve("k", "2")));
  EXPECT_EQ(reserve.status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(reserve.reason, "RECORD_UNREADABLE");
  EXPECT_EQ(service_.Call(&Api::Reserve, Reserve("other")).response.outcome(),
            v1::RESERVE_OUTCOME_ACQUIRED);
  // A forced Delete is the way out.
  EXPECT_EQ(service_.Call(&AdminApi::DeleteOperation, Delete("k")).reason, "RECORD_UNREADABLE");
  EXPECT_TRUE(service_.Call(&AdminApi::DeleteOperation, Delete("k", true)).status.ok());
  EXPECT_GE(service_.metrics().Read().unreadable, 1u);
}

TEST_F(PressureTest, ADeadStoreAcknowledgesNothing) {
  const uint64_t token = Acquire(&service_);
  controls_.Kill();
  const Refused complete = Summarise(service_.Call(&Api::Complete, Complete("k", token)));
  EXPECT_EQ(complete.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(complete.reason, "STORE_UNAVAILABLE");
  EXPECT_TRUE(complete.retry);
  EXPECT_TRUE(service_.engine_dead());
  EXPECT_EQ(Summarise(service_.Call(&Api::GetOperation, Get("k"))).reason, "STORE_UNAVAILABLE");
}

// --- Requests that are no requests
// ------------------------------------------------------------------

// Sends bytes as a request of any method.
Refused CallWithBytes(ServiceFixture* service, const std::string& method,
                      const std::string& bytes) {
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(service->NewChannel());
  grpc::ClientContext context;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return Summarise(ReadResult(status, context, 0));
}

TEST(ErrorsTest, OfBytesThatAreNoRequest) {
  ServiceFixture service;
  for (const char* method :
       {"IdempotencyService/Reserve", "IdempotencyService/Complete", "IdempotencyService/Batch",
        "IdempotencyService/GetNamespace", "IdempotencyAdminService/ListOperations"}) {
    const Refused refused =
        CallWithBytes(&service, std::string("/idempotency.v1.") + method, "\xff\xff\xff");
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_EQ(refused.reason, "INVALID_FIELD") << method;
  }
}

TEST(ErrorsTest, OfTextThatIsNotUtf8) {
  ServiceFixture service;
  // ReserveRequest.attempt_id with a byte that is no text.
  const Refused refused = CallWithBytes(&service, "/idempotency.v1.IdempotencyService/Reserve",
                                        std::string("\x1a\x02\xff\xfe", 4));
  EXPECT_EQ(refused.reason, "INVALID_FIELD");
  EXPECT_NE(refused.status.error_message().find("UTF-8"), std::string::npos);
}

TEST(ErrorsTest, NeverRepeatWhatWasSent) {
  ServiceFixture service;
  const std::string secret = "sekret\x07key";
  const auto refused = service.Call(&Api::Reserve, Reserve(secret));
  EXPECT_EQ(refused.reason, "INVALID_FIELD");
  EXPECT_EQ(refused.status.error_message().find("sekret"), std::string::npos);
  EXPECT_EQ(refused.status.error_details().find("sekret"), std::string::npos);
}

}  // namespace
}  // namespace idempotency::testing
