#include "tests/proof/overload/churn.h"

#include <poll.h>

#include <utility>

#include "grpc/support/time.h"
#include "tests/bench/identity.h"

namespace idempotency::proof {
namespace {

constexpr int kBatches = 4;
constexpr int kBatchCommands = 200;
constexpr size_t kBodyBytes = 1000;
// Few: what lapses is kept until the next sweep, a minute at most, and what is freed for ten.
constexpr int kLapsing = 10;
constexpr int kBatchesLeftOpen = 10;
constexpr int kLeftOpen = 1'000;
constexpr int64_t kLapsingNanos = 100'000'000;
constexpr int kWaiters = 20;
constexpr int kStreamMessages = 4;
constexpr int kMessageCommands = 50;
constexpr int kVisitors = 6;
constexpr int kPages = 3;
constexpr int64_t kCallMs = 10'000;
// How long whoever is told OVERLOADED stays away, and how often they come back.
constexpr int kPauseMs = 100;
constexpr int kPatience = 600;

gpr_timespec After(int64_t milliseconds) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(milliseconds, GPR_TIMESPAN));
}

struct Call {
  explicit Call(int64_t milliseconds = kCallMs) { context.set_deadline(After(milliseconds)); }
  grpc::ClientContext* get() { return &context; }

  grpc::ClientContext context;
};

// What a client does that is told to come back.
void Pause() { poll(nullptr, 0, kPauseMs); }

bool Acquired(const v1::ReserveResponse& response) {
  return response.outcome() == v1::RESERVE_OUTCOME_ACQUIRED;
}

}  // namespace

Churn::Churn(uint64_t seed, std::function<std::shared_ptr<grpc::Channel>()> connect, bool hoards)
    : random_(seed), connect_(std::move(connect)), hoards_(hoards) {}

std::string Churn::Round() {
  Connection connection = Open();
  CompleteInBatches(connection);
  LetLapse(connection);
  WaitAndLeave(connection);
  Stream(connection, false);
  Stream(connection, true);
  List(connection);
  ComeAndGo();
  if (hoards_) {
    LeaveOpen(connection);
    hoard_.push_back(std::move(connection));
  }
  return wrong_;
}

Churn::Connection Churn::Open() {
  Connection connection;
  connection.channel = connect_();
  connection.stub = v1::IdempotencyService::NewStub(connection.channel);
  connection.admin = v1::IdempotencyAdminService::NewStub(connection.channel);
  return connection;
}

