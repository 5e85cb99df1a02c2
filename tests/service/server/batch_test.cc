// Batch: the meaning of the unary methods, many at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "keystore/core/limits.h"
#include "service/activity.h"
#include "service/front/batch_call.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/response.h"
#include "tests/service/server/commands.h"
#include "tests/service/server/pipeline_client.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono::seconds;

// What a command comes to when it is sent by itself.
v1::Result Unary(ServiceFixture* service, const v1::Command& command) {
  v1::Result result;
  const auto fill = [&](const auto& call, auto* out) {
    *out = call.response;
    if (call.status.ok()) return;
    v1::Error* error = result.mutable_error();
    error->set_code(call.status.error_code());
    error->set_message(call.status.error_message());
    v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
    EXPECT_TRUE(v1::ErrorReason_Parse("ERROR_REASON_" + call.reason, &reason));
    error->set_reason(reason);
    const auto bad_request = call.template Find<google::rpc::BadRequest>();
    if (bad_request.field_violations_size() > 0) {
      error->set_field(bad_request.field_violations(0).field());
    }
    const auto retry = call.template Find<google::rpc::RetryInfo>();
    if (retry.has_retry_delay()) *error->mutable_retry_after() = retry.retry_delay();
  };
  switch (command.command_case()) {
    case v1::Command::kReserve:
      fill(service->Call(&Api::Reserve, command.reserve()), result.mutable_reserve());
      break;
    case v1::Command::kRenew:
      fill(service->Call(&Api::Renew, command.renew()), result.mutable_renew());
      break;
    case v1::Command::kComplete:
      fill(service->Call(&Api::Complete, command.complete()), result.mutable_complete());
      break;
    case v1::Command::kRelease:
      fill(service->Call(&Api::Release, command.release()), result.mutable_release());
      break;
    case v1::Command::kMarkUnresolved:
      fill(service->Call(&Api::MarkUnresolved, command.mark_unresolved()),
           result.mutable_mark_unresolved());
      break;
    case v1::Command::kGetOperation:
      fill(service->Call(&Api::GetOperation, command.get_operation()),
           result.mutable_get_operation());
      break;
    case v1::Command::COMMAND_NOT_SET:
      break;
  }
  return result;
}

// The fencing tokens of a story, in the order in which they were given.
using Tokens = std::vector<uint64_t>;
using Commands = std::vector<v1::Command>;

// Stories of several keys, with repeats and with everything that can be wrong in them. In parts: a
// token can be used when it has been told, which no two engines give alike.
const std::function<Commands(const Tokens&)> kStory[] = {
    [](const Tokens&) {
      return Commands{
          Command(Reserve("a")),
          Command(Reserve("a")),
          Command(Reserve("b")),
          Command(Reserve("a", "2")),
      };
    },
    [](const Tokens& tokens) {
      return Commands{
          Command(Renew("a", tokens.at(0))),
          Command(Complete("a", tokens.at(0), "the answer")),
          Command(Complete("a", tokens.at(0), "the answer")),
          Command(Complete("a", tokens.at(0), "another")),
          Command(Reserve("a", "2")),
          Command(Get("a")),
          Command(Mark("b", tokens.at(1))),
          Command(Release("b", tokens.at(1))),
          Command(Get("b")),
          Command(Reserve("c")),
      };
    },
    [](const Tokens& tokens) {
      return Commands{
          Command(Release("c", tokens.at(2))),
          Command(Reserve("c")),
          Command(Reserve("c", "2")),
          Command(Renew("c", tokens.at(2))),
          Command(Renew("c", core::kMaxFencingToken)),
          Command(Renew("c", 0)),
          Command(v1::RenewRequest{}),
          Command(Get("nothing")),
          Command(Reserve("")),
          Command(Reserve("alice@example.com")),
      };
    },
};

// What the results say, with each token told as its place in the story.
std::vector<std::string> Texts(const std::vector<v1::Result>& results, const Tokens& tokens) {
  std::vector<std::pair<std::string, std::string>> places;
  for (size_t i = 0; i < tokens.size(); ++i) {
    places.emplace_back(std::to_string(tokens[i]), std::to_string(i + 1));
  }
  std::vector<std::string> texts;
  for (v1::Result result : results) {
    result.clear_tag();
    texts.push_back(absl::StrReplaceAll(result.DebugString(), places));
  }
  return texts;
}

// Sends the story part by part; `send` gives the results of one in the order of its commands.
std::vector<std::string> TellStory(const std::function<std::vector<v1::Result>(Commands)>& send) {
  Tokens tokens;
  std::vector<v1::Result> results;
  for (const auto& part : kStory) {
    for (v1::Result& result : send(part(tokens))) {
      const uint64_t token = result.reserve().lease().fencing_token();
      const bool known = std::find(tokens.begin(), tokens.end(), token) != tokens.end();
      if (token != 0 && !known) tokens.push_back(token);
      results.push_back(std::move(result));
    }
  }
  EXPECT_EQ(tokens.size(), 4u);
  return Texts(results, tokens);
}

