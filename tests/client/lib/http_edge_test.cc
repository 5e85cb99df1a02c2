// The HTTP edge: the published vectors of the key field and of the answers, and what must never
// get into an HTTP message.
#include "idempotency/http_edge.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/src/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/lib/reserve_rows.h"
#include "tests/client/lib/vector_file.h"

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::Pair;

KeyProblem ProblemOf(const std::string& name) {
  const std::map<std::string, KeyProblem> problems = {{"", KeyProblem::kNone},
                                                      {"MISSING", KeyProblem::kMissing},
                                                      {"REPEATED", KeyProblem::kRepeated},
                                                      {"MALFORMED", KeyProblem::kMalformed},
                                                      {"TOO_LONG", KeyProblem::kTooLong}};
  return problems.at(name);
}

std::string Header(const HttpAnswer& answer, const std::string& name) {
  for (const auto& [key, value] : answer.headers) {
    if (key == name) return value;
  }
  return "";
}

std::string ProblemField(const HttpAnswer& answer, const std::string& field) {
  const auto document = internal::ParseJson(answer.body.value_or(""));
  if (!document.ok() || document->Find(field) == nullptr) return "";
  return document->Find(field)->text;
}

// expected: status, problem, retry_after, replayed.
void ExpectAnswer(const VectorRow& row, const VectorRow& expected, const HttpAnswer& answer) {
  EXPECT_EQ(answer.status, expected.Number("status")) << row;
  EXPECT_EQ(Header(answer, "Retry-After"),
            expected.Has("retry_after") ? std::to_string(expected.Number("retry_after")) : "")
      << row;
  EXPECT_EQ(Header(answer, "Idempotency-Replayed"), expected.Flag("replayed") ? "true" : "") << row;
  const std::string problem = expected.Text("problem");
  if (problem.empty()) {
    EXPECT_NE(Header(answer, "Content-Type"), "application/problem+json") << row;
    return;
  }
  EXPECT_EQ(Header(answer, "Content-Type"), "application/problem+json") << row;
  EXPECT_EQ(ProblemField(answer, "type"), "tag:idempotencyd.dev,2026:problem/" + problem) << row;
  EXPECT_EQ(ProblemField(answer, "status"), std::to_string(answer.status)) << row;
  EXPECT_NE(ProblemField(answer, "title"), "") << row;
  EXPECT_NE(ProblemField(answer, "detail"), "") << row;
}

TEST(KeyFieldTest, Vectors) {
  for (const VectorRow& row : ReadRows("http_edge.json", "key_fields")) {
    KeyFieldOptions options;
    options.max_bytes = static_cast<size_t>(row.Number("max_bytes", 255));
    if (row.Has("allow_raw")) options.allow_raw = row.Flag("allow_raw");
    const std::vector<std::string> values = row.Texts("values");
    const KeyField field =
        ParseKeyField(std::vector<std::string_view>(values.begin(), values.end()), options);
    EXPECT_EQ(field.problem, ProblemOf(row.Text("problem"))) << row;
    EXPECT_EQ(field.key, row.Text("key")) << row;
  }
}

TEST(KeyFieldTest, ProblemsHaveAnswers) {
  for (const VectorRow& row : ReadRows("http_edge.json", "key_problems")) {
    ExpectAnswer(row, row, AnswerKeyProblem(ProblemOf(row.Text("name"))));
  }
}

TEST(AnswerRunTest, Vectors) {
  for (const VectorRow& row : ReadRows("http_edge.json", "runs")) {
    RunResult result;
    result.stop = StopOf(row.Text("stop"));
    result.replayed = row.Flag("replay");
    if (row.Has("response")) result.response = ResponseOf(row.Row("response"));
    if (row.Has("verdict")) result.verdict = WordOf(row.Text("verdict"), Verdict::kAbandoned);
    if (row.Has("retry_after_ms")) result.retry_after = Duration{row.Number("retry_after_ms")};
    if (row.Has("refusal")) {
      const VectorRow refusal = row.Row("refusal");
      result.refusal =
          Refusal{.reason = WordOf(refusal.Text("reason"), ErrorReason::kRecordUnreadable),
                  .field = refusal.Text("field")};
    }
    ExpectAnswer(row, row, AnswerRun(result));
  }
}

TEST(NextStepsTest, NamesAndNumbersAreThePublishedOnes) {
  for (const VectorRow& row : ReadRows("next_steps.json", "next_steps")) {
    EXPECT_EQ(Name(static_cast<NextStep>(row.Number("number"))), row.Text("name")) << row;
  }
  for (const VectorRow& row : ReadRows("next_steps.json", "outcomes")) {
    EXPECT_EQ(Name(static_cast<ReserveOutcome>(row.Number("number"))), row.Text("name")) << row;
  }
}

TEST(NextStepsTest, EachHasOneAnswerOverHttp) {
  for (const VectorRow& row : ReadRows("next_steps.json")) {
    const std::optional<HttpAnswer> answer = AnswerReserve(ReserveOf(row));
    EXPECT_EQ(answer.has_value(), row.Has("http")) << row;
    // Exactly those that may start the effect get no answer yet.
    EXPECT_EQ(answer.has_value(), !row.Flag("may_start")) << row;
    if (answer) ExpectAnswer(row, row.Row("http"), *answer);
  }
}