v1::ReserveRequest Churn::Fresh(const char* name_space) {
  v1::ReserveRequest request;
  request.mutable_id()->set_namespace_(name_space);
  request.mutable_id()->set_scope("acct_" + std::to_string(random_.Below(100)));
  // Few digits: thirteen and more may look like a card number, which is refused.
  request.mutable_id()->set_key("churn-" + std::to_string(random_.Below(100'000)) + "-" +
                                std::to_string(next_key_++));
  request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request.mutable_fingerprint()->set_digest(std::string(32, 'f'));
  request.set_attempt_id("attempt-0123456789abcdef");
  ++operations_;
  return request;
}

void Churn::Expect(bool right, const std::string& what) {
  if (!right && wrong_.empty()) wrong_ = what;
}

void Churn::Expect(const grpc::Status& status, const char* what) {
  Expect(status.ok(), std::string(what) + ": " + status.error_message());
}

v1::BatchResponse Churn::Batch(Connection& connection, const v1::BatchRequest& request,
                               const char* what) {
  v1::BatchResponse response;
  Expect(connection.stub->Batch(Call().get(), request, &response), what);
  for (int times = 0; times < kPatience; ++times) {
    v1::BatchRequest again;
    std::vector<int> places;
    for (int i = 0; i < response.results_size(); ++i) {
      if (response.results(i).error().reason() != v1::ERROR_REASON_OVERLOADED) continue;
      Expect(response.results(i).error().has_retry_after(), "OVERLOADED without a time to return");
      *again.add_commands() = request.commands(i);
      places.push_back(i);
    }
    if (places.empty()) break;
    overloaded_ += places.size();
    Pause();
    v1::BatchResponse later;
    Expect(connection.stub->Batch(Call().get(), again, &later), what);
    for (int i = 0; i < later.results_size(); ++i) {
      response.mutable_results(places[static_cast<size_t>(i)])->Swap(later.mutable_results(i));
    }
  }
  return response;
}

grpc::Status Churn::Reserve(Connection& connection, const v1::ReserveRequest& request,
                            v1::ReserveResponse* response) {
  for (int times = 0;; ++times) {
    grpc::Status status = connection.stub->Reserve(Call().get(), request, response);
    if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED || times == kPatience) {
      return status;
    }
    ++overloaded_;
    Pause();
  }
}

// Keys that are completed, replayed once, and expire a little later.
void Churn::CompleteInBatches(Connection& connection) {
  completed_.clear();
  for (int batch = 0; batch < kBatches; ++batch) {
    v1::BatchRequest reserves;
    for (int i = 0; i < kBatchCommands; ++i) {
      *reserves.add_commands()->mutable_reserve() = Fresh("short");
    }
    v1::BatchResponse reserved = Batch(connection, reserves, "Batch of Reserves");
    v1::BatchRequest completes;
    for (int i = 0; i < reserved.results_size(); ++i) {
      Expect(Acquired(reserved.results(i).reserve()), reserved.results(i).ShortDebugString());
      v1::CompleteRequest* const complete = completes.add_commands()->mutable_complete();
      *complete->mutable_id() = reserves.commands(i).reserve().id();
      completed_.push_back(complete->id());
      complete->set_fencing_token(reserved.results(i).reserve().lease().fencing_token());
      complete->set_verdict(v1::VERDICT_SUCCEEDED);
      complete->mutable_response()->set_body(bench::MakeBody(random_.Next(), kBodyBytes));
    }
    v1::BatchResponse completed;
    Expect(connection.stub->Batch(Call().get(), completes, &completed), "Batch of Completes");
    for (const v1::Result& result : completed.results()) {
      Expect(result.has_complete(), result.ShortDebugString());
    }
    Batch(connection, reserves, "Batch of replays");
  }
}

// Operations that nobody ends, open for longer than anybody looks.
void Churn::LeaveOpen(Connection& connection) {
  for (int batch = 0; batch < kBatchesLeftOpen; ++batch) {
    v1::BatchRequest request;
    for (int i = 0; i < kLeftOpen; ++i) {
      v1::ReserveRequest* const reserve = request.add_commands()->mutable_reserve();
      *reserve = Fresh("kept");
      reserve->mutable_lease_duration()->set_seconds(3600);
    }
    Batch(connection, request, "Batch of what stays open");
  }
}

// Leases that nobody ends: some freed by their end, the others run again and forgotten.
void Churn::LetLapse(Connection& connection) {
  v1::BatchRequest request;
  for (int i = 0; i < kLapsing; ++i) {
    v1::ReserveRequest* const reserve = request.add_commands()->mutable_reserve();
    *reserve = Fresh("rerun");
    reserve->mutable_lease_duration()->set_nanos(kLapsingNanos);
    reserve->set_dispatch_later(i == 0);
  }
  Batch(connection, request, "Batch of lapsing leases");
}

// Some wait until the owner releases, some leave before.
void Churn::WaitAndLeave(Connection& connection) {
  const v1::ReserveRequest held = Fresh("short");
  v1::ReserveResponse owner;
  Expect(Reserve(connection, held, &owner), "Reserve");
  grpc::CompletionQueue queue;
  struct Waiter {
    Call call;
    v1::ReserveResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ReserveResponse>> reader;
  };
  std::vector<Waiter> waiters(kWaiters);
  for (int i = 0; i < kWaiters; ++i) {
    Waiter& waiter = waiters[static_cast<size_t>(i)];
    v1::ReserveRequest request = held;
    request.set_attempt_id("waiter-0123456789abcdef-" + std::to_string(i));
    request.mutable_wait_duration()->set_seconds(5);
    ++operations_;
    waiter.reader = connection.stub->AsyncReserve(&waiter.call.context, request, &queue);
    waiter.reader->Finish(&waiter.response, &waiter.status, &waiter);
    if (i % 2 == 0) waiter.call.context.TryCancel();
  }
  v1::CompleteRequest complete;
  *complete.mutable_id() = held.id();
  complete.set_fencing_token(owner.lease().fencing_token());
  complete.set_verdict(v1::VERDICT_SUCCEEDED);
  v1::CompleteResponse completed;
  Expect(connection.stub->Complete(Call().get(), complete, &completed), "Complete");
  void* tag = nullptr;
  bool ok = false;
  for (int i = 0; i < kWaiters; ++i) queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  for (int i = 1; i < kWaiters; i += 2) {
    const grpc::Status& status = waiters[static_cast<size_t>(i)].status;
    const bool overloaded = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    overloaded_ += overloaded ? 1 : 0;
    if (!overloaded) Expect(status, "a waiting Reserve");
  }
}

void Churn::Stream(Connection& connection, bool cut) {
  Call call;
  const auto stream = connection.stub->Pipeline(&call.context);
  uint64_t tag = 0;
  for (int message = 0; message < kStreamMessages; ++message) {
    v1::PipelineRequest request;
    for (int i = 0; i < kMessageCommands; ++i) {
      v1::Command* const command = request.add_commands();
      command->set_tag(++tag);
      *command->mutable_get_operation()->mutable_id() = random_.Any(completed_);
      ++operations_;
    }
    stream->Write(request);
  }
  if (cut) {
    call.context.TryCancel();
  } else {
    stream->WritesDone();
  }
  v1::PipelineResponse response;
  uint64_t answered = 0;
  while (stream->Read(&response)) answered += static_cast<uint64_t>(response.results_size());
  const grpc::Status status = stream->Finish();
  if (cut) return;
  Expect(status, "Pipeline");
  Expect(answered == tag, "commands of a stream without an answer");
}

void Churn::List(Connection& connection) {
  v1::ListOperationsRequest request;
  request.set_namespace_("short");
  request.set_page_size(200);
  v1::ListOperationsResponse response;
  for (int page = 0; page < kPages; ++page) {
    Expect(connection.admin->ListOperations(Call().get(), request, &response), "List");
    if (response.next_page_token().empty()) break;
    request.set_page_token(response.next_page_token());
    ++operations_;
  }
}

// Connections for one call each; every other with one that is never answered, for it is cut.
void Churn::ComeAndGo() {
  for (int i = 0; i < kVisitors; ++i) {
    Connection connection = Open();
    v1::ReserveResponse response;
    v1::ReserveRequest request = Fresh("rerun");
    request.mutable_lease_duration()->set_nanos(kLapsingNanos);
    Expect(Reserve(connection, request, &response), "a visitor's Reserve");
    if (i % 2 == 0) {
      request.set_attempt_id("another-0123456789abcdef");
      request.mutable_wait_duration()->set_seconds(5);
      const grpc::Status status = connection.stub->Reserve(Call(20).get(), request, &response);
      // It has a margin to its deadline, and may be answered in time.
      Expect(status.ok() || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                 status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                 status.error_code() == grpc::StatusCode::CANCELLED,
             "a visitor's wait: " + status.error_message());
    }
  }
}

}  // namespace idempotency::proof