std::vector<std::string> UnaryTexts() {
  ServiceFixture service;
  return TellStory([&](const Commands& commands) {
    std::vector<v1::Result> results;
    for (const v1::Command& command : commands) results.push_back(Unary(&service, command));
    return results;
  });
}

TEST(BatchTest, MeansWhatTheUnaryMethodsMean) {
  ServiceFixture service;
  const auto send = [&](Commands commands) {
    v1::BatchRequest request;
    for (v1::Command& command : commands) *request.add_commands() = std::move(command);
    const auto batch = service.Call(&Api::Batch, request);
    EXPECT_TRUE(batch.status.ok()) << batch.status.error_message();
    return std::vector<v1::Result>(batch.response.results().begin(),
                                   batch.response.results().end());
  };
  EXPECT_EQ(TellStory(send), UnaryTexts());
}

TEST(BatchTest, APipelineMeansTheSame) {
  ServiceFixture service;
  PipelineClient client(&service);
  size_t sent = 0;
  const auto send = [&](const Commands& commands) {
    for (const v1::Command& command : commands) client.Send({command});
    const size_t before = std::exchange(sent, sent + commands.size());
    std::vector<v1::Result> results;
    for (auto& [tag, result] : client.AwaitByTag(sent)) {
      if (tag > before) results.push_back(std::move(result));
    }
    return results;
  };
  EXPECT_EQ(TellStory(send), UnaryTexts());
  EXPECT_TRUE(client.Close().status.ok());
}

TEST(BatchTest, MayBeEmpty) {
  ServiceFixture service;
  const auto batch = service.Call(&Api::Batch, v1::BatchRequest{});
  EXPECT_TRUE(batch.status.ok());
  EXPECT_EQ(batch.response.results_size(), 0);
}

