#include "tests/proof/hostile/bystanders.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "tests/bench/clock.h"

namespace idempotency::proof {
namespace {

constexpr int64_t kCallNanos = 10 * bench::kNanosPerSecond;
constexpr size_t kMaxErrors = 5;

template <typename Request, typename Response>
grpc::Status Ask(v1::IdempotencyService::Stub* stub,
                 grpc::Status (v1::IdempotencyService::Stub::*method)(grpc::ClientContext*,
                                                                      const Request&, Response*),
                 const Request& request, Response* response, int64_t nanos = kCallNanos) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(nanos, GPR_TIMESPAN)));
  return (stub->*method)(&context, request, response);
}

}  // namespace

v1::OperationId IdOf(const std::string& key) {
  v1::OperationId id;
  id.set_namespace_("payments");
  id.set_scope("acct-1");
  id.set_key(key);
  return id;
}

v1::ReserveRequest ReserveOf(const std::string& key, const std::string& attempt) {
  v1::ReserveRequest request;
  *request.mutable_id() = IdOf(key);
  request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request.mutable_fingerprint()->set_digest(std::string(32, 'd'));
  request.set_attempt_id("attempt-of-" + std::string(16, '0') + attempt);
  return request;
}

Bystanders::Bystanders(const Daemon& daemon, int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, i, channel = daemon.Connect()] { Run(i, channel); });
  }
}

Bystanders::~Bystanders() { Stop(); }

void Bystanders::Stop() {
  stopping_ = true;
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Bystanders::Note(int64_t nanos, const grpc::Status& status) {
  const absl::MutexLock lock(&mutex_);
  nanos_.push_back(nanos);
  if (!status.ok() && errors_.size() < kMaxErrors) errors_.push_back(status.error_message());
}

void Bystanders::Run(int number, std::shared_ptr<grpc::Channel> channel) {
  const auto stub = v1::IdempotencyService::NewStub(channel);
  bool busy = false;
  for (uint64_t i = 0; !stopping_; ++i) {
    const std::string key = "bystander-" + std::to_string(number) + "-" + std::to_string(i);
    int64_t begin = bench::MonotonicNanos();
    v1::ReserveResponse reserved;
    grpc::Status status =
        Ask(stub.get(), &v1::IdempotencyService::Stub::Reserve, ReserveOf(key, "1"), &reserved);
    Note(bench::MonotonicNanos() - begin, status);
    if (!status.ok()) continue;
    v1::CompleteRequest request;
    *request.mutable_id() = IdOf(key);
    request.set_fencing_token(reserved.lease().fencing_token());
    request.set_verdict(v1::VERDICT_SUCCEEDED);
    request.mutable_response()->set_body(key);
    v1::CompleteResponse completed;
    begin = bench::MonotonicNanos();
    status = Ask(stub.get(), &v1::IdempotencyService::Stub::Complete, request, &completed);
    Note(bench::MonotonicNanos() - begin, status);
    if (!status.ok()) continue;
    const absl::MutexLock lock(&mutex_);
    completed_.push_back(key);
    if (!std::exchange(busy, true)) ++busy_;
  }
}

bool Bystanders::AwaitAll() {
  const absl::MutexLock lock(&mutex_);
  const auto all_busy = [this] {
    mutex_.AssertHeld();
    return busy_ == static_cast<int>(threads_.size());
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&all_busy), absl::Minutes(1));
}

Seen Bystanders::Take() {
  std::vector<int64_t> nanos;
  Seen seen;
  {
    const absl::MutexLock lock(&mutex_);
    nanos.swap(nanos_);
    seen.errors.swap(errors_);
  }
  seen.calls = nanos.size();
  if (nanos.empty()) return seen;
  const auto at = nanos.begin() + static_cast<ptrdiff_t>((nanos.size() - 1) * 99 / 100);
  std::nth_element(nanos.begin(), at, nanos.end());
  seen.p99_nanos = *at;
  return seen;
}

size_t Bystanders::completed() const {
  const absl::MutexLock lock(&mutex_);
  return completed_.size();
}

std::string Bystanders::Check(const Daemon& daemon, size_t most) {
  const absl::MutexLock lock(&mutex_);
  const auto stub = v1::IdempotencyService::NewStub(daemon.Connect());
  const size_t step = std::max<size_t>(completed_.size() / most, 1);
  for (size_t i = 0; i < completed_.size(); i += step) {
    v1::ReserveResponse response;
    const grpc::Status status = Ask(stub.get(), &v1::IdempotencyService::Stub::Reserve,
                                    ReserveOf(completed_[i], "2"), &response);
    if (!status.ok()) return "a replay fails: " + status.error_message();
    if (response.outcome() != v1::RESERVE_OUTCOME_COMPLETED ||
        response.operation().response().body() != completed_[i]) {
      return "an acknowledged completion is not there: " + completed_[i];
    }
  }
  return "";
}

int64_t FirstAnswerNanos(const Daemon& daemon, int64_t most_nanos) {
  const int64_t begin = bench::MonotonicNanos();
  const auto stub = v1::IdempotencyService::NewStub(daemon.Connect());
  v1::GetNamespaceRequest request;
  request.set_name("payments");
  v1::GetNamespaceResponse response;
  const grpc::Status status =
      Ask(stub.get(), &v1::IdempotencyService::Stub::GetNamespace, request, &response, most_nanos);
  return status.ok() ? bench::MonotonicNanos() - begin : -1;
}

}  // namespace idempotency::proof
