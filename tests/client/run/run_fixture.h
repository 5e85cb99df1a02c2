// One Run on a clock that stands still, a connection that answers what the test says, and a timer
// that runs when the test says so.
#ifndef IDEMPOTENCY_TESTS_CLIENT_RUN_RUN_FIXTURE_H_
#define IDEMPOTENCY_TESTS_CLIENT_RUN_RUN_FIXTURE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/src/renewal_timer.h"
#include "client/src/run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/client.h"
#include "idempotency/testing/fake_environment.h"
#include "idempotency/testing/mock_connection.h"

namespace idempotency::testing {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

inline constexpr uint64_t kToken = 7;

// --- Answers of the service ----------------------------------------------------------------------

Lease LeaseOf(Duration remaining, uint32_t attempt = 1);
// A grant.
ReserveResponse Acquired(Duration remaining = 30s, uint32_t attempt = 1);
// Anything else, with an operation in that state.
ReserveResponse Found(ReserveOutcome outcome, NextStep next_step, OperationState state,
                      std::optional<Duration> retry_after = std::nullopt);
ReserveResponse InProgress(Duration retry_after = 1s);
ReserveResponse Unresolved(NextStep next_step = NextStep::kReconcileFirst,
                           std::optional<Duration> retry_after = std::nullopt);
ReserveResponse Completed(std::optional<CachedResponse> response,
                          Verdict verdict = Verdict::kSucceeded);
CompleteResponse Done();
MarkUnresolvedResponse Marked();

// The service says no.
absl::Status Refuse(ErrorReason reason, std::optional<Duration> retry_after = std::nullopt);
absl::Status Lost();

// --- What fn returns -----------------------------------------------------------------------------

CachedResponse Body(std::string body, int http_status = 200);
EffectResult Answer(std::string body, int http_status = 200);

class RunFixture : public ::testing::Test {
 protected:
  RunResult Run(const EffectFunction& fn);
  // With an fn that must not be called.
  RunResult RunNothing();

  // Moves the clock and lets the timer do what is due.
  void Advance(Duration span);

  std::shared_ptr<FakeEnvironment> environment = std::make_shared<FakeEnvironment>();
  std::shared_ptr<::testing::StrictMock<MockConnection>> connection =
      std::make_shared<::testing::StrictMock<MockConnection>>();
  internal::RenewalTimer timer{environment, internal::RenewalTimer::Drive::kManual};
  RunRequest request{.id = {"payments", "acct", "order-1"}};
  RunOptions options{.classify = ClassifyHttp};
  int fn_calls = 0;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_RUN_RUN_FIXTURE_H_
