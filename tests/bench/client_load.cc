#include "tests/bench/client_load.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace idempotency::bench {
namespace {

std::string Text(const char* bytes, size_t size) { return {bytes, size}; }

OperationId IdOf(const RequestShape& shape, const Identity& id) {
  return {shape.name_space, Text(id.scope, kScopeBytes), Text(id.key, kKeyBytes)};
}

Fingerprint FingerprintOf(const Identity& id) {
  return {"sha256/bytes-1", Text(id.digest, kDigestBytes)};
}

ReserveRequest MakeReserve(const RequestShape& shape, const Identity& id) {
  ReserveRequest request;
  request.id = IdOf(shape, id);
  request.fingerprint = FingerprintOf(id);
  request.attempt_id = Text(id.attempt, kAttemptBytes);
  request.lease_duration = std::chrono::seconds(shape.lease_seconds);
  request.wait_duration = std::chrono::seconds(shape.wait_seconds);
  request.owner.worker = "bench-1";
  return request;
}

CompleteRequest MakeComplete(const RequestShape& shape, const Caller& caller) {
  CompleteRequest request;
  request.id = IdOf(shape, caller.id());
  request.fencing_token = caller.token();
  request.response.emplace();
  request.response->status = CachedResponse::HttpStatus{200};
  request.response->content_type = "application/json";
  request.response->body = caller.Body();
  return request;
}

// What is checked of the operation in an answer; the views are of `operation`.
void Fill(const Operation& operation, Answer* answer) {
  answer->key = operation.id.key;
  answer->state = static_cast<int>(operation.state);
  if (operation.response && operation.response->body) answer->body = *operation.response->body;
}

}  // namespace

struct ClientLoad::CallerThread : Slot {
  Connection* connection = nullptr;
  absl::Mutex mutex;
  bool has_call ABSL_GUARDED_BY(mutex) = false;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  std::thread thread;

  bool IsWanted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return has_call || stopped; }
};

ClientLoad::ClientLoad(Plan* plan) : Load(plan) {}
ClientLoad::~ClientLoad() = default;

void ClientLoad::Open() {
  for (int i = 0; i < options().connections; ++i) {
    ConnectionOptions connection;
    connection.target = options().target;
    connection.batching = options().batching;
    connections_.push_back(MakeConnection(std::move(connection)));
  }
  for (int i = 0; i < options().in_flight; ++i) {
    auto caller = std::make_unique<CallerThread>();
    caller->connection = connections_[static_cast<size_t>(i) % connections_.size()].get();
    AddSlot(caller.get(), 1, NewMeter());
    callers_.push_back(std::move(caller));
  }
  for (const auto& caller : callers_) {
    caller->thread = std::thread([this, caller = caller.get()] { Serve(caller); });
  }
}

void ClientLoad::Send(Slot* slot) {
  auto* const caller = static_cast<CallerThread*>(slot);
  absl::MutexLock lock(&caller->mutex);
  caller->has_call = true;
}

void ClientLoad::Close() {
  for (const auto& caller : callers_) {
    {
      absl::MutexLock lock(&caller->mutex);
      caller->stopped = true;
    }
    caller->thread.join();
  }
}

void ClientLoad::Serve(CallerThread* caller) {
  while (true) {
    {
      absl::MutexLock lock(&caller->mutex);
      caller->mutex.Await(absl::Condition(caller, &CallerThread::IsWanted));
      if (!std::exchange(caller->has_call, false)) return;
    }
    MakeCall(caller);
  }
}

void ClientLoad::MakeCall(CallerThread* thread) {
  const Caller& caller = thread->callers[0];
  const RequestShape& shape = options().shape;
  CallOptions call;
  call.timeout += std::chrono::seconds(shape.wait_seconds);
  Answer answer;
  answer.verb = caller.verb();
  absl::Status status;
  // Kept until the answer has been checked.
  absl::StatusOr<ReserveResponse> reserved;
  absl::StatusOr<CompleteResponse> completed;
  absl::StatusOr<GetOperationResponse> read;
  switch (caller.verb()) {
    case Verb::kReserve:
      reserved = thread->connection->Reserve(MakeReserve(shape, caller.id()), call);
      status = reserved.status();
      if (!status.ok()) break;
      answer.outcome = static_cast<int>(reserved->outcome);
      if (reserved->lease) answer.token = reserved->lease->fencing_token;
      if (reserved->operation) Fill(*reserved->operation, &answer);
      break;
    case Verb::kComplete:
      completed = thread->connection->Complete(MakeComplete(shape, caller), call);
      status = completed.status();
      if (status.ok()) Fill(completed->operation, &answer);
      break;
    case Verb::kGet:
      read = thread->connection->GetOperation(
          {IdOf(shape, caller.id()), Duration(0), FingerprintOf(caller.id())}, call);
      status = read.status();
      if (status.ok()) Fill(read->operation, &answer);
      break;
  }
  const int64_t now = MonotonicNanos();
  if (status.ok()) {
    OnAnswer(thread, 0, answer, now);
  } else {
    OnFailure(thread, 0, status.ToString(), now);
  }
}

}  // namespace idempotency::bench
