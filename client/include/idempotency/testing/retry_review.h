// A retry review: takes a handler of yours through everything that goes wrong between it, the
// service and the provider, counts what really happened, and writes down what a reviewer has to
// see. Your handler is given a service, a clock and a provider in place of the real ones:
//
//   RetryReport report = ReviewRetries([](ReviewedCall& call) {
//     const RunResult result = call.client.Run(
//         {.id = call.id,
//          .fingerprint = FingerprintBytes("POST", "/charges", call.request),
//          .first_sent = call.first_sent},
//         [&](Attempt& attempt) { return call.provider.Do(attempt.provider_key(), call.request); },
//         {.look_up = [&](const Operation&) { return call.provider.Find(ProviderKey(call.id)); },
//          .reconciler = "charges"});
//     return ReviewAnswer::Of(result);
//   });
//   EXPECT_TRUE(report.passed()) << report.Text();
//
// Each scenario uses a key of its own and judges by the same rules: no second effect, no two
// answers to one request, no answer to a request under somebody else's key, one and the same key
// to the provider for all attempts, and nothing left pending.
//
// The service is one in memory (in_process_connection.h), unless the setup brings another.
#ifndef IDEMPOTENCY_TESTING_RETRY_REVIEW_H_
#define IDEMPOTENCY_TESTING_RETRY_REVIEW_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "idempotency/classification.h"
#include "idempotency/client.h"
#include "idempotency/connection.h"
#include "idempotency/policies.h"
#include "idempotency/testing/in_process_connection.h"
#include "idempotency/types.h"

namespace idempotency::testing {

// Stands in for whoever has the effect; its answers are HTTP's.
//
// Thread safety: may be used from any thread.
class ReviewedProvider {
 public:
  virtual ~ReviewedProvider() = default;

  // The outbound call. `key`: what the provider is sent as its idempotency key, and what it files
  // the effect under; empty: none.
  virtual EffectResult Do(const std::string& key, const std::string& request) = 0;
  // What became of the request that was sent under this key.
  virtual LookUp Find(const std::string& key) = 0;
};

// One call of the handler: what it would otherwise have made itself. Lives as long as the call.
struct ReviewedCall {
  Client& client;
  // The service as this call reaches it; what `client` uses.
  Connection& connection;
  Environment& environment;
  ReviewedProvider& provider;

  OperationId id;
  std::string request;
  // When this operation was first sent, by environment.WallNow().
  SystemTime first_sent;
};

// What the handler's own caller is told.
struct ReviewAnswer {
  // It is the answer of the effect, for good; otherwise: not now, or nobody knows.
  bool answered = false;
  // Two answers are the same where their texts are.
  std::string text;

  static ReviewAnswer Of(const RunResult& result);
};

using ReviewedHandler = std::function<ReviewAnswer(ReviewedCall& call)>;

struct ReviewSetup {
  // What the namespace is configured as: the review waits by it.
  NamespacePolicy policy;
  std::string name_space = "payments";
  std::string scope = "retry-review";

  // The provider recognises a repeated key, and for how long.
  bool provider_knows_keys = true;
  Duration provider_remembers = std::chrono::hours(24);

  // Unset: a FakeEnvironment, and a service in memory by its clock.
  std::shared_ptr<Environment> environment;
  // The service to use instead. Keys begin with a random part, so that it may be a lasting one.
  std::shared_ptr<Connection> connection;
  // Moves the clock of both. Required with `connection`: scenarios that need time are not run
  // without it.
  std::function<void(Duration)> advance;
};

struct ReviewFinding {
  enum class Verdict : uint8_t { kPassed, kFailed, kNotRun };

  std::string name;   // "reply lost"
  std::string story;  // what was done to the handler
  Verdict verdict = Verdict::kNotRun;
  // What each call was told, in their order.
  std::vector<std::string> calls;
  size_t provider_calls = 0;
  size_t effects = 0;
  size_t effects_max = 1;
  // How the operation ended: "COMPLETE", or "nothing recorded".
  std::string record;
  // What is wrong, with a next step; and what is worth knowing.
  std::vector<std::string> problems;
  std::vector<std::string> remarks;
};

struct RetryReport {
  std::vector<ReviewFinding> findings;

  // Nothing failed; what was not run does not count.
  bool passed() const;
  // Null where there is none of that name.
  const ReviewFinding* Find(const std::string& name) const;
  // The report for a reviewer.
  std::string Text() const;
};

// Runs all scenarios, one after the other. What the handler throws counts as its answer.
RetryReport ReviewRetries(const ReviewedHandler& handler, const ReviewSetup& setup = {});

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTING_RETRY_REVIEW_H_
