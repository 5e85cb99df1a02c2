// What only the stream does: gathering, sending again, forgetting.
#include "client/src/pipeline.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/run/fake_service.h"

namespace idempotency::testing {
namespace {

using internal::Pipeline;
using internal::PipelineAnswer;
using internal::Wires;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Le;
using ::testing::SizeIs;
using namespace std::chrono_literals;

const OperationId kId{"payments", "acct", "order-1"};
const CallOptions kPatient{.timeout = 30s};
using Stream = FakeV1Service::Stream;

v1::Command Renewal(uint64_t token, size_t filling = 0) {
  v1::Command command;
  command.mutable_renew()->set_fencing_token(token);
  if (filling > 0) command.mutable_renew()->set_progress(std::string(filling, 'x'));
  return command;
}

class PipelineTest : public ::testing::Test {
 protected:
  ~PipelineTest() override { pipeline_->Close(); }

  // Sends a command, and remembers how it ended under its token.
  uint64_t Send(uint64_t token, size_t filling = 0) {
    const uint64_t tag = pipeline_->NewTag();
    pipeline_->Send(tag, Renewal(token, filling), [this, token](PipelineAnswer answer) {
      absl::MutexLock lock(&mutex_);
      answers_.emplace_back(token, std::move(answer));
    });
    return tag;
  }
  std::vector<std::pair<uint64_t, PipelineAnswer>> Await(size_t answers) {
    const auto arrived = [this, answers]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return answers_.size() >= answers;
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&arrived));
    return answers_;
  }

