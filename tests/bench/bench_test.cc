// The bench measures what it says: histogram, keys, and messages written and read without
// protobuf, held against protobuf; and a wrong answer is never taken for a right one.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "idempotency/v1/idempotency_service.pb.h"
#include "tests/bench/histogram.h"
#include "tests/bench/identity.h"
#include "tests/bench/options.h"
#include "tests/bench/plan.h"
#include "tests/bench/wire.h"

namespace idempotency::bench {
namespace {

constexpr uint64_t kSeed = 7;
constexpr uint64_t kScopes = 10;
constexpr uint64_t kToken = 300;  // more than one byte on the wire

Identity Someone(uint64_t index = 3) {
  return MakeIdentity(kSeed, index, kScopes, 0, kEchoAcquired);
}
std::string KeyOf(const Identity& id) { return {id.key, kKeyBytes}; }

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (int64_t value = 0; value < 100; ++value) histogram.Record(value);
  EXPECT_EQ(histogram.Percentile(50), 49);
  EXPECT_EQ(histogram.Percentile(99), 98);
  EXPECT_EQ(histogram.Percentile(100), 99);
  EXPECT_EQ(histogram.mean(), 49.5);
}

TEST(Histogram, EveryValueIsKeptWithinItsHundredth) {
  for (int64_t value = 1; value < int64_t{1} << 61; value += value / 3 + 1) {
    Histogram histogram;
    histogram.Record(value);
    histogram.Record(INT64_MAX);
    const int64_t kept = histogram.Percentile(50);
    EXPECT_GE(kept, value);
    EXPECT_LE(kept - value, value / 100) << value;
  }
}

TEST(Histogram, NothingIsAboveTheHighest) {
  Histogram histogram;
  histogram.Record(1'000'001);
  EXPECT_EQ(histogram.Percentile(99.99), 1'000'001);
  EXPECT_EQ(histogram.max(), 1'000'001);
}

TEST(Histogram, MergedIsAsIfRecordedInOne) {
  Histogram one;
  Histogram other;
  for (int i = 0; i < 99; ++i) one.Record(10);
  other.Record(5000);
  one.Merge(other);
  EXPECT_EQ(one.count(), 100u);
  EXPECT_EQ(one.Percentile(99), 10);
  EXPECT_EQ(one.Percentile(99.5), 5000);
}

TEST(Histogram, EmptyAndNegative) {
  Histogram histogram;
  EXPECT_EQ(histogram.Percentile(99), 0);
  histogram.Record(-5);
  EXPECT_EQ(histogram.Percentile(99), 0);
  EXPECT_EQ(histogram.count(), 1u);
}

TEST(Identity, KeysAreDifferentAndTheSameAgain) {
  std::set<std::string> keys;
  for (uint64_t i = 0; i < 10'000; ++i) keys.insert(KeyOf(Someone(i)));
  EXPECT_EQ(keys.size(), 10'000u);
  EXPECT_EQ(KeyOf(Someone(5)), KeyOf(Someone(5)));
}

TEST(Identity, AttemptsOfOneKeyDifferOnlyInTheirId) {
  const Identity one = MakeIdentity(kSeed, 1, kScopes, 0, kEchoAcquired);
  const Identity other = MakeIdentity(kSeed, 1, kScopes, 1, kEchoAcquired);
  EXPECT_EQ(KeyOf(one), KeyOf(other));
  EXPECT_EQ(std::string(one.digest, kDigestBytes), std::string(other.digest, kDigestBytes));
  EXPECT_NE(std::string(one.attempt, kAttemptBytes), std::string(other.attempt, kAttemptBytes));
}

TEST(Identity, BodiesAreOfTheSizeAskedFor) {
  for (const size_t bytes : {size_t{80}, size_t{100}, size_t{5000}}) {
    EXPECT_EQ(MakeBody(1, bytes).size(), bytes);
    EXPECT_NE(MakeBody(1, bytes), MakeBody(2, bytes));
  }
}

// --- Requests, as protobuf reads them -----------------------------------------------------

TEST(Wire, ReserveIsWhatProtobufReads) {
  const Identity id = Someone();
  RequestShape shape;
  shape.wait_seconds = 5;
  std::string bytes;
  RequestWriter(shape).Append(Verb::kReserve, id, 0, &bytes);
  v1::ReserveRequest request;
  ASSERT_TRUE(request.ParseFromString(bytes));
  EXPECT_EQ(request.id().namespace_(), "bench");
  EXPECT_EQ(request.id().scope(), std::string(id.scope, kScopeBytes));
  EXPECT_EQ(request.id().key(), KeyOf(id));
  EXPECT_EQ(request.fingerprint().digest(), std::string(id.digest, kDigestBytes));
  EXPECT_EQ(request.attempt_id(), std::string(id.attempt, kAttemptBytes));
  EXPECT_EQ(request.wait_duration().seconds(), 5);
  EXPECT_EQ(request.lease_duration().seconds(), shape.lease_seconds);
}

TEST(Wire, CommandsAreWhatProtobufReads) {
  const Identity id = Someone();
  const RequestWriter writer({});
  std::string bytes;
  writer.AppendCommand(1, Verb::kReserve, id, 0, &bytes);
  writer.AppendCommand(200, Verb::kComplete, id, kToken, &bytes);
  writer.AppendCommand(3, Verb::kGet, id, 0, &bytes);
  v1::PipelineRequest request;
  ASSERT_TRUE(request.ParseFromString(bytes));
  ASSERT_EQ(request.commands_size(), 3);
  EXPECT_EQ(request.commands(0).reserve().id().key(), KeyOf(id));
  EXPECT_EQ(request.commands(1).tag(), 200u);
  const v1::CompleteRequest& complete = request.commands(1).complete();
  EXPECT_EQ(complete.id().key(), KeyOf(id));
  EXPECT_EQ(complete.fencing_token(), kToken);
  EXPECT_EQ(complete.verdict(), v1::VERDICT_SUCCEEDED);
  EXPECT_EQ(complete.response().body(), MakeBody(id.hash, 100));
  EXPECT_EQ(request.commands(2).get_operation().id().key(), KeyOf(id));
}

TEST(Wire, SizesAreThoseOfTheMessages) {
  const RequestWriter writer({});
  for (const Verb verb : {Verb::kReserve, Verb::kComplete, Verb::kGet}) {
    std::string bytes;
    writer.Append(verb, Someone(), kToken, &bytes);
    EXPECT_EQ(writer.Size(verb, kToken), bytes.size()) << NameOf(verb);
  }
}

// --- Answers, as protobuf writes them -----------------------------------------------------

v1::ReserveResponse Acquired(const Identity& id) {
  v1::ReserveResponse response;
  response.set_outcome(v1::RESERVE_OUTCOME_ACQUIRED);
  response.mutable_lease()->set_fencing_token(kToken);
  response.mutable_operation()->mutable_id()->set_key(KeyOf(id));
  response.mutable_operation()->set_state(v1::OPERATION_STATE_PENDING);
  response.mutable_server_time()->set_nanos(5);
  response.set_detail("words");
  return response;
}

TEST(Wire, ReserveResponseIsRead) {
  const Identity id = Someone();
  v1::ReserveResponse response = Acquired(id);
  response.mutable_operation()->mutable_response()->set_body("body");
  const std::string bytes = response.SerializeAsString();
  Answer answer;
  ASSERT_TRUE(ScanResponse(Verb::kReserve, bytes, &answer));
  EXPECT_EQ(answer.outcome, v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(answer.token, kToken);
  EXPECT_EQ(answer.state, v1::OPERATION_STATE_PENDING);
  EXPECT_EQ(answer.key, KeyOf(id));
  EXPECT_EQ(answer.body, "body");
}

TEST(Wire, ResultsAreReadOneByOne) {
  const Identity id = Someone();
  v1::PipelineResponse response;
  v1::Result* result = response.add_results();
  result->set_tag(8);
  *result->mutable_reserve() = Acquired(id);
  result = response.add_results();
  result->set_tag(1000);
  result->mutable_error()->set_reason(v1::ERROR_REASON_OVERLOADED);
  result->mutable_error()->set_message("later");
  const std::string bytes = response.SerializeAsString();
  ResultReader results(bytes);
  Answer answer;
  ASSERT_TRUE(results.Next(&answer));
  EXPECT_EQ(answer.tag, 8u);
  EXPECT_EQ(answer.verb, Verb::kReserve);
  EXPECT_EQ(answer.key, KeyOf(id));
  ASSERT_TRUE(results.Next(&answer));
  EXPECT_EQ(answer.tag, 1000u);
  EXPECT_TRUE(answer.is_error);
  EXPECT_EQ(answer.reason, v1::ERROR_REASON_OVERLOADED);
  EXPECT_EQ(answer.message, "later");
  EXPECT_FALSE(results.Next(&answer));
  EXPECT_FALSE(results.failed());
}

TEST(Wire, CutMessagesAreNotRead) {
  v1::PipelineResponse response;
  *response.add_results()->mutable_reserve() = Acquired(Someone());
  const std::string bytes = response.SerializeAsString();
  for (size_t size = 1; size < bytes.size(); ++size) {
    ResultReader results(std::string_view(bytes).substr(0, size));
    Answer answer;
    EXPECT_FALSE(results.Next(&answer)) << size;
    EXPECT_TRUE(results.failed()) << size;
  }
}

// --- What counts as right -----------------------------------------------------------------

struct Row {
  const char* name;
  Mix mix;
  v1::ReserveOutcome outcome;
  uint64_t token;
  bool body;
  bool right;
};

constexpr Row kRows[] = {
    {"fresh", Mix::kReserve, v1::RESERVE_OUTCOME_ACQUIRED, 1, false, true},
    {"fresh without a token", Mix::kReserve, v1::RESERVE_OUTCOME_ACQUIRED, 0, false, false},
    {"fresh, but held", Mix::kReserve, v1::RESERVE_OUTCOME_ALREADY_HELD, 1, false, false},
    {"life cycle", Mix::kLifecycle, v1::RESERVE_OUTCOME_ACQUIRED, 1, false, true},
    {"life cycle, but ended", Mix::kLifecycle, v1::RESERVE_OUTCOME_COMPLETED, 0, true, false},
    {"replay", Mix::kReplay, v1::RESERVE_OUTCOME_COMPLETED, 0, true, true},
    {"replay without its body", Mix::kReplay, v1::RESERVE_OUTCOME_COMPLETED, 0, false, false},
    {"replay, but acquired", Mix::kReplay, v1::RESERVE_OUTCOME_ACQUIRED, 1, false, false},
    {"in progress", Mix::kInProgress, v1::RESERVE_OUTCOME_IN_PROGRESS, 0, false, true},
    {"in progress, but acquired", Mix::kInProgress, v1::RESERVE_OUTCOME_ACQUIRED, 1, false, false},
    {"hot, first", Mix::kHot, v1::RESERVE_OUTCOME_ACQUIRED, 1, false, true},
    {"hot, waited", Mix::kHot, v1::RESERVE_OUTCOME_COMPLETED, 0, true, true},
    {"hot, waited in vain", Mix::kHot, v1::RESERVE_OUTCOME_IN_PROGRESS, 0, false, false},
};

TEST(Caller, KnowsRightAnswersFromWrongOnes) {
  for (const Row& row : kRows) {
    Options options;
    options.mix = row.mix;
    options.seed = kSeed;
    Plan plan(options);
    Caller caller(&plan, 0);
    ASSERT_TRUE(caller.Begin());
    const std::string key = KeyOf(caller.id());
    const std::string body = row.body ? caller.Body() : "";
    Answer answer;
    answer.key = key;
    answer.outcome = row.outcome;
    answer.token = row.token;
    answer.body = body;
    caller.OnAnswer(answer);
    EXPECT_EQ(plan.faults().count(), row.right ? 0u : 1u) << row.name;
  }
}

TEST(Caller, AnAnswerForAnotherKeyIsWrong) {
  Plan plan(Options{});
  Caller caller(&plan, 0);
  ASSERT_TRUE(caller.Begin());
  const std::string key = KeyOf(Someone(99));
  Answer answer;
  answer.key = key;
  answer.outcome = v1::RESERVE_OUTCOME_ACQUIRED;
  answer.token = 1;
  EXPECT_TRUE(caller.OnAnswer(answer));
  EXPECT_EQ(plan.faults().count(), 1u);
}

TEST(Plan, GivesOutExactlyAsManyOperations) {
  Options options;
  options.operations = 5;
  Plan plan(options);
  std::vector<Caller> callers(3, Caller(&plan, 0));
  int begun = 0;
  for (int i = 0; i < 12; ++i) begun += callers[static_cast<size_t>(i) % 3].Begin() ? 1 : 0;
  EXPECT_EQ(begun, 5);
}

}  // namespace
}  // namespace idempotency::bench
