// The order of checks in front of the key store.
#include "service/front/front_desk.h"

#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "keystore/clock.h"
#include "service/activity.h"
#include "service/config.h"
#include "service/log.h"
#include "service/metrics.h"
#include "tests/service/edge/requests.h"

namespace idempotency::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Denies all, and remembers what it was asked.
class DenyAll final : public AccessPolicy {
 public:
  bool Allows(const Principal&, Permission permission, std::string_view name_space,
              std::optional<std::string_view> scope) const override {
    asked = std::to_string(static_cast<int>(permission)) + " " + std::string(name_space) + "/" +
            std::string(scope.value_or("(any)"));
    return false;
  }
  mutable std::string asked;
};

class FrontDeskTest : public testing::Test {
 protected:
  FrontDeskTest()
      : log_({LogLevel::kError}),
        activity_(&log_, &metrics_, nullptr),
        clock_(core::Time(seconds(1'800'000'000))),
        config_(*ConfigHolder::Open("")) {}

  FrontDesk Desk(const AccessPolicy* access, TransferMode transfer = TransferMode::kOff) {
    return FrontDesk(nullptr, &clock_, config_.get(), access, &activity_, nullptr, nullptr,
                     transfer);
  }

  template <typename Request>
  static Failure Refusal(const FrontDesk& desk, Request request) {
    const Admission admission = desk.Admit(Caller{}, &request);
    const auto* failure = std::get_if<Failure>(&admission);
    EXPECT_NE(failure, nullptr) << request.ShortDebugString();
    return failure == nullptr ? Failure{} : *failure;
  }

  const AllowAll allow_all_;
  const DenyAll deny_all_;
  Log log_;
  CountingMetrics metrics_;
  Activity activity_;
  keystore::ManualClock clock_;
  std::unique_ptr<ConfigHolder> config_;
};

TEST_F(FrontDeskTest, AsksForAccessBeforeAnythingElse) {
  const FrontDesk desk = Desk(&deny_all_);
  // The request is wrong in every way; the caller learns nothing of that.
  v1::ReserveRequest request;
  request.mutable_id()->set_namespace_("Not A Namespace");
  request.mutable_id()->set_scope("acct");
  EXPECT_EQ(Refusal(desk, request).reason, core::Reason::kAccessDenied);
  EXPECT_EQ(deny_all_.asked, "0 Not A Namespace/acct");
  EXPECT_EQ(Refusal(desk, ValidComplete()).reason, core::Reason::kAccessDenied);
  EXPECT_EQ(Refusal(desk, ValidResolve()).reason, core::Reason::kAccessDenied);
  EXPECT_EQ(deny_all_.asked, "3 payments/acct-1");

  v1::GetNamespaceResponse got;
  const auto failure = desk.GetNamespace(Caller{}, v1::GetNamespaceRequest{}, &got);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->reason, core::Reason::kAccessDenied);
  const auto list = desk.AdmitList(Caller{}, v1::ListOperationsRequest{});
  ASSERT_TRUE(std::holds_alternative<Failure>(list));
  EXPECT_EQ(std::get<Failure>(list).reason, core::Reason::kAccessDenied);
}

// What one mode lets pass of every verb that names an operation.
struct LetPass {
  bool writes = false;
  bool reads = false;
};

class FrontDeskWhileMovingTest : public FrontDeskTest {
 protected:
  template <typename Request>
  void Expect(const FrontDesk& desk, bool passes, Request request) {
    *request.mutable_id() = ValidId();
    const Admission admission = desk.Admit(Caller{}, &request);
    const auto* failure = std::get_if<Failure>(&admission);
    ASSERT_EQ(failure == nullptr, passes) << Request::descriptor()->name();
    if (passes) return;
    EXPECT_EQ(failure->reason, core::Reason::kStoreUnavailable) << Request::descriptor()->name();
    EXPECT_NE(failure->message.find("send the same call again later"), std::string::npos);
    EXPECT_TRUE(failure->retry_after.has_value());
  }

  void Expect(const FrontDesk& desk, const LetPass& passes) {
    Expect(desk, passes.writes, ValidReserve());
    v1::RenewRequest renew;
    renew.set_fencing_token(7);
    Expect(desk, passes.writes, renew);
    Expect(desk, passes.writes, ValidComplete());
    v1::ReleaseRequest release;
    release.set_fencing_token(7);
    Expect(desk, passes.writes, release);
    v1::MarkUnresolvedRequest mark;
    mark.set_fencing_token(7);
    mark.set_cause(v1::UNRESOLVED_CAUSE_TIMEOUT);
    Expect(desk, passes.writes, mark);
    Expect(desk, passes.writes, ValidResolve());
    v1::DeleteOperationRequest erase;
    erase.set_actor("alice");
    erase.set_reason("a test");
    Expect(desk, passes.writes, erase);
    Expect(desk, passes.reads, v1::GetOperationRequest());
    Expect(desk, passes.reads, v1::InspectOperationRequest());
    v1::ListOperationsRequest list;
    list.set_namespace_("payments");
    EXPECT_EQ(std::holds_alternative<keystore::ListFilter>(desk.AdmitList(Caller{}, list)),
              passes.reads);
  }
};

TEST_F(FrontDeskWhileMovingTest, NothingIsRefusedWhereNothingMoves) {
  Expect(Desk(&allow_all_), {.writes = true, .reads = true});
}

TEST_F(FrontDeskWhileMovingTest, OnlyReadsPassWhileTheStoreIsExported) {
  Expect(Desk(&allow_all_, TransferMode::kExport), {.writes = false, .reads = true});
}

TEST_F(FrontDeskWhileMovingTest, NothingIsAnsweredFromAStoreThatIsFilled) {
  Expect(Desk(&allow_all_, TransferMode::kImport), {.writes = false, .reads = false});
}

TEST_F(FrontDeskWhileMovingTest, WhoMayNotLearnsNothingOfIt) {
  EXPECT_EQ(Refusal(Desk(&deny_all_, TransferMode::kExport), ValidReserve()).reason,
            core::Reason::kAccessDenied);
}

TEST_F(FrontDeskWhileMovingTest, CommandsOfABatchAreRefusedToo) {
  const FrontDesk desk = Desk(&allow_all_, TransferMode::kExport);
  v1::Command command;
  *command.mutable_complete() = ValidComplete();
  EXPECT_EQ(Refusal(desk, command).reason, core::Reason::kStoreUnavailable);
}

TEST_F(FrontDeskTest, MakesARequestForTheKeyStore) {
  const FrontDesk desk = Desk(&allow_all_);
  v1::ReserveRequest request = ValidReserve();
  request.mutable_wait_duration()->set_seconds(5);
  const Admission admission = desk.Admit(Caller{}, &request);
  ASSERT_TRUE(std::holds_alternative<Admitted>(admission));
  const auto& admitted = std::get<Admitted>(admission);
  EXPECT_EQ(admitted.request.key, (core::Key{"payments", "acct-1", "order-1"}));
  EXPECT_EQ(admitted.request.wait, seconds(5));
  EXPECT_EQ(admitted.ticket.key, admitted.request.key);
  EXPECT_EQ(admitted.ticket.verb, Verb::kReserve);
  EXPECT_NE(admitted.request.policy, nullptr);
}

TEST_F(FrontDeskTest, EndsAWaitBeforeTheCallerStopsListening) {
  const FrontDesk desk = Desk(&allow_all_);
  struct Row {
    milliseconds asked, left, wait;
  };
  for (const Row& row :
       {Row{seconds(5), seconds(60), seconds(5)}, Row{seconds(5), milliseconds(3100), seconds(3)},
        Row{seconds(5), milliseconds(101), milliseconds(1)},
        Row{seconds(5), milliseconds(100), milliseconds(0)},
        Row{seconds(5), milliseconds(0), milliseconds(0)},
        Row{seconds(100), seconds(1000), seconds(60)}}) {
    v1::GetOperationRequest request;
    *request.mutable_id() = ValidId();
    request.mutable_wait_duration()->set_seconds(row.asked.count() / 1000);
    const Admission admission = desk.Admit(Caller{Principal{}, row.left}, &request);
    ASSERT_TRUE(std::holds_alternative<Admitted>(admission));
    EXPECT_EQ(std::get<Admitted>(admission).request.wait, row.wait) << row.left.count();
  }
}

TEST_F(FrontDeskTest, LeavesItToTheCoreWhetherAKeyIsNew) {
  const FrontDesk desk = Desk(&allow_all_);
  v1::ReserveRequest request = ValidReserve();
  request.mutable_id()->set_key("alice@example.com");
  const Admission admission = desk.Admit(Caller{}, &request);
  ASSERT_TRUE(std::holds_alternative<Admitted>(admission));
  const auto& admitted = std::get<Admitted>(admission);
  EXPECT_EQ(std::get<core::ReserveCommand>(admitted.request.command).refuse_new,
            core::Reason::kInvalidField);
  // Where it matters, the caller is told what is wrong with the key.
  v1::ReserveResponse response;
  const keystore::Reply reply{core::Refusal{core::Reason::kInvalidField, "id.key"}, core::Time{}};
  const auto failure = desk.Answer(reply, admitted.ticket, &response);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->field, "id.key");
  EXPECT_NE(failure->message.find("e-mail address"), std::string::npos);
}

TEST_F(FrontDeskTest, NoticesAMissingScopeWhereNothingIsFound) {
  const FrontDesk desk = Desk(&allow_all_);
  v1::CompleteRequest request = ValidComplete();
  request.mutable_id()->clear_scope();
  const Admission admission = desk.Admit(Caller{}, &request);
  ASSERT_TRUE(std::holds_alternative<Admitted>(admission));
  v1::CompleteResponse response;
  const keystore::Reply reply{core::Refusal{core::Reason::kOperationNotFound}, core::Time{}};
  const auto failure = desk.Answer(reply, std::get<Admitted>(admission).ticket, &response);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->reason, core::Reason::kInvalidField);
  EXPECT_EQ(failure->field, "id.scope");
}

TEST_F(FrontDeskTest, RefusesACommandOfNoKind) {
  const FrontDesk desk = Desk(&allow_all_);
  v1::Command command;
  const Failure failure = Refusal(desk, command);
  EXPECT_EQ(failure.reason, core::Reason::kInvalidField);
  EXPECT_EQ(failure.field, "command");
}

TEST_F(FrontDeskTest, CountsWhatItRefuses) {
  const FrontDesk desk = Desk(&allow_all_);
  Refusal(desk, v1::ReserveRequest{});
  EXPECT_EQ(metrics_.Read().refused[static_cast<size_t>(core::Reason::kInvalidField)], 1u);
}

}  // namespace
}  // namespace idempotency::service