TEST(BatchTest, TakesAThousandAndTwentyFourCommands) {
  ServiceFixture service;
  v1::BatchRequest request;
  for (int i = 0; i < 1024; ++i) {
    *request.add_commands() = Command(Reserve("k" + std::to_string(i)));
    request.mutable_commands(i)->set_tag(static_cast<uint64_t>(i) * 10);
  }
  const auto batch = service.Call(&Api::Batch, request);
  ASSERT_TRUE(batch.status.ok()) << batch.status.error_message();
  ASSERT_EQ(batch.response.results_size(), 1024);
  for (int i = 0; i < 1024; ++i) {
    const v1::Result& result = batch.response.results(i);
    EXPECT_EQ(result.tag(), static_cast<uint64_t>(i) * 10);
    EXPECT_EQ(result.reserve().operation().id().key(), "k" + std::to_string(i));
    EXPECT_EQ(result.reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  }
  *request.add_commands() = Command(Reserve("one too many"));
  const auto refused = service.Call(&Api::Batch, request);
  EXPECT_EQ(refused.reason, "INVALID_FIELD");
  EXPECT_EQ(refused.Find<google::rpc::BadRequest>().field_violations(0).field(), "commands");
}

TEST(BatchTest, RefusesACommandThatWaitsAlone) {
  ServiceFixture service;
  v1::BatchRequest request;
  *request.add_commands() = Command(Reserve("a"));
  *request.add_commands() = Command(WaitingReserve("b", "1", seconds(1)));
  v1::GetOperationRequest get = Get("a");
  get.mutable_wait_duration()->set_seconds(1);
  *request.add_commands() = Command(get);
  request.add_commands();
  const auto batch = service.Call(&Api::Batch, request);
  ASSERT_TRUE(batch.status.ok()) << batch.status.error_message();
  EXPECT_EQ(batch.response.results(0).reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(batch.response.results(1).error().reason(), v1::ERROR_REASON_INVALID_FIELD);
  EXPECT_EQ(batch.response.results(1).error().field(), "wait_duration");
  EXPECT_EQ(batch.response.results(2).error().field(), "wait_duration");
  EXPECT_EQ(batch.response.results(3).error().reason(), v1::ERROR_REASON_INVALID_FIELD);
  // Nothing of the refused ones has happened.
  EXPECT_EQ(service.Call(&Api::GetOperation, Get("b")).reason, "OPERATION_NOT_FOUND");
}

TEST(BatchTest, AnswersThatDoNotFitAreToBeAskedForSingly) {
  ServiceFixture service;
  const std::string body(size_t{1024} * 1024, 'b');
  v1::BatchRequest request;
  for (int i = 0; i < 6; ++i) {
    const std::string key = "k" + std::to_string(i);
    const auto acquired = service.Call(&Api::Reserve, Reserve(key));
    service.Call(&Api::Complete, Complete(key, acquired.response.lease().fencing_token(), body));
    *request.add_commands() = Command(Reserve(key, "2"));
  }
  *request.add_commands() = Command(Reserve("new"));
  const auto batch = service.Call(&Api::Batch, request);
  ASSERT_TRUE(batch.status.ok()) << batch.status.error_message();
  EXPECT_LE(batch.response.ByteSizeLong(), size_t{4} * 1024 * 1024);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.response.results(i).reserve().operation().response().body().size(),
              body.size());
  }
  for (int i = 3; i < 6; ++i) {
    EXPECT_EQ(batch.response.results(i).error().reason(), v1::ERROR_REASON_OVERLOADED);
    EXPECT_EQ(batch.response.results(i).error().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  // What has changed something is told whatever else there is to tell.
  EXPECT_EQ(batch.response.results(6).reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
}

// What a batch of this many reads of one operation holds at most while it is answered.
size_t PeakOfReads(const keystore::Reply& reply, service::Verb verb, int count) {
  service::Log log({service::LogLevel::kError});
  service::CountingMetrics metrics;
  service::Activity activity(&log, &metrics, nullptr);
  const service::FrontDesk desk(nullptr, nullptr, nullptr, nullptr, &activity);
  const service::Ticket ticket{verb, core::Key{"payments", "acct-1", "k"},
                               std::make_shared<core::Policy>(), std::nullopt};
  v1::BatchResponse response;
  std::atomic<size_t> kept_bytes{0};
  size_t held = 0;
  size_t peak = 0;
  for (int i = 0; i < count; ++i) {
    v1::Result* const result = response.add_results();
    service::AnswerWithin(core::kMaxSendMessageBytes, desk, reply, ticket, &kept_bytes, result);
    held += result->ByteSizeLong();
    peak = std::max(peak, held);
    EXPECT_EQ(result->has_error(), i > 0) << i;
  }
  return peak;
}

TEST(BatchTest, AThousandReadsOfOneLargeResponseDoNotFillTheMemory) {
  v1::CachedResponse reported;
  reported.set_body(std::string(core::kMaxResponseBytes, 'b'));
  const auto record = std::make_shared<core::Record>();
  record->state = core::State::kComplete;
  record->verdict = core::Verdict::kSucceeded;
  record->response = service::StoreResponse(reported, core::kMaxResponseBytes);
  // Room for one of them and for a thousand errors, and no more for another.
  constexpr size_t kMost = core::kMaxResponseBytes + size_t{1024} * 512;
  keystore::Reply reply;
  reply.answer = core::GetAnswer{record, core::NextStep::kUseResponse, std::nullopt, true};
  EXPECT_LE(PeakOfReads(reply, service::Verb::kGet, 1024), kMost);
  reply.answer = core::ReserveAnswer{core::ReserveOutcome::kCompleted,
                                     core::NextStep::kUseResponse,
                                     std::nullopt,
                                     record,
                                     true,
                                     std::nullopt};
  EXPECT_LE(PeakOfReads(reply, service::Verb::kReserve, 1024), kMost);
}

TEST(BatchTest, WhatHasChangedSomethingIsKeptWhereNoReadFits) {
  const auto record = std::make_shared<core::Record>();
  keystore::Reply reply;
  reply.answer = core::ReserveAnswer{core::ReserveOutcome::kAcquired,
                                     core::NextStep::kProceed,
                                     core::Lease{},
                                     record,
                                     true,
                                     std::nullopt};
  service::Log log({service::LogLevel::kError});
  service::CountingMetrics metrics;
  service::Activity activity(&log, &metrics, nullptr);
  const service::FrontDesk desk(nullptr, nullptr, nullptr, nullptr, &activity);
  const service::Ticket ticket{service::Verb::kReserve, core::Key{"payments", "acct-1", "k"},
                               std::make_shared<core::Policy>(), std::nullopt};
  std::atomic<size_t> kept_bytes{1000};
  v1::Result changed;
  service::AnswerWithin(1000, desk, reply, ticket, &kept_bytes, &changed);
  EXPECT_EQ(changed.reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  std::get<core::ReserveAnswer>(reply.answer).outcome = core::ReserveOutcome::kInProgress;
  const size_t kept = kept_bytes;
  v1::Result read;
  service::AnswerWithin(1000, desk, reply, ticket, &kept_bytes, &read);
  EXPECT_EQ(read.error().reason(), v1::ERROR_REASON_OVERLOADED);
  EXPECT_EQ(kept_bytes, kept);
}

TEST(FitResultsTest, KeepsChangesBeforeReads) {
  v1::BatchResponse response;
  for (int i = 0; i < 4; ++i) {
    v1::Result* result = response.add_results();
    result->set_tag(static_cast<uint64_t>(i));
    v1::ReserveResponse* reserve = result->mutable_reserve();
    const bool changed = i % 2 == 1;
    reserve->set_outcome(changed ? v1::RESERVE_OUTCOME_ACQUIRED : v1::RESERVE_OUTCOME_COMPLETED);
    reserve->set_detail(std::string(3000, 'x'));
  }
  v1::BatchResponse all = response;
  service::FitResults(all.ByteSizeLong(), &all);
  EXPECT_EQ(all.SerializeAsString(), response.SerializeAsString());
  service::FitResults(8000, &response);
  EXPECT_LE(response.ByteSizeLong(), 8000u);
  EXPECT_TRUE(response.results(0).has_error());
  EXPECT_TRUE(response.results(1).has_reserve());
  EXPECT_TRUE(response.results(2).has_error());
  EXPECT_TRUE(response.results(3).has_reserve());
  EXPECT_EQ(response.results(2).tag(), 2u);
}

}  // namespace
}  // namespace idempotency::testing
