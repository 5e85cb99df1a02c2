// idempotency_echo: the fastest service of the same shape that does nothing, as the ceiling for
// what idempotencyd can reach. The callback API with default settings: a request is parsed, an
// answer of the size of the service's own is made up and sent, nothing is kept.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <string>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/bench/identity.h"

namespace idempotency::bench {
namespace {

constexpr int64_t kSomeTime = 1'767'225'600;

void SetTime(google::protobuf::Timestamp* time) {
  time->set_seconds(kSomeTime);
  time->set_nanos(123'000'000);
}

// The answers but for the operation's id and fingerprint.
class Answers {
 public:
  explicit Answers(size_t body_bytes) {
    FillOperation(&acquired_);
    acquired_.set_outcome(v1::RESERVE_OUTCOME_ACQUIRED);
    acquired_.set_next_step(v1::NEXT_STEP_PROCEED);
    acquired_.mutable_lease()->set_fencing_token(1);
    SetTime(acquired_.mutable_lease()->mutable_expire_time());
    acquired_.mutable_lease()->mutable_remaining()->set_seconds(3600);
    acquired_.mutable_lease()->set_attempt(1);
    acquired_.set_detail("Acquired; start the effect, and report its end before the lease ends.");

    FillOperation(&in_progress_);
    in_progress_.set_outcome(v1::RESERVE_OUTCOME_IN_PROGRESS);
    in_progress_.set_next_step(v1::NEXT_STEP_RESERVE_AGAIN);
    in_progress_.mutable_retry_after()->set_seconds(1);
    in_progress_.set_detail("Another attempt holds a live lease; reserve again later.");

    FillEnded(completed_.mutable_operation());
    completed_.set_already_complete(false);

    FillEnded(replayed_.mutable_operation());
    replayed_.set_outcome(v1::RESERVE_OUTCOME_COMPLETED);
    replayed_.set_next_step(v1::NEXT_STEP_USE_RESPONSE);
    replayed_.set_detail("Succeeded; hand the stored response to your caller.");
    SetTime(replayed_.mutable_server_time());
    v1::CachedResponse* const response = replayed_.mutable_operation()->mutable_response();
    response->set_http_status(200);
    response->set_content_type("application/json");
    response->set_body(MakeBody(1, body_bytes));
    response->set_body_size(body_bytes);

    *read_.mutable_operation() = replayed_.operation();
    for (const v1::EventKind kind : {v1::EVENT_KIND_ACQUIRED, v1::EVENT_KIND_COMPLETED}) {
      v1::Event* const event = read_.mutable_operation()->add_history();
      event->set_kind(kind);
      SetTime(event->mutable_time());
      event->set_attempt(1);
      event->set_actor("bench-1");
    }
    SetTime(read_.mutable_server_time());
    read_.set_next_step(v1::NEXT_STEP_USE_RESPONSE);
  }

  void Answer(const v1::ReserveRequest& request, v1::ReserveResponse* response) const {
    *response = TemplateFor(request.attempt_id());
    *response->mutable_operation()->mutable_id() = request.id();
    *response->mutable_operation()->mutable_fingerprint() = request.fingerprint();
  }
  void Answer(const v1::CompleteRequest& request, v1::CompleteResponse* response) const {
    *response = completed_;
    *response->mutable_operation()->mutable_id() = request.id();
  }
  void Answer(const v1::GetOperationRequest& request, v1::GetOperationResponse* response) const {
    *response = read_;
    *response->mutable_operation()->mutable_id() = request.id();
    *response->mutable_operation()->mutable_fingerprint() = request.fingerprint();
  }
  void Answer(const v1::Command& command, v1::Result* result) const {
    result->set_tag(command.tag());
    switch (command.command_case()) {
      case v1::Command::kReserve:
        return Answer(command.reserve(), result->mutable_reserve());
      case v1::Command::kComplete:
        return Answer(command.complete(), result->mutable_complete());
      case v1::Command::kGetOperation:
        return Answer(command.get_operation(), result->mutable_get_operation());
      default:
        result->mutable_error()->set_code(grpc::StatusCode::UNIMPLEMENTED);
    }
  }

