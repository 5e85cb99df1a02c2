// RunUnary: Client::Run around a generated stub.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "idempotency/keys.h"
#include "idempotency/testing/mock_connection.h"
#include "tests/client/wrappers/bank_fixture.h"

namespace idempotency::testing {
namespace {

using bank::v1::Bank;
using bank::v1::Charge;
using bank::v1::ChargeRequest;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Answers what the test says, and keeps what it was sent.
class FakeBank final : public Bank::Service {
 public:
  using Answer = std::function<grpc::Status(grpc::ServerContext*, Charge*)>;

  grpc::Status CreateCharge(grpc::ServerContext* context, const ChargeRequest* request,
                            Charge* response) override {
    ++calls;
    keys = Values(context->client_metadata(), key_name);
    response->set_id("ch_" + std::to_string(calls));
    response->set_cents(request->cents());
    return answer ? answer(context, response) : grpc::Status::OK;
  }

  int calls = 0;
  std::string key_name = "idempotency-key";
  std::vector<std::string> keys;  // of the last call
  Answer answer;
};

class RunUnaryTest : public ::testing::Test {
 protected:
  UnaryResult Run(const ChargeRequest& message = ChargeOf(100)) {
    return RunUnary(memory.client, request, *stub, &Bank::Stub::CreateCharge, message, options,
                    &charge);
  }
  std::optional<Operation> Recorded() { return memory.service->Find(request.id); }

