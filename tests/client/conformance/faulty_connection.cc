#include "tests/client/conformance/faulty_connection.h"

#include <utility>

namespace idempotency::testing {
namespace {

absl::Status FailureOf(const Json& fault) {
  if (fault.at("kind") != "refuse") return absl::UnavailableError("lost by the test");
  const absl::StatusCode code = CodeOf(fault.at("code"));
  if (!fault.contains("reason")) return {code, "refused by the test"};
  return MakeRefused(Refusal{.reason = ReasonOf(fault.at("reason")),
                             .retry_after = SpanOf(fault, "retry_after_ms")},
                     code, "refused by the test");
}

}  // namespace

FaultyConnection::FaultyConnection(std::shared_ptr<Connection> good, const Json& faults)
    : good_(std::move(good)), faults_(faults) {}

std::vector<std::string> FaultyConnection::calls() const {
  absl::MutexLock lock(&mutex_);
  return calls_;
}

FaultyConnection::Fate FaultyConnection::Next(const std::string& method) {
  absl::MutexLock lock(&mutex_);
  if (method != "Renew") calls_.push_back(method);
  for (Json& fault : faults_) {
    const int left = fault.at("times");
    if (fault.at("method") != method || left == 0) continue;
    fault["times"] = left - 1;
    return Fate{.is_sent = fault.at("kind") == "lose_reply", .failure = FailureOf(fault)};
  }
  return {};
}

void FaultyConnection::AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) {
  good_->AsyncRenew(std::move(request), std::move(options), std::move(done));
}

}  // namespace idempotency::testing