  // Streams that the service ends one way or another before the ordinary ones.
  void FirstStreams(std::vector<std::function<grpc::Status(Stream*)>> first) {
    server_.service.pipeline = [this, first](grpc::ServerContext*, Stream* stream) {
      const auto number = static_cast<size_t>(server_.service.streams.load());
      if (number <= first.size()) return first[number - 1](stream);
      return AnswerAll(stream);
    };
  }
  grpc::Status AnswerAll(Stream* stream) {
    v1::PipelineRequest request;
    while (stream->Read(&request)) {
      Note(request);
      v1::PipelineResponse response;
      for (const v1::Command& command : request.commands()) {
        *response.add_results() = server_.service.Answer(command);
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
  void Note(const v1::PipelineRequest& request) {
    absl::MutexLock lock(&mutex_);
    messages_.push_back(request);
  }
  void AwaitMessages(size_t count) {
    const auto read = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return messages_.size() >= count;
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&read));
  }
  std::vector<v1::PipelineRequest> messages() {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }

  absl::Mutex mutex_;
  std::vector<std::pair<uint64_t, PipelineAnswer>> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::PipelineRequest> messages_ ABSL_GUARDED_BY(mutex_);
  // What holds up the service; outlives it.
  absl::Notification go_on_;
  FakeServer server_;
  std::shared_ptr<const Wires> wires_ = Wires::Make(ConnectionOptions{.target = server_.target()});
  std::shared_ptr<Pipeline> pipeline_ = std::make_shared<Pipeline>(wires_);
};

std::vector<uint64_t> TokensIn(const std::vector<v1::PipelineRequest>& messages) {
  std::vector<uint64_t> tokens;
  for (const v1::PipelineRequest& message : messages) {
    for (const v1::Command& command : message.commands()) {
      tokens.push_back(command.renew().fencing_token());
    }
  }
  return tokens;
}

TEST_F(PipelineTest, WhatGathersWhileOneMessageIsWrittenGoesIntoTheNext) {
  FirstStreams({});
  constexpr size_t kCommands = 5000;
  for (size_t i = 0; i < kCommands; ++i) Send(i);
  EXPECT_THAT(Await(kCommands), SizeIs(kCommands));
  const std::vector<v1::PipelineRequest> seen = messages();
  EXPECT_LT(seen.size(), kCommands / 2) << "they were not gathered";
  for (const v1::PipelineRequest& message : seen) {
    EXPECT_LE(static_cast<size_t>(message.commands_size()), internal::kMaxPipelineCommands);
  }
  std::vector<uint64_t> all(kCommands);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_THAT(TokensIn(seen), ElementsAreArray(all)) << "in the order in which they were given";
}

TEST_F(PipelineTest, WhatGathersWhileTwoMessagesAreUnansweredGoesIntoTheNext) {
  server_.service.pipeline = [this](grpc::ServerContext*, Stream* stream) {
    // Two messages are all there is to read before the first is answered.
    for (int i = 0; i < 2; ++i) {
      v1::PipelineRequest request;
      stream->Read(&request);
      Note(request);
    }
    go_on_.WaitForNotification();
    for (const v1::PipelineRequest& unanswered : messages()) {
      v1::PipelineResponse response;
      for (const v1::Command& command : unanswered.commands()) {
        *response.add_results() = server_.service.Answer(command);
      }
      stream->Write(response);
    }
    return AnswerAll(stream);
  };
  constexpr size_t kCommands = 50;
  for (size_t i = 0; i < kCommands; ++i) {
    Send(i);
    AwaitMessages(std::min<size_t>(i + 1, 2));
  }
  go_on_.Notify();
  EXPECT_THAT(Await(kCommands), SizeIs(kCommands));
  EXPECT_EQ(messages().size(), 3u) << "all the others share a message";
}

TEST_F(PipelineTest, MessagesStayUnderAMegabyte) {
  FirstStreams({});
  constexpr size_t kFilling = 300 * 1024;
  for (size_t i = 0; i < 20; ++i) Send(i, kFilling);
  Await(20);
  for (const v1::PipelineRequest& message : messages()) {
    EXPECT_LE(message.ByteSizeLong(), internal::kMaxPipelineBytes + 1024);
  }
}

TEST_F(PipelineTest, ResultsFindTheirCommandsInAnyOrder) {
  server_.service.pipeline = [this](grpc::ServerContext*, Stream* stream) {
    v1::PipelineResponse response;
    v1::PipelineRequest request;
    while (response.results_size() < 2 && stream->Read(&request)) {
      for (const v1::Command& command : request.commands()) {
        v1::Result& result = *response.add_results();
        result = server_.service.Answer(command);
        result.mutable_renew()->mutable_lease()->set_fencing_token(command.renew().fencing_token());
      }
    }
    std::reverse(response.mutable_results()->begin(), response.mutable_results()->end());
    response.add_results()->set_tag(999);  // of nobody
    stream->Write(response);
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  };
  for (uint64_t token : {1, 2}) Send(token);
  for (const auto& [token, answer] : Await(2)) {
    EXPECT_EQ(answer.result->renew().lease().fencing_token(), token);
  }
}

// --- A broken stream -----------------------------------------------------------------------------

TEST_F(PipelineTest, WhatWasNotAnsweredIsSentAgainAsItWas) {
  FirstStreams({[this](Stream* stream) {
    v1::PipelineRequest request;
    size_t commands = 0;
    while (commands < 3 && stream->Read(&request)) {
      Note(request);
      commands += static_cast<size_t>(request.commands_size());
    }
    // The second is answered before it breaks.
    v1::PipelineResponse response;
    response.add_results()->set_tag(2);
    stream->Write(response);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "going away");
  }});
  for (uint64_t token : {11, 12, 13}) Send(token, 100);
  const auto answers = Await(3);
  EXPECT_THAT(answers, SizeIs(3));
  for (const auto& [token, answer] : answers) EXPECT_TRUE(answer.result.ok()) << token;
  const std::vector<v1::PipelineRequest> seen = messages();
  EXPECT_THAT(TokensIn(seen), ElementsAre(11, 12, 13, 11, 13));
  EXPECT_EQ(seen.front().commands(0).SerializeAsString(),
            seen.back().commands(0).SerializeAsString())
      << "the same bytes, its tag included";
}

TEST_F(PipelineTest, WhatWasStillToBeWrittenIsWrittenOnce) {
  // It takes nothing: the first messages fill the way there, and the others queue up behind.
  FirstStreams({[this](Stream*) {
    go_on_.WaitForNotification();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "going away");
  }});
  constexpr size_t kCommands = 30;
  for (uint64_t token = 0; token < kCommands; ++token) Send(token, 900 * 1024);
  go_on_.Notify();
  for (const auto& [token, answer] : Await(kCommands)) EXPECT_TRUE(answer.result.ok()) << token;
  std::vector<uint64_t> all(kCommands);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_THAT(TokensIn(messages()), ElementsAreArray(all));
}