  ServiceInMemory memory;
  FakeBank bank;
  LocalServer server{&bank};
  std::unique_ptr<Bank::Stub> stub = Bank::NewStub(server.Channel());
  RunRequest request{.id = {"payments", "acct_1", "order-1"}};
  UnaryOptions options{.method = kChargeMethod};
  Charge charge;
};

TEST_F(RunUnaryTest, SendsTheProviderKeyAndReturnsTheAnswer) {
  const UnaryResult result = Run();
  EXPECT_TRUE(result.ok()) << result.status.error_message();
  EXPECT_EQ(charge.id(), "ch_1");
  EXPECT_THAT(bank.keys, ElementsAre(ProviderKey(request.id)));
  EXPECT_FALSE(result.run.replayed);
  EXPECT_EQ(Recorded()->state, OperationState::kComplete);
  EXPECT_EQ(Recorded()->verdict, Verdict::kSucceeded);
}

TEST_F(RunUnaryTest, SendsTheKeyThatTheCallerChooses) {
  options.key = "order-1";
  options.key_metadata = bank.key_name = "x-request-id";
  EXPECT_TRUE(Run().ok());
  EXPECT_THAT(bank.keys, ElementsAre("order-1"));
}

TEST_F(RunUnaryTest, ReplaysTheTypedAnswerWithItsTrailingMetadata) {
  bank.answer = [](grpc::ServerContext* context, Charge* response) {
    context->AddTrailingMetadata("x-receipt", "r-1");
    context->AddTrailingMetadata("x-seal-bin", std::string("\0\xff\n", 3));
    response->set_receipt(std::string("\0\x01", 2));
    return grpc::Status::OK;
  };
  const UnaryResult first = Run();
  const Charge answered = charge;
  charge.set_id("something else");
  const UnaryResult second = Run();
  EXPECT_EQ(bank.calls, 1);
  EXPECT_TRUE(second.run.replayed);
  EXPECT_TRUE(second.ok());
  EXPECT_EQ(charge.SerializeAsString(), answered.SerializeAsString());
  EXPECT_EQ(charge.id(), "ch_1");
  EXPECT_THAT(first.trailing_metadata, ElementsAre(Pair("x-receipt", "r-1"),
                                                   Pair("x-seal-bin", std::string("\0\xff\n", 3))));
  EXPECT_EQ(second.trailing_metadata, first.trailing_metadata);
}

TEST_F(RunUnaryTest, ReplaysAFinalFailureWithItsDetails) {
  bank.answer = [](grpc::ServerContext* context, Charge*) {
    context->AddTrailingMetadata("x-decline", "51");
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "card declined", "details \x01");
  };
  const UnaryResult first = Run();
  const UnaryResult second = Run();
  EXPECT_EQ(bank.calls, 1);
  EXPECT_EQ(Recorded()->verdict, Verdict::kFailed);
  for (const UnaryResult& result : {first, second}) {
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(result.status.error_message(), "card declined");
    EXPECT_EQ(result.status.error_details(), "details \x01");
    EXPECT_THAT(result.trailing_metadata, ElementsAre(Pair("x-decline", "51")));
    EXPECT_EQ(result.run.stop, StopReason::kNone);
  }
  EXPECT_TRUE(second.run.replayed);
  EXPECT_EQ(charge.id(), "") << "a failure has no message";
}

TEST_F(RunUnaryTest, NoticesAChangedMessage) {
  Run(ChargeOf(100));
  const UnaryResult result = Run(ChargeOf(200));
  EXPECT_EQ(bank.calls, 1);
  EXPECT_EQ(result.run.stop, StopReason::kMismatch);
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(charge.id(), "");
}

TEST_F(RunUnaryTest, LeavesExcludedFieldsOutOfTheFingerprint) {
  options.fingerprint.exclude = {"trace_id"};
  Run(ChargeOf(100, "trace-1"));
  const UnaryResult result = Run(ChargeOf(100, "trace-2"));
  EXPECT_EQ(bank.calls, 1);
  EXPECT_TRUE(result.run.replayed);
}

TEST_F(RunUnaryTest, TheMethodIsPartOfTheFingerprint) {
  Run();
  options.method = "/bank.v1.Bank/CreateRefund";
  EXPECT_EQ(Run().run.stop, StopReason::kMismatch);
}

TEST_F(RunUnaryTest, AFingerprintOfTheCallersOwnWins) {
  request.fingerprint = Fingerprint{"own-1", std::string(32, 'f')};
  Run(ChargeOf(100));
  EXPECT_TRUE(Run(ChargeOf(200)).run.replayed);
}

struct UnknownRow {
  const char* name;
  grpc::StatusCode code;
  UnresolvedCause cause;
};

class UnknownTest : public RunUnaryTest, public ::testing::WithParamInterface<UnknownRow> {};

INSTANTIATE_TEST_SUITE_P(
    Codes, UnknownTest,
    ::testing::Values(
        UnknownRow{"Unavailable", grpc::StatusCode::UNAVAILABLE, UnresolvedCause::kConnectionLost},
        UnknownRow{"DeadlineExceeded", grpc::StatusCode::DEADLINE_EXCEEDED,
                   UnresolvedCause::kTimeout},
        UnknownRow{"Internal", grpc::StatusCode::INTERNAL, UnresolvedCause::kServerError},
        UnknownRow{"Aborted", grpc::StatusCode::ABORTED, UnresolvedCause::kServerError}),
    [](const auto& row) { return std::string(row.param.name); });

TEST_P(UnknownTest, LeavesTheOperationUnresolvedAndTellsTheStatus) {
  bank.answer = [](grpc::ServerContext*, Charge*) {
    return grpc::Status(GetParam().code, "who knows");
  };
  const UnaryResult result = Run();
  EXPECT_EQ(result.run.stop, StopReason::kUnresolved);
  EXPECT_EQ(result.run.next_step, NextStep::kReconcileFirst);
  EXPECT_EQ(result.status.error_code(), GetParam().code);
  EXPECT_EQ(result.status.error_message(), "who knows");
  EXPECT_EQ(Recorded()->unresolved_cause, GetParam().cause);
  const UnaryResult again = Run();
  EXPECT_EQ(bank.calls, 1);
  EXPECT_EQ(again.run.stop, StopReason::kUnresolved);
  EXPECT_EQ(again.status.error_code(), grpc::StatusCode::UNKNOWN);
}

TEST_F(RunUnaryTest, RetryInfoMakesAFullCalleeOneThatDidNothing) {
  bank.answer = [](grpc::ServerContext*, Charge*) {
    return WithRetryInfo(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many", 1500ms);
  };
  const UnaryResult result = Run();
  EXPECT_EQ(result.run.stop, StopReason::kNothingHappened);
  EXPECT_EQ(result.run.retry_after, 1500ms);
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Recorded()->state, OperationState::kFreed);
  bank.answer = nullptr;
  EXPECT_TRUE(Run().ok());
}

TEST_F(RunUnaryTest, TriesAgainWithTheSameKeyWhereThePolicySaysSo) {
  request.id.name_space = "retried";
  bank.answer = [](grpc::ServerContext*, Charge*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
  };
  const UnaryResult first = Run();
  const std::vector<std::string> key = bank.keys;
  EXPECT_EQ(first.run.next_step, NextStep::kReserveAgain);
  memory.environment->Advance(1s);
  bank.answer = nullptr;
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(bank.keys, key);
}

// --- Time ----------------------------------------------------------------------------------------

TEST_F(RunUnaryTest, TheCallTimeoutIsTheDeadline) {
  request.call_timeout = 50ms;
  bank.answer = [](grpc::ServerContext* context, Charge*) {
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  const UnaryResult result = Run();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(Recorded()->unresolved_cause, UnresolvedCause::kTimeout);
}

// By a clock that goes on, the attempt has to stop at the same moment.
TEST_F(RunUnaryTest, ATimeoutIsNotTakenForACancellation) {
  memory.client = Client(memory.service);
  request.call_timeout = 50ms;
  bank.answer = [](grpc::ServerContext* context, Charge*) {
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  EXPECT_EQ(Run().status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(Recorded()->unresolved_cause, UnresolvedCause::kTimeout);
}

// What the callee sees of the deadline; zero: there is none.
Duration DeadlineSeen(grpc::ServerContext* context) {
  const gpr_timespec end = gpr_convert_clock_type(context->raw_deadline(), GPR_CLOCK_MONOTONIC);
  const int32_t left = gpr_time_to_millis(gpr_time_sub(end, gpr_now(GPR_CLOCK_MONOTONIC)));
  return left == INT32_MAX ? Duration(0) : Duration(left);
}

TEST_F(RunUnaryTest, TheEarlierDeadlineCounts) {
  const auto after = [](Duration span) {
    return [span](grpc::ClientContext& context) {
      context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                        gpr_time_from_millis(span.count(), GPR_TIMESPAN)));
    };
  };
  Duration seen{0};
  bank.answer = [&seen](grpc::ServerContext* context, Charge*) {
    seen = DeadlineSeen(context);
    return grpc::Status::OK;
  };
  struct Row {
    const char* name;
    std::optional<Duration> call_timeout;
    std::function<void(grpc::ClientContext&)> setup;
    bool renew;
    Duration at_most;
  };
  const Row rows[] = {
      {"none", std::nullopt, nullptr, true, 0s},
      {"setup is earlier", 1h, after(1min), true, 1min},
      {"call_timeout is earlier", 1min, after(1h), true, 1min},
      {"without renewal the lease is the limit", std::nullopt, nullptr, false, 27s},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    request.id.key = row.name;
    request.call_timeout = row.call_timeout;
    options.setup = row.setup;
    options.run.renew = row.renew;
    ASSERT_TRUE(Run().ok());
    // On the wire it is rounded up.
    EXPECT_LE(seen, row.at_most + row.at_most / 50);
    EXPECT_GE(seen, row.at_most / 2);
  }
}

TEST_F(RunUnaryTest, CancellingEndsTheCallAndKeepsTheKey) {
  options.run.cancellation = Cancellation();
  bank.answer = [this](grpc::ServerContext* context, Charge*) {
    options.run.cancellation->Cancel();
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  const UnaryResult result = Run();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Recorded()->state, OperationState::kUnresolved);
  EXPECT_EQ(Recorded()->unresolved_cause, UnresolvedCause::kOwnerCancelled);
}

// --- Dispatch later ------------------------------------------------------------------------------

TEST_F(RunUnaryTest, TellsTheServiceBeforeTheCallStarts) {
  request.dispatch_later = true;
  bool dispatched = false;
  bank.answer = [&](grpc::ServerContext*, Charge*) {
    dispatched = Recorded()->dispatched;
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(dispatched);
}

TEST_F(RunUnaryTest, DoesNotStartWhatTheServiceWasNotTold) {
  auto connection = std::make_shared<::testing::NiceMock<MockConnection>>();
  ON_CALL(*connection, Reserve).WillByDefault([this](const auto& reserve, const auto& call) {
    return memory.service->Reserve(reserve, call);
  });
  ON_CALL(*connection, Release).WillByDefault([this](const auto& release, const auto& call) {
    return memory.service->Release(release, call);
  });
  ON_CALL(*connection, Renew).WillByDefault([](const auto&, const auto&) {
    return MakeRefused({.reason = ErrorReason::kLeaseLapsed}, absl::StatusCode::kFailedPrecondition,
                       "lapsed");
  });
  const Client client(connection, memory.environment);
  request.dispatch_later = true;
  const UnaryResult result =
      RunUnary(client, request, *stub, &Bank::Stub::CreateCharge, ChargeOf(1), options, &charge);
  EXPECT_EQ(bank.calls, 0);
  EXPECT_EQ(result.run.stop, StopReason::kNothingHappened);
  EXPECT_EQ(Recorded()->state, OperationState::kFreed);
}

// --- What else -----------------------------------------------------------------------------------

TEST_F(RunUnaryTest, KeepsTheCalleesIdOfTheRequest) {
  options.request_id_metadata = "x-request-id";
  bank.answer = [](grpc::ServerContext* context, Charge*) {
    context->AddInitialMetadata("x-request-id", "req_1");
    return grpc::Status::OK;
  };
  Run();
  EXPECT_EQ(Recorded()->provider_request_id, "req_1");
  request.id.key = "order-2";
  bank.answer = [](grpc::ServerContext* context, Charge*) {
    context->AddTrailingMetadata("x-request-id", "req_2");
    return grpc::Status(grpc::StatusCode::INTERNAL, "failed");
  };
  Run();
  EXPECT_EQ(Recorded()->provider_request_id, "req_2");
}

TEST_F(RunUnaryTest, ALookUpsAnswerIsReadLikeAnyOther) {
  bank.answer = [](grpc::ServerContext*, Charge*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
  };
  options.run.look_up = [](const Operation&) {
    Charge found;
    found.set_id("ch_found");
    return LookUp{.found = LookUp::Found::kHappened,
                  .response = ToCachedResponse(grpc::Status::OK, found)};
  };
  const UnaryResult result = Run();
  EXPECT_TRUE(result.ok()) << result.status.error_message();
  EXPECT_EQ(charge.id(), "ch_found");
  EXPECT_EQ(Recorded()->state, OperationState::kComplete);
}

// As mocks of a stub have to be called.
TEST_F(RunUnaryTest, TakesTheMethodOfAnInterface) {
  Bank::StubInterface& any = *stub;
  const UnaryResult result =
      RunUnary(memory.client, request, any, &Bank::StubInterface::CreateCharge, ChargeOf(100),
               options, &charge);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(charge.id(), "ch_1");
}

TEST_F(RunUnaryTest, RefusesWhatCannotWork) {
  struct Row {
    const char* name;
    UnaryOptions options;
    const char* says;
  };
  const Row rows[] = {
      {"no method", {}, "method"},
      {"a method without a slash", {.method = "bank.v1.Bank.CreateCharge"}, "method"},
      {"no service", {.method = "//CreateCharge"}, "method"},
      {"another method", {.method = "/bank.v1.Bank/GetCharge"}, "bank.v1.GetChargeRequest"},
      {"an unknown field", {.method = kChargeMethod, .fingerprint = {.exclude = {"x"}}}, "x"},
      {"a name with capitals", {.method = kChargeMethod, .key_metadata = "Idempotency-Key"}, "key"},
      {"a key with a line break", {.method = kChargeMethod, .key = "a\nb"}, "key"},
      {"an empty key", {.method = kChargeMethod, .key = ""}, "key"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    options = row.options;
    const UnaryResult result = Run();
    EXPECT_EQ(result.run.stop, StopReason::kInvalid);
    EXPECT_THAT(result.run.detail, HasSubstr(row.says));
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_EQ(result.status.error_message(), result.run.detail);
  }
  EXPECT_EQ(bank.calls, 0);
  EXPECT_THAT(memory.service->All(), IsEmpty());
}

TEST_F(RunUnaryTest, FailsClosed) {
  auto connection = std::make_shared<::testing::NiceMock<MockConnection>>();
  ON_CALL(*connection, Reserve).WillByDefault([](const auto&, const auto&) {
    return absl::UnavailableError("down");
  });
  const Client client(connection, memory.environment);
  const UnaryResult result =
      RunUnary(client, request, *stub, &Bank::Stub::CreateCharge, ChargeOf(1), options, &charge);
  EXPECT_EQ(bank.calls, 0);
  EXPECT_EQ(result.run.stop, StopReason::kUnavailable);
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace idempotency::testing
