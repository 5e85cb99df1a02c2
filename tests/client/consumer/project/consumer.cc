// Everything that is installed, linked and used once.
#include <cstdio>
#include <memory>

#include "idempotency/classification.h"
#include "idempotency/client.h"
#include "idempotency/connection.h"
#include "idempotency/fingerprint.h"
#include "idempotency/fingerprint_proto.h"
#include "idempotency/grpc.h"
#include "idempotency/http_edge.h"
#include "idempotency/keys.h"
#include "idempotency/policies.h"
#include "idempotency/providers.h"
#include "idempotency/testing/fake_environment.h"
#include "idempotency/testing/in_process_connection.h"
#include "idempotency/testing/retry_review.h"
#include "idempotency/types.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace {

using namespace idempotency;

int charges = 0;

EffectResult Charge(Attempt& attempt) {
  ++charges;
  return EffectResult::Answered(CachedResponse{.body = attempt.provider_key()});
}

bool ChargesOnce() {
  const auto environment = std::make_shared<testing::FakeEnvironment>();
  const Client client(std::make_shared<testing::InProcessConnection>(
                          environment, testing::NamespacePolicies{{"payments", {}}}),
                      environment);
  const RunRequest request{.id = {"payments", "acct", RandomKey()},
                           .fingerprint = FingerprintBytes("POST", "/v1/charges", "{}")};
  const RunResult first = client.Run(request, Charge);
  const RunResult second = client.Run(request, Charge);
  return charges == 1 && first.has_answer() && second.replayed &&
         second.response->body == first.response->body;
}

// Nobody listens there, so it fails closed.
bool FailsClosed(bool batching) {
  const Client client(MakeConnection({.target = "127.0.0.1:1", .batching = batching}));
  const RunResult result = client.Run({.id = {"payments", "acct", "order-1"}, .wait = Duration(0)},
                                      Charge, {.retry = RetryPolicy::Never()});
  return result.stop == StopReason::kUnavailable;
}

}  // namespace

int main() {
  const bool well = ChargesOnce() && FailsClosed(false) && FailsClosed(true) && charges == 1;
  std::puts(well ? "consumer: works" : "consumer: does not work");
  return well ? 0 : 1;
}
