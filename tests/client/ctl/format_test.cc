#include "client/ctl/format.h"

#include <gmock/gmock.h>

namespace idempotency::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kNow = 1'767'323'045;  // 2026-01-02T03:04:05Z

absl::Time Now() { return absl::FromUnixSeconds(kNow); }

v1::Operation Unresolved() {
  v1::Operation operation;
  operation.mutable_id()->set_namespace_("payments");
  operation.mutable_id()->set_scope("acct 1");
  operation.mutable_id()->set_key("order/7");
  operation.set_state(v1::OPERATION_STATE_UNRESOLVED);
  operation.set_unresolved_cause(v1::UNRESOLVED_CAUSE_LEASE_LAPSED);
  operation.set_attempt(2);
  operation.mutable_update_time()->set_seconds(kNow - 180);
  operation.mutable_owner()->set_worker("pod-1");
  return operation;
}

TEST(Format, OperationShowsOnlyWhatIsSet) {
  EXPECT_EQ(FormatOperation(Unresolved(), Now()),
            "  operation  payments 'acct 1' order/7\n"
            "  state      UNRESOLVED\n"
            "  cause      LEASE_LAPSED\n"
            "  attempt    2\n"
            "  worker     pod-1\n"
            "  updated    3m ago (2026-01-02T03:01:05Z)\n");
}

TEST(Format, HistoryHasAgesAndDetails) {
  v1::Operation operation = Unresolved();
  v1::Event* event = operation.add_history();
  event->set_kind(v1::EVENT_KIND_ACQUIRED);
  event->mutable_time()->set_seconds(kNow - 60);
  event->set_attempt(1);
  event->set_actor("pod-1");
  EXPECT_THAT(
      FormatOperation(operation, Now()),
      HasSubstr("history\n"
                "  TIME                           EVENT     ATTEMPT  ACTOR  PROVIDER ID  DETAIL\n"
                "  1m ago (2026-01-02T03:03:05Z)  ACQUIRED  1        pod-1\n"));
}

TEST(Format, BodiesTellNoneFromEmptyFromOmitted) {
  const auto body_line = [](const v1::CachedResponse& response) {
    v1::Operation operation;
    *operation.mutable_response() = response;
    const std::string text = FormatOperation(operation, Now());
    return text.substr(text.find("answer body") + 13);
  };
  v1::CachedResponse response;
  EXPECT_EQ(body_line(response), "none\n");
  response.set_body("");
  EXPECT_EQ(body_line(response), "empty\n");
  response.set_body("{\"a\":1}\n");
  EXPECT_EQ(body_line(response), "8 bytes: {\"a\":1}\\x0a\n");
  response.set_body("\xff");
  EXPECT_THAT(body_line(response), HasSubstr("not text"));
  response.clear_body();
  response.set_body_omitted(true);
  response.set_body_size(5'000'000);
  EXPECT_EQ(body_line(response), "not kept (5000000 bytes)\n");
}

TEST(Format, WhatCallersWroteDoesNotAct) {
  v1::Operation operation = Unresolved();
  operation.mutable_owner()->set_worker("\x1b[2J");
  operation.mutable_id()->set_key("\x1b]0;x");
  (*operation.mutable_labels())["\x07"] = "\x08";
  EXPECT_THAT(FormatOperation(operation, Now()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(FormatOperation(operation, Now()), Not(HasSubstr("\x07")));
  EXPECT_THAT(FormatOperationList({operation}, Now()), Not(HasSubstr("\x1b")));
}

TEST(Format, ReserveStartsWithItsOutcome) {
  v1::ReserveResponse response;
  response.set_outcome(v1::RESERVE_OUTCOME_ACQUIRED);
  response.mutable_lease()->set_fencing_token(12);
  response.mutable_lease()->set_attempt(1);
  response.mutable_lease()->mutable_remaining()->set_seconds(30);
  EXPECT_EQ(FormatReserve(response, Unresolved().id(), "attempt-0123456789", Now()),
            "ACQUIRED: the operation is yours until its lease ends\n"
            "  operation      payments 'acct 1' order/7\n"
            "  fencing token  12\n"
            "  attempt        1\n"
            "  lease ends     in 30s (2026-01-02T03:04:35Z)\n"
            "  attempt id     attempt-0123456789\n");
  response.set_outcome(static_cast<v1::ReserveOutcome>(99));
  EXPECT_THAT(FormatReserve(response, Unresolved().id(), "", Now()),
              HasSubstr("99: an outcome that this tool does not know"));
}

TEST(Format, ErrorsSayReasonSentenceAndField) {
  CallError error;
  error.delivery = Delivery::kRefused;
  error.code = 3;
  error.reason = "INVALID_FIELD";
  error.message = "Give a key.";
  error.field = "id.key";
  error.retry_after = absl::Seconds(3);
  EXPECT_EQ(FormatError(error, "reserve", "h:1"),
            "idempotencyctl: reserve: refused: INVALID_FIELD\n"
            "  message      Give a key.\n"
            "  field        id.key\n"
            "  retry after  3s\n");
  error.reason.clear();
  EXPECT_THAT(FormatError(error, "reserve", "h:1"), HasSubstr("refused: INVALID_ARGUMENT"));
  error.delivery = Delivery::kUnknown;
  EXPECT_THAT(FormatError(error, "reserve", "h:1"), HasSubstr("no answer: "));
  error.delivery = Delivery::kNotSent;
  EXPECT_THAT(FormatError(error, "reserve", "h:1"), HasSubstr("cannot reach h:1"));
}

TEST(Format, NamespacesShowTheirTimes) {
  v1::Namespace policy;
  policy.set_name("payments");
  policy.set_unknown_outcome(v1::UNKNOWN_OUTCOME_POLICY_RETRY_SAME_KEY);
  policy.mutable_default_lease_duration()->set_seconds(30);
  policy.mutable_retention()->set_seconds(86'400);
  policy.mutable_provider()->set_name("acquirer");
  EXPECT_THAT(FormatNamespaceList({policy}),
              HasSubstr("payments  RETRY_SAME_KEY   30s    0s    24h        0s      acquirer\n"));
  EXPECT_THAT(FormatNamespace(policy), HasSubstr("provider           acquirer\n"));
}

}  // namespace
}  // namespace idempotency::ctl