 private:
  static void FillCommon(v1::Operation* operation) {
    operation->mutable_owner()->set_worker("bench-1");
    operation->set_attempt(1);
    operation->set_dispatched(true);
    SetTime(operation->mutable_create_time());
    SetTime(operation->mutable_update_time());
    operation->set_etag("1.1");
  }
  static void FillOperation(v1::ReserveResponse* response) {
    v1::Operation* const operation = response->mutable_operation();
    FillCommon(operation);
    operation->set_state(v1::OPERATION_STATE_PENDING);
    SetTime(operation->mutable_lease_expire_time());
    SetTime(response->mutable_server_time());
  }
  static void FillEnded(v1::Operation* operation) {
    FillCommon(operation);
    operation->set_state(v1::OPERATION_STATE_COMPLETE);
    operation->set_verdict(v1::VERDICT_SUCCEEDED);
    operation->mutable_fingerprint()->set_algorithm("sha256/bytes-1");
    SetTime(operation->mutable_complete_time());
    SetTime(operation->mutable_response_expire_time());
    SetTime(operation->mutable_forget_time());
  }

  const v1::ReserveResponse& TemplateFor(const std::string& attempt_id) const {
    const char hint = attempt_id.empty() ? kEchoAcquired : attempt_id[0];
    return hint == kEchoCompleted ? replayed_ : hint == kEchoInProgress ? in_progress_ : acquired_;
  }

  v1::ReserveResponse acquired_;
  v1::ReserveResponse in_progress_;
  v1::ReserveResponse replayed_;
  v1::CompleteResponse completed_;
  v1::GetOperationResponse read_;
};

// Answers each message with one of as many results.
class PipelineReactor final
    : public grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse> {
 public:
  explicit PipelineReactor(const Answers* answers) : answers_(answers) { StartRead(&request_); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    response_.Clear();
    for (const v1::Command& command : request_.commands()) {
      answers_->Answer(command, response_.add_results());
    }
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

  const Answers* const answers_;
  v1::PipelineRequest request_;
  v1::PipelineResponse response_;
};

class EchoService final : public v1::IdempotencyService::CallbackService {
 public:
  explicit EchoService(size_t body_bytes) : answers_(body_bytes) {}

 private:
  using Context = grpc::CallbackServerContext;

  grpc::ServerUnaryReactor* Reserve(Context* context, const v1::ReserveRequest* request,
                                    v1::ReserveResponse* response) override {
    return Echo(context, *request, response);
  }
  grpc::ServerUnaryReactor* Complete(Context* context, const v1::CompleteRequest* request,
                                     v1::CompleteResponse* response) override {
    return Echo(context, *request, response);
  }
  grpc::ServerUnaryReactor* GetOperation(Context* context, const v1::GetOperationRequest* request,
                                         v1::GetOperationResponse* response) override {
    return Echo(context, *request, response);
  }
  grpc::ServerUnaryReactor* Batch(Context* context, const v1::BatchRequest* request,
                                  v1::BatchResponse* response) override {
    for (const v1::Command& command : request->commands()) {
      answers_.Answer(command, response->add_results());
    }
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* Pipeline(
      Context* /*context*/) override {
    return new PipelineReactor(&answers_);
  }

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Echo(Context* context, const Request& request, Response* response) {
    answers_.Answer(request, response);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  const Answers answers_;
};

int Main(int argc, char** argv) {
  std::string listen = "127.0.0.1:0";
  std::string port_file;
  size_t body_bytes = 100;
  CLI::App app(
      "A service that speaks idempotency.v1, answers at once and keeps nothing: what gRPC alone\n"
      "can do with these messages. For idempotency_load --echo. Ends at SIGTERM.",
      "idempotency_echo");
  app.add_option("--listen", listen, "Address and port; 0: any free one")->capture_default_str();
  app.add_option("--port-file", port_file, "Write the port that is listened on to this file");
  app.add_option("--body-bytes", body_bytes, "Of a replayed answer")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  EchoService service(body_bytes);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::cerr << "idempotency_echo: cannot listen on " << listen << std::endl;
    return 1;
  }
  if (!port_file.empty()) std::ofstream(port_file) << port << "\n";
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