TEST_F(PipelineTest, ACommandUnderWhichTwoStreamsBreakFails) {
  const auto breaks = [](Stream* stream) {
    v1::PipelineRequest request;
    stream->Read(&request);
    return grpc::Status(grpc::StatusCode::INTERNAL, "again");
  };
  FirstStreams({breaks, breaks});
  Send(1);
  const auto answers = Await(1);
  EXPECT_EQ(answers[0].second.result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(answers[0].second.stream_refused);
  Send(2);
  EXPECT_TRUE(Await(2)[1].second.result.ok()) << "the next has a stream of its own";
  EXPECT_EQ(server_.service.streams, 3);
}

TEST_F(PipelineTest, AStreamThatTheServiceClosesIsBroken) {
  FirstStreams({[](Stream*) { return grpc::Status::OK; }});
  Send(1);
  EXPECT_TRUE(Await(1)[0].second.result.ok());
}

// A command that comes between the end of a stream and gRPC's last word about it waits for the next
// one: gRPC does not survive a write to a stream that it was told to end.
TEST_F(PipelineTest, NothingIsWrittenToAStreamThatHasEnded) {
  server_.service.pipeline = [this](grpc::ServerContext*, Stream* stream) {
    v1::PipelineRequest request;
    if (!stream->Read(&request)) return grpc::Status::OK;
    v1::PipelineResponse response;
    for (const v1::Command& command : request.commands()) {
      *response.add_results() = server_.service.Answer(command);
    }
    stream->Write(response);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "one message is enough");
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (uint64_t token = 0; token < 300; ++token) {
        absl::Notification answered;
        pipeline_->Send(pipeline_->NewTag(), Renewal(token),
                        [&](const PipelineAnswer&) { answered.Notify(); });
        answered.WaitForNotification();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(server_.service.streams, 100) << "each thread met many ends";
}

TEST_F(PipelineTest, AServiceThatIsNotThereIsUnavailable) {
  server_.Stop();
  Send(1);
  EXPECT_EQ(Await(1)[0].second.result.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(PipelineTest, ARefusedStreamIsSaid) {
  FirstStreams({[](Stream*) { return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no"); }});
  Send(1);
  EXPECT_TRUE(Await(1)[0].second.stream_refused);
}

// --- Forgetting ----------------------------------------------------------------------------------

TEST_F(PipelineTest, AForgottenCommandsAnswerIsDropped) {
  absl::Notification asked;
  server_.service.renew.Answers([&](grpc::ServerContext*, const auto& request, auto*) {
    if (request.fencing_token() == 1) {
      asked.Notify();
      go_on_.WaitForNotification();
    }
    return grpc::Status::OK;
  });
  const uint64_t tag = Send(1);
  asked.WaitForNotification();
  EXPECT_TRUE(pipeline_->Forget(tag, Pipeline::Why::kStopped));
  EXPECT_FALSE(pipeline_->Forget(tag, Pipeline::Why::kStopped));
  go_on_.Notify();
  Send(2);
  const auto answers = Await(1);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].first, 2u);
  EXPECT_EQ(server_.service.streams, 1) << "the stream goes on";
}

TEST_F(PipelineTest, ASilentStreamIsReplaced) {
  // It takes everything and says nothing, until it is cut off.
  absl::BlockingCounter read(2);
  FirstStreams({[&](Stream* stream) {
    v1::PipelineRequest request;
    while (stream->Read(&request)) {
      for (int i = 0; i < request.commands_size(); ++i) read.DecrementCount();
    }
    return grpc::Status::OK;
  }});
  const uint64_t tag = Send(1);
  Send(2);
  read.Wait();
  EXPECT_TRUE(pipeline_->Forget(tag, Pipeline::Why::kTimedOut));
  const auto answers = Await(1);
  EXPECT_EQ(answers[0].first, 2u);
  EXPECT_TRUE(answers[0].second.result.ok()) << answers[0].second.result.status();
  EXPECT_EQ(server_.service.streams, 2);
}

TEST_F(PipelineTest, ClosingFailsWhatIsInFlightAndWhatComes) {
  absl::Notification asked;
  FirstStreams({[&](Stream* stream) {
    v1::PipelineRequest request;
    stream->Read(&request);
    asked.Notify();
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  }});
  Send(1);
  asked.WaitForNotification();
  pipeline_->Close();
  pipeline_->Close();
  Send(2);
  for (const auto& [token, answer] : Await(2)) {
    EXPECT_EQ(answer.result.status().code(), absl::StatusCode::kCancelled) << token;
  }
}

// --- The connection on top -----------------------------------------------------------------------

class BatchingTest : public ::testing::Test {
 protected:
  FakeServer server_;
  std::shared_ptr<Connection> connection_ = server_.Connect(true);
};

TEST_F(BatchingTest, ARefusedStreamFallsBackToSingleCalls) {
  server_.service.pipeline = [](grpc::ServerContext*, Stream*) {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method");
  };
  EXPECT_TRUE(connection_->Complete({.id = kId}, kPatient).ok());
  EXPECT_EQ(server_.service.single_calls, 1);
  absl::Notification called;
  connection_->AsyncRenew({.id = kId}, kPatient, [&](const absl::StatusOr<RenewResponse>& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    called.Notify();
  });
  called.WaitForNotification();
}

TEST_F(BatchingTest, OnlyAWaitIsACallOfItsOwn) {
  v1::ReserveResponse acquired;
  acquired.set_outcome(v1::RESERVE_OUTCOME_ACQUIRED);
  server_.service.reserve.Answers(acquired);
  ASSERT_TRUE(connection_->Reserve({.id = kId, .wait_duration = 20s}, kPatient).ok());
  EXPECT_EQ(server_.service.single_calls, 0) << "there was nothing to wait for";

  v1::ReserveResponse in_progress;
  in_progress.set_outcome(v1::RESERVE_OUTCOME_IN_PROGRESS);
  server_.service.reserve.Answers(in_progress);
  ASSERT_TRUE(connection_->Reserve({.id = kId, .wait_duration = 20s}, kPatient).ok());
  EXPECT_EQ(server_.service.single_calls, 1);
  const auto asked = server_.service.reserve.asked();
  ASSERT_THAT(asked, SizeIs(3));
  EXPECT_FALSE(asked[1].has_wait_duration());
  EXPECT_EQ(asked[2].wait_duration().seconds(), 20);
  EXPECT_EQ(asked[1].attempt_id(), asked[2].attempt_id());

  ASSERT_TRUE(connection_->GetOperation({.id = kId, .wait_duration = 20s}, kPatient).ok());
  EXPECT_EQ(server_.service.single_calls, 2);
}

TEST_F(BatchingTest, VeryLargeCommandsAreCallsOfTheirOwn) {
  const RenewRequest request{.id = kId, .progress = std::string(internal::kMaxPipelineBytes, 'x')};
  ASSERT_TRUE(connection_->Renew(request, kPatient).ok());
  EXPECT_EQ(server_.service.single_calls, 1);
  EXPECT_EQ(server_.service.streams, 0);
}

TEST_F(BatchingTest, ErrorsOfCommandsAreRefusals) {
  server_.service.pipeline = [](grpc::ServerContext*, Stream* stream) {
    v1::PipelineRequest request;
    while (stream->Read(&request)) {
      v1::PipelineResponse response;
      for (const v1::Command& command : request.commands()) {
        v1::Result& result = *response.add_results();
        result.set_tag(command.tag());
        result.mutable_error()->set_code(8);
        result.mutable_error()->set_reason(v1::ERROR_REASON_OVERLOADED);
        result.mutable_error()->mutable_retry_after()->set_seconds(1);
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  const absl::Status status = connection_->Release({.id = kId}, kPatient).status();
  EXPECT_EQ(Refused(status),
            (Refusal{.reason = ErrorReason::kOverloaded, .retry_after = Duration(1s)}));
}

TEST_F(BatchingTest, AnAnswerOfAnotherKindIsAnError) {
  server_.service.pipeline = [](grpc::ServerContext*, Stream* stream) {
    v1::PipelineRequest request;
    stream->Read(&request);
    v1::PipelineResponse response;
    response.add_results()->set_tag(request.commands(0).tag());
    response.mutable_results(0)->mutable_release();
    stream->Write(response);
    stream->Read(&request);
    return grpc::Status::OK;
  };
  EXPECT_EQ(connection_->Renew({.id = kId}, kPatient).status().code(), absl::StatusCode::kInternal);
}

TEST_F(BatchingTest, ManyThreadsShareOneStream) {
  constexpr int kThreads = 16;
  constexpr int kCalls = 100;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < kCalls; ++call) {
        EXPECT_TRUE(connection_->Renew({.id = kId}, kPatient).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_.service.streams, 1);
  EXPECT_THAT(server_.service.renew.asked(), SizeIs(kThreads * kCalls));
}

}  // namespace
}  // namespace idempotency::testing
