// tests/vectors/next_steps.json: what a Run does with each answer of Reserve.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/client/lib/reserve_rows.h"
#include "tests/client/lib/vector_file.h"
#include "tests/client/run/run_fixture.h"

namespace idempotency::testing {
namespace {

using ::testing::Each;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Return;
using ::testing::SizeIs;

class NextStepsTest : public RunFixture, public ::testing::WithParamInterface<VectorRow> {
 protected:
  const VectorRow& row() const { return GetParam(); }

  ReserveResponse Answered() const {
    ReserveResponse response = ReserveOf(row());
    if (row().Flag("may_start")) response.lease = LeaseOf(30s);
    return response;
  }

  // The first Reserve gets the row's answer, each further one a grant.
  std::vector<std::string> RunAndTellAttempts(RunResult* result) {
    std::vector<std::string> attempts;
    EXPECT_CALL(*connection, Reserve)
        .WillRepeatedly([&](const ReserveRequest& asked, const CallOptions&) {
          attempts.push_back(asked.attempt_id);
          return attempts.size() == 1 ? Answered() : Acquired();
        });
    EXPECT_CALL(*connection, Complete).WillRepeatedly(Return(Done()));
    *result = Run([](Attempt&) { return Answer("charged"); });
    return attempts;
  }
};

TEST_P(NextStepsTest, EndWithoutWaitingAsTheRowSays) {
  request.wait = 0ms;
  RunResult result;
  EXPECT_THAT(RunAndTellAttempts(&result), SizeIs(1));
  const ReserveResponse answered = ReserveOf(row());
  EXPECT_EQ(fn_calls, row().Flag("may_start") ? 1 : 0);
  EXPECT_EQ(result.stop, StopOf(row().Text("stop"))) << Name(result.stop);
  EXPECT_EQ(result.replayed, row().Text("action") == "return_response");
  EXPECT_THAT(environment->sleeps(), IsEmpty());
  if (row().Flag("may_start")) {
    EXPECT_EQ(result.response, Body("charged"));
    return;
  }
  // One that is not known is STOP.
  const bool known = row().Number("next_step", -1) < 0;
  EXPECT_EQ(result.next_step, known ? answered.next_step : NextStep::kStop);
  EXPECT_EQ(result.verdict, answered.operation->verdict);
  EXPECT_EQ(result.retry_after, answered.retry_after);
  if (result.has_answer()) {
    EXPECT_EQ(result.response, answered.operation->response.value_or(CachedResponse{}));
  } else {
    EXPECT_EQ(result.response, std::nullopt);
  }
}

TEST_P(NextStepsTest, AskAgainUnderANewIdWhereTheRowSaysSoAndOnlyThere) {
  RunResult result;
  const std::vector<std::string> attempts = RunAndTellAttempts(&result);
  if (!row().Flag("new_attempt_id")) {
    EXPECT_THAT(attempts, SizeIs(1));
    EXPECT_EQ(result.stop, StopOf(row().Text("stop"))) << Name(result.stop);
    return;
  }
  ASSERT_THAT(attempts, SizeIs(2));
  EXPECT_NE(attempts[0], attempts[1]);
  EXPECT_TRUE(result.has_answer());
  EXPECT_THAT(environment->sleeps(), SizeIs(1));
  EXPECT_THAT(environment->sleeps(), Each(Ge(Duration(row().Number("retry_after_ms")))));
}

std::string NameOf(const ::testing::TestParamInfo<VectorRow>& info) {
  std::string name = info.param.Text("name");
  name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c == ','; }), name.end());
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Rows, NextStepsTest, ::testing::ValuesIn(ReadRows("next_steps.json")),
                         NameOf);

}  // namespace
}  // namespace idempotency::testing
