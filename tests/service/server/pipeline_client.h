// A client of Pipeline that sends when told and gathers results as they come.
#ifndef IDEMPOTENCY_TESTS_SERVICE_SERVER_PIPELINE_CLIENT_H_
#define IDEMPOTENCY_TESTS_SERVICE_SERVER_PIPELINE_CLIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {

// Thread safety: of the methods none but Received may be called from several threads.
class PipelineClient {
 public:
  explicit PipelineClient(ServiceFixture* service)
      : stream_(service->api()->Pipeline(&context_)), reader_([this] { ReadAll(); }) {}
  ~PipelineClient() {
    context_.TryCancel();
    reader_.join();
  }

  // Sends the commands as one message; a tag for each, which is made where it is zero.
  void Send(std::vector<v1::Command> commands) {
    v1::PipelineRequest request;
    for (v1::Command& command : commands) {
      if (command.tag() == 0) command.set_tag(next_tag_++);
      *request.add_commands() = std::move(command);
    }
    stream_->Write(request);
  }

  // No more is sent; returns when the stream has ended.
  CallResult<v1::PipelineResponse> Close() {
    stream_->WritesDone();
    return AwaitEnd();
  }
  CallResult<v1::PipelineResponse> AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&ended_));
    return ReadResult(status_, context_, v1::PipelineResponse{});
  }
  void Cancel() { context_.TryCancel(); }

  // Returns when so many results are there; all of them by then.
  std::vector<v1::Result> Await(size_t count) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return ended_ || results_.size() >= count;
    };
    mutex_.Await(absl::Condition(&enough));
    return results_;
  }
  std::map<uint64_t, v1::Result> AwaitByTag(size_t count) {
    std::map<uint64_t, v1::Result> by_tag;
    for (v1::Result& result : Await(count)) by_tag[result.tag()] = std::move(result);
    return by_tag;
  }
  size_t messages() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }

 private:
  void ReadAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    v1::PipelineResponse response;
    while (stream_->Read(&response)) {
      absl::MutexLock lock(&mutex_);
      ++messages_;
      for (v1::Result& result : *response.mutable_results()) results_.push_back(std::move(result));
    }
    const grpc::Status status = stream_->Finish();
    absl::MutexLock lock(&mutex_);
    status_ = status;
    ended_ = true;
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>> stream_;
  uint64_t next_tag_ = 1;
  absl::Mutex mutex_;
  std::vector<v1::Result> results_ ABSL_GUARDED_BY(mutex_);
  size_t messages_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread reader_;
};

// Each kind of request as a command.
inline v1::Command Command(v1::ReserveRequest request) {
  v1::Command command;
  *command.mutable_reserve() = std::move(request);
  return command;
}
inline v1::Command Command(v1::RenewRequest request) {
  v1::Command command;
  *command.mutable_renew() = std::move(request);
  return command;
}
inline v1::Command Command(v1::CompleteRequest request) {
  v1::Command command;
  *command.mutable_complete() = std::move(request);
  return command;
}
inline v1::Command Command(v1::ReleaseRequest request) {
  v1::Command command;
  *command.mutable_release() = std::move(request);
  return command;
}
inline v1::Command Command(v1::MarkUnresolvedRequest request) {
  v1::Command command;
  *command.mutable_mark_unresolved() = std::move(request);
  return command;
}
inline v1::Command Command(v1::GetOperationRequest request) {
  v1::Command command;
  *command.mutable_get_operation() = std::move(request);
  return command;
}

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SERVICE_SERVER_PIPELINE_CLIENT_H_
