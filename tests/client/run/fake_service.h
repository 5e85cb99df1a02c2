// A service on loopback that answers what the test says, by single calls and on the Pipeline
// stream alike.
#ifndef IDEMPOTENCY_TESTS_CLIENT_RUN_FAKE_SERVICE_H_
#define IDEMPOTENCY_TESTS_CLIENT_RUN_FAKE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "idempotency/connection.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::testing {

// A refusal as the service makes it; fields and times may be empty.
grpc::Status RefuseCall(grpc::ServerContext* context, grpc::StatusCode code,
                        const std::string& reason, const std::string& field = "",
                        std::chrono::milliseconds retry_after = std::chrono::milliseconds(0));

// What one method was asked, and what it answers. `context` is null for a command of a stream.
template <typename Request, typename Response>
class Method {
 public:
  using Answer = std::function<grpc::Status(grpc::ServerContext*, const Request&, Response*)>;

  void Answers(Answer answer) {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(answer);
  }
  void Answers(Response response) {
    Answers([response = std::move(response)](grpc::ServerContext*, const Request&, Response* out) {
      *out = response;
      return grpc::Status::OK;
    });
  }
  std::vector<Request> asked() const {
    absl::MutexLock lock(&mutex_);
    return asked_;
  }

  grpc::Status Run(grpc::ServerContext* context, const Request& request, Response* response) {
    Answer answer;
    {
      absl::MutexLock lock(&mutex_);
      asked_.push_back(request);
      answer = answer_;
    }
    return answer ? answer(context, request, response) : grpc::Status::OK;
  }

 private:
  mutable absl::Mutex mutex_;
  Answer answer_ ABSL_GUARDED_BY(mutex_);
  std::vector<Request> asked_ ABSL_GUARDED_BY(mutex_);
};

#define IDEMPOTENCY_FAKE_METHOD(name, member)                                       \
  Method<v1::name##Request, v1::name##Response> member;                             \
  grpc::Status name(grpc::ServerContext* context, const v1::name##Request* request, \
                    v1::name##Response* response) override {                        \
    ++single_calls;                                                                 \
    see(context);                                                                   \
    return member.Run(context, *request, response);                                 \
  }

class FakeV1Service : public v1::IdempotencyService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::PipelineResponse, v1::PipelineRequest>;

  IDEMPOTENCY_FAKE_METHOD(Reserve, reserve)
  IDEMPOTENCY_FAKE_METHOD(Renew, renew)
  IDEMPOTENCY_FAKE_METHOD(Complete, complete)
  IDEMPOTENCY_FAKE_METHOD(Release, release)
  IDEMPOTENCY_FAKE_METHOD(MarkUnresolved, mark)
  IDEMPOTENCY_FAKE_METHOD(GetOperation, get)

  grpc::Status Pipeline(grpc::ServerContext* context, Stream* stream) override;
  // Answers one command by the methods above.
  v1::Result Answer(const v1::Command& command);

  // Instead of answering every message of a stream by Answer; set before the first stream.
  std::function<grpc::Status(grpc::ServerContext*, Stream*)> pipeline;
  // Called with the context of every call; set before the first.
  std::function<void(grpc::ServerContext*)> see = [](grpc::ServerContext*) {};
  std::atomic<int> single_calls{0};
  std::atomic<int> streams{0};
};

class FakeAdminService : public v1::IdempotencyAdminService::Service {
 public:
  Method<v1::ResolveOperationRequest, v1::ResolveOperationResponse> resolve;
  grpc::Status ResolveOperation(grpc::ServerContext* context,
                                const v1::ResolveOperationRequest* request,
                                v1::ResolveOperationResponse* response) override {
    return resolve.Run(context, *request, response);
  }
  Method<v1::ListOperationsRequest, v1::ListOperationsResponse> list;
  grpc::Status ListOperations(grpc::ServerContext* context,
                              const v1::ListOperationsRequest* request,
                              v1::ListOperationsResponse* response) override {
    return list.Run(context, *request, response);
  }
};

#undef IDEMPOTENCY_FAKE_METHOD

class FakeServer {
 public:
  // On loopback without credentials, unless others are given.
  explicit FakeServer(
      std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials());
  ~FakeServer();

  // Whatever is in flight is cut off.
  void Stop();

  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }
  std::shared_ptr<Connection> Connect(bool batching) const;

  FakeV1Service service;
  FakeAdminService admin;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_RUN_FAKE_SERVICE_H_