TEST(AnswerReserveErrorTest, IsWhatTheServiceRefusedOrUnavailable) {
  const HttpAnswer lost = AnswerReserveError(absl::UnavailableError("no connection"));
  EXPECT_EQ(lost.status, 503);
  EXPECT_EQ(Header(lost, "Retry-After"), "1");
  const HttpAnswer denied = AnswerReserveError(MakeRefused(
      {.reason = ErrorReason::kAccessDenied}, absl::StatusCode::kPermissionDenied, "no"));
  EXPECT_EQ(denied.status, 403);
  const HttpAnswer busy = AnswerReserveError(
      MakeRefused({.reason = ErrorReason::kOverloaded, .retry_after = Duration{2001}},
                  absl::StatusCode::kResourceExhausted, "busy"));
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(Header(busy, "Retry-After"), "3");
}

CachedResponse Stored(int status) {
  CachedResponse response;
  response.status = CachedResponse::HttpStatus{status};
  return response;
}

RunResult Replay(const CachedResponse& response) {
  RunResult result;
  result.response = response;
  result.verdict = Verdict::kSucceeded;
  result.replayed = true;
  return result;
}

TEST(ReplayTest, IsTheAnswerAsItWas) {
  CachedResponse response = Stored(201);
  response.content_type = "application/json";
  response.metadata = {{"Location", "/orders/1"}, {"X-A", "1"}, {"X-A", "2"}};
  response.body = std::string("{\"a\":\0}", 7);
  const HttpAnswer answer = AnswerRun(Replay(response));
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.body, response.body);
  EXPECT_THAT(answer.headers, ElementsAre(Pair("Content-Type", "application/json"),
                                          Pair("Location", "/orders/1"), Pair("X-A", "1"),
                                          Pair("X-A", "2"), Pair("Idempotency-Replayed", "true")));
}

TEST(ReplayTest, NoBodyIsNotAnEmptyOne) {
  EXPECT_EQ(AnswerRun(Replay(Stored(204))).body, std::nullopt);
  CachedResponse empty = Stored(200);
  empty.body = "";
  EXPECT_EQ(AnswerRun(Replay(empty)).body, "");
}

TEST(ReplayTest, LeavesOutWhatBelongsToTheServerOrBreaksTheMessage) {
  CachedResponse response = Stored(200);
  response.content_type = "text/plain\r\nX-Evil: 1";
  response.metadata = {{"content-length", "5"},
                       {"Transfer-Encoding", "chunked"},
                       {"Connection", "close"},
                       {"Set-Cookie", "a=b"},
                       {"IDEMPOTENCY-REPLAYED", "no"},
                       {"Content-Type", "text/html"},
                       {"X-Break", "a\r\nX-Evil: 1"},
                       {"X-Nul", std::string("a\0b", 3)},
                       {"bad name", "1"},
                       {"", "1"},
                       {"X-Good", "1"}};
  EXPECT_THAT(AnswerRun(Replay(response)).headers,
              ElementsAre(Pair("X-Good", "1"), Pair("Idempotency-Replayed", "true")));
}

TEST(ReplayTest, AStatusThatEndsNothingIsAnError) {
  for (int status : {-1, 0, 100, 199, 600}) {
    EXPECT_EQ(AnswerRun(Replay(Stored(status))).status, 500) << status;
  }
}

TEST(ReplayTest, ABodyThatWasNotKeptIsNoAnswer) {
  CachedResponse response = Stored(200);
  response.body_omitted = true;
  const HttpAnswer answer = AnswerRun(Replay(response));
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(ProblemField(answer, "type"), "tag:idempotencyd.dev,2026:problem/answer-gone");
}

TEST(ReplayTest, AFailureWithoutAStatusIsNoSuccess) {
  RunResult result = Replay(CachedResponse{});
  result.verdict = Verdict::kFailed;
  EXPECT_EQ(AnswerRun(result).status, 409);
  result.response.reset();
  EXPECT_EQ(AnswerRun(result).status, 409);
  result.verdict = Verdict::kAbandoned;
  EXPECT_EQ(ProblemField(AnswerRun(result), "type"), "tag:idempotencyd.dev,2026:problem/closed");
}

TEST(ReplayTest, GrpcCodesBecomeHttpStatuses) {
  const int expected[] = {200, 499, 500, 400, 504, 404, 409, 403, 429,
                          400, 409, 400, 501, 500, 503, 500, 401};
  for (int code = -1; code <= 17; ++code) {
    CachedResponse response;
    response.status = CachedResponse::GrpcCode{code};
    const bool known = code >= 0 && code <= 16;
    EXPECT_EQ(AnswerRun(Replay(response)).status, known ? expected[code] : 500) << code;
  }
}

TEST(ProblemTest, TheTypeIsTheCallersToChoose) {
  const HttpAnswer answer =
      AnswerKeyProblem(KeyProblem::kMissing, {.type_prefix = "https://docs.example/#"});
  EXPECT_EQ(ProblemField(answer, "type"), "https://docs.example/#key-missing");
  EXPECT_EQ(Header(answer, "Cache-Control"), "no-store");
}

TEST(ProblemTest, NamesTheNextStepWhereTheServiceDid) {
  RunResult result;
  result.stop = StopReason::kUnresolved;
  result.next_step = NextStep::kReconcileFirst;
  EXPECT_EQ(ProblemField(AnswerRun(result), "next_step"), "RECONCILE_FIRST");
  result.next_step = NextStep::kUnspecified;
  EXPECT_EQ(ProblemField(AnswerRun(result), "next_step"), "");
}

}  // namespace
}  // namespace idempotency
