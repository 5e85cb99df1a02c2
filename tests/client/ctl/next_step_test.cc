#include "client/ctl/next_step.h"

#include <gmock/gmock.h>

#include "tests/client/ctl/shell.h"

namespace idempotency::ctl {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Subject Payment() {
  Subject subject;
  subject.id.set_namespace_("payments");
  subject.id.set_scope("acct-1");
  subject.id.set_key("order/7");
  subject.fingerprint = "sha256/bytes-1:00ff";
  subject.actor = "ann";
  return subject;
}

constexpr char kPaymentWords[] = "payments acct-1 order/7";

v1::ReserveResponse Answer(v1::NextStep step, v1::OperationState state) {
  v1::ReserveResponse response;
  response.set_next_step(step);
  if (state != v1::OPERATION_STATE_UNSPECIFIED) response.mutable_operation()->set_state(state);
  return response;
}

std::vector<std::string> Commands(const NextSteps& steps) {
  std::vector<std::string> commands;
  for (const Suggestion& suggestion : steps.suggestions) commands.push_back(suggestion.command);
  return commands;
}

NextSteps After(const v1::ReserveResponse& response) {
  return AfterReserve(response, Payment(), /*dispatch_later=*/false, /*body_written=*/false);
}

std::string About(const std::string& verb, const std::string& flags = "") {
  return "idempotencyctl " + verb + " " + kPaymentWords + flags;
}

struct StepRow {
  const char* name;
  v1::NextStep step;
  v1::OperationState state;
  // One command that must be among those shown.
  std::string command;
};

TEST(NextStep, EveryStepOfReserveHasItsCommand) {
  const std::string print = " --fingerprint=sha256/bytes-1:00ff";
  const StepRow rows[] = {
      {"in progress", v1::NEXT_STEP_RESERVE_AGAIN, v1::OPERATION_STATE_PENDING,
       About("reserve", print + " --wait=30s")},
      {"later attempt", v1::NEXT_STEP_RESERVE_AGAIN, v1::OPERATION_STATE_UNRESOLVED,
       About("reserve", print)},
      {"answer", v1::NEXT_STEP_USE_RESPONSE, v1::OPERATION_STATE_COMPLETE,
       About("get", print + " --body-out=ANSWER")},
      {"answer gone", v1::NEXT_STEP_LOOK_UP_ANSWER, v1::OPERATION_STATE_EXPIRED,
       About("reserve", print + " --start-over")},
      {"reconcile", v1::NEXT_STEP_RECONCILE_FIRST, v1::OPERATION_STATE_UNRESOLVED,
       About("resolve completed", " --verdict=succeeded --actor=ann --reason='WHAT YOU FOUND'")},
      {"reconcile: undone", v1::NEXT_STEP_RECONCILE_FIRST, v1::OPERATION_STATE_UNRESOLVED,
       About("resolve not-executed", " --actor=ann --reason='WHAT YOU FOUND'")},
      {"too old", v1::NEXT_STEP_RECONCILE_FIRST, v1::OPERATION_STATE_UNSPECIFIED,
       About("reserve", print + " --start-over")},
      {"mismatch, open", v1::NEXT_STEP_SETTLE_OTHER_FIRST, v1::OPERATION_STATE_PENDING,
       About("inspect")},
      {"mismatch, ended", v1::NEXT_STEP_USE_OWN_KEY, v1::OPERATION_STATE_COMPLETE,
       "idempotencyctl reserve payments acct-1 NEW_KEY" + print},
      {"abandoned", v1::NEXT_STEP_STOP, v1::OPERATION_STATE_COMPLETE, About("inspect")},
      {"newer than this tool", static_cast<v1::NextStep>(99), v1::OPERATION_STATE_PENDING,
       About("inspect")},
  };
  for (const StepRow& row : rows) {
    const NextSteps steps = After(Answer(row.step, row.state));
    EXPECT_THAT(Commands(steps), Contains(row.command)) << row.name;
    EXPECT_NE(steps.summary, "") << row.name;
  }
}

TEST(NextStep, AnOwnerReportsWithItsToken) {
  v1::ReserveResponse response = Answer(v1::NEXT_STEP_PROCEED, v1::OPERATION_STATE_PENDING);
  response.mutable_lease()->set_fencing_token(12);
  EXPECT_THAT(Commands(After(response)),
              testing::ElementsAre(
                  About("complete", " --fencing-token=12 --verdict=succeeded --body-file=ANSWER"),
                  About("release", " --fencing-token=12"),
                  About("mark-unresolved", " --fencing-token=12 --cause=timeout")));
  EXPECT_EQ(Commands(AfterReserve(response, Payment(), /*dispatch_later=*/true, false)).front(),
            About("renew", " --fencing-token=12 --dispatched"));
}

TEST(NextStep, AHeldAttemptIsWarnedBeforeItStarts) {
  v1::ReserveResponse response =
      Answer(v1::NEXT_STEP_PROCEED_UNLESS_STARTED, v1::OPERATION_STATE_PENDING);
  response.mutable_lease()->set_fencing_token(12);
  EXPECT_THAT(After(response).summary, HasSubstr("only if you know that it was not started"));
  EXPECT_EQ(Commands(After(response)).front(),
            About("mark-unresolved", " --fencing-token=12 --cause=timeout"));
}

TEST(NextStep, ALapsedOwnerReportsInsteadOfDeciding) {
  v1::ReserveResponse response =
      Answer(v1::NEXT_STEP_RECONCILE_FIRST, v1::OPERATION_STATE_UNRESOLVED);
  response.mutable_lease()->set_fencing_token(12);
  for (const std::string& command : Commands(After(response))) {
    EXPECT_THAT(command, Not(HasSubstr("resolve "))) << command;
  }
}

TEST(NextStep, OnlyWhatWasSeenIsSettled) {
  Subject subject = Payment();
  subject.etag = "e 1";
  subject.actor.clear();
  v1::Operation operation;
  operation.set_state(v1::OPERATION_STATE_UNRESOLVED);
  EXPECT_THAT(Commands(AfterLook(v1::NEXT_STEP_RECONCILE_FIRST, operation, std::nullopt, subject)),
              Contains(About("resolve abandoned",
                             " --actor=YOUR_NAME --reason='WHAT YOU FOUND' --etag='e 1'")));
}

TEST(NextStep, OneWhoLooksIsNotToldToStart) {
  const NextSteps steps = AfterLook(v1::NEXT_STEP_PROCEED, {}, std::nullopt, Payment());
  EXPECT_THAT(steps.summary, Not(HasSubstr("Start the effect")));
  EXPECT_EQ(AfterLook(v1::NEXT_STEP_UNSPECIFIED, {}, std::nullopt, Payment()), NextSteps{});
}

// --- Errors ------------------------------------------------------------------------------------

FailedCall Completing() {
  FailedCall call;
  call.verb = "complete";
  call.changes = true;
  call.repeat = About("complete", " --fencing-token=12 --verdict=succeeded");
  call.subject = Payment();
  call.subject.fencing_token = 12;
  return call;
}

CallError Refusal(const std::string& reason) {
  CallError error;
  error.delivery = Delivery::kRefused;
  error.reason = reason;
  return error;
}

TEST(NextStep, EveryReasonOfTheApiHasAWayOn) {
  const auto& type = *v1::ErrorReason_descriptor();
  for (int i = 1; i < type.value_count(); ++i) {
    const std::string reason = type.value(i)->name().substr(std::string("ERROR_REASON_").size());
    CallError error = Refusal(reason);
    if (reason == "STORE_UNAVAILABLE") error.delivery = Delivery::kUnknown;
    EXPECT_NE(AfterError(error, Completing()).summary, "") << reason;
  }
}

TEST(NextStep, AnUnknownOutcomeIsRepeatedWithTheSameIds) {
  FailedCall call = Completing();
  call.attempt_id = "attempt-0123456789";
  const NextSteps steps = AfterError(CallError{}, call);
  EXPECT_THAT(steps.summary, HasSubstr("may have been applied"));
  EXPECT_THAT(steps.summary, HasSubstr("attempt-0123456789"));
  EXPECT_THAT(Commands(steps), testing::ElementsAre(call.repeat, About("get")));
  call.reads_input = true;
  EXPECT_THAT(AfterError(CallError{}, call).suggestions[0].when, HasSubstr("same standard input"));
}

TEST(NextStep, ReadsAndWhatWasNotSentLeaveNoDoubt) {
  FailedCall call = Completing();
  CallError error;
  error.delivery = Delivery::kNotSent;
  EXPECT_THAT(AfterError(error, call).summary, HasSubstr("Nothing was sent"));
  error.delivery = Delivery::kUnknown;
  call.changes = false;
  EXPECT_THAT(AfterError(error, call).summary, HasSubstr("Nothing was changed"));
}

TEST(NextStep, TextReadsAsAScript) {
  const std::string text = ToText({"Do it.", {{"when so", "idempotencyctl get a b 'c d'"}}});
  EXPECT_EQ(text, "Next: Do it.\n  # when so\n  idempotencyctl get a b 'c d'\n");
  EXPECT_EQ(ToText({}), "");
  EXPECT_EQ(WordsOf(text.substr(text.find('\n') + 1)),
            (std::vector<std::string>{"get", "a", "b", "c d"}));
}

}  // namespace
}  // namespace idempotency::ctl
