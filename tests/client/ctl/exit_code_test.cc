#include "client/ctl/exit_code.h"

#include <gtest/gtest.h>

#include <set>

#include "client/ctl/enum_text.h"

namespace idempotency::ctl {
namespace {

// Scripts hold these numbers: written out here, so that a change is seen.
TEST(ExitCode, OfOutcomes) {
  const std::pair<v1::ReserveOutcome, int> rows[] = {
      {v1::RESERVE_OUTCOME_ACQUIRED, 0},     {v1::RESERVE_OUTCOME_ALREADY_HELD, 10},
      {v1::RESERVE_OUTCOME_IN_PROGRESS, 11}, {v1::RESERVE_OUTCOME_COMPLETED, 12},
      {v1::RESERVE_OUTCOME_UNRESOLVED, 13},  {v1::RESERVE_OUTCOME_FINGERPRINT_MISMATCH, 14},
      {v1::RESERVE_OUTCOME_EXPIRED, 15},     {v1::RESERVE_OUTCOME_TOO_OLD, 16},
      {v1::RESERVE_OUTCOME_UNSPECIFIED, 20}, {static_cast<v1::ReserveOutcome>(99), 20}};
  for (const auto& [outcome, code] : rows) {
    EXPECT_EQ(static_cast<int>(ExitCodeOf(outcome)), code) << EnumText(outcome);
  }
}

TEST(ExitCode, EveryOutcomeOfTheApiHasItsOwn) {
  const auto& type = *v1::ReserveOutcome_descriptor();
  std::set<ExitCode> codes;
  for (int i = 1; i < type.value_count(); ++i) {
    codes.insert(ExitCodeOf(static_cast<v1::ReserveOutcome>(type.value(i)->number())));
  }
  EXPECT_EQ(static_cast<int>(codes.size()), type.value_count() - 1);
  EXPECT_EQ(codes.count(ExitCode::kNotUnderstood), 0u);
}

TEST(ExitCode, OfStates) {
  const std::pair<v1::OperationState, int> rows[] = {
      {v1::OPERATION_STATE_PENDING, 11},    {v1::OPERATION_STATE_COMPLETE, 12},
      {v1::OPERATION_STATE_UNRESOLVED, 13}, {v1::OPERATION_STATE_EXPIRED, 15},
      {v1::OPERATION_STATE_FREED, 17},      {static_cast<v1::OperationState>(99), 20}};
  for (const auto& [state, code] : rows) {
    EXPECT_EQ(static_cast<int>(ExitCodeOf(state)), code) << EnumText(state);
  }
}

TEST(ExitCode, OfErrors) {
  CallError error;
  error.delivery = Delivery::kRefused;
  EXPECT_EQ(static_cast<int>(ExitCodeOf(error)), 3);
  error.delivery = Delivery::kNotSent;
  EXPECT_EQ(static_cast<int>(ExitCodeOf(error)), 4);
  error.delivery = Delivery::kUnknown;
  EXPECT_EQ(static_cast<int>(ExitCodeOf(error)), 4);
  error.interrupted = true;
  EXPECT_EQ(static_cast<int>(ExitCodeOf(error)), 130);
}

TEST(ExitCode, HelpNamesEachOfThem) {
  for (const char* code : {"0", "2", "3", "4", "5", "6", "7", "10", "11", "12", "13", "14", "15",
                           "16", "17", "20", "130"}) {
    EXPECT_NE(ExitCodeHelp().find("\n  " + std::string(code) + " "), std::string::npos) << code;
  }
}

TEST(EnumText, ReadsAnyCaseAndBothHyphens) {
  EXPECT_EQ(EnumText(v1::UNRESOLVED_CAUSE_CONNECTION_LOST), "CONNECTION_LOST");
  EXPECT_EQ(EnumText(static_cast<v1::UnresolvedCause>(99)), "99");
  for (const char* text : {"connection-lost", "CONNECTION_LOST", "Connection_Lost"}) {
    EXPECT_EQ(ParseEnum<v1::UnresolvedCause>(text), v1::UNRESOLVED_CAUSE_CONNECTION_LOST) << text;
  }
  for (const char* text : {"", "unspecified", "lost", "1"}) {
    EXPECT_EQ(ParseEnum<v1::UnresolvedCause>(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace idempotency::ctl
