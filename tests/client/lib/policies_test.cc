// Exact delays, and what is worth repeating.
#include "idempotency/policies.h"

#include <chrono>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "idempotency/connection.h"

namespace idempotency {
namespace {

using std::chrono::milliseconds;

TEST(RetryPolicyTest, Defaults) {
  EXPECT_EQ(RetryPolicy{}.total, std::chrono::seconds(30));
  EXPECT_EQ(RetryPolicy::UpTo(milliseconds(5)).total, milliseconds(5));
  EXPECT_EQ(RetryPolicy::UpTo(milliseconds(5)).max_attempts, UINT32_MAX);
  EXPECT_EQ(RetryPolicy::Never().max_attempts, 1u);
}

struct DelayRow {
  const char* name;
  BackoffPolicy policy;
  uint32_t before_attempt;
  double random;
  int64_t expected_ms;
};

constexpr BackoffPolicy kUsual{};
constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();

BackoffPolicy Policy(int64_t initial, int64_t maximum, double factor = 2.0, double jitter = 0.0) {
  return BackoffPolicy{milliseconds(initial), milliseconds(maximum), factor, jitter};
}

TEST(BackoffPolicyTest, ExactDelays) {
  const double almost_one = std::nextafter(1.0, 0.0);
  const DelayRow rows[] = {
      {"the first try waits for nothing", kUsual, 1, 0.0, 0},
      {"there is no try 0", kUsual, 0, 0.0, 0},
      {"first repetition", kUsual, 2, 0.0, 50},
      {"first repetition, half of the jitter", kUsual, 2, 0.5, 38},
      {"first repetition, nearly all of the jitter", kUsual, 2, almost_one, 26},
      {"second", kUsual, 3, 0.0, 100},
      {"third", kUsual, 4, 0.0, 200},
      {"third, a quarter of the jitter", kUsual, 4, 0.25, 175},
      {"seventh", kUsual, 8, 0.0, 3200},
      {"at the maximum", kUsual, 9, 0.0, 5000},
      {"far beyond it", kUsual, UINT32_MAX, 0.0, 5000},
      {"far beyond it, half of the jitter", kUsual, UINT32_MAX, 0.5, 3750},
      {"constant", Policy(70, 1000, 1.0), 9, 0.0, 70},
      {"a factor below one does not shrink", Policy(70, 1000, 0.1), 9, 0.0, 70},
      {"a broken factor", Policy(100, 1000, 1.5), 3, 0.0, 150},
      {"initial above the maximum", Policy(5000, 70), 2, 0.0, 70},
      {"no delay at all", Policy(0, 0), 5, 0.0, 0},
      {"zero stays zero", Policy(0, 1000), 4000, 0.0, 0},
      {"negative counts as zero", Policy(-5, 1000), 3, 0.0, 0},
      {"a negative maximum counts as zero", Policy(5, -1000), 3, 0.0, 0},
      {"full jitter", Policy(100, 1000, 2.0, 1.0), 2, 0.9, 10},
      {"full jitter, all of it", Policy(100, 1000, 2.0, 1.0), 2, 1.0, 0},
      {"jitter above one counts as one", Policy(100, 1000, 2.0, 7.0), 2, 0.5, 50},
      {"negative jitter counts as none", Policy(100, 1000, 2.0, -1.0), 2, 0.5, 100},
      {"the longest there is", Policy(kLongest, kLongest), 2, 0.0, kLongest},
      {"the longest there is, again", Policy(kLongest, kLongest), 9, 0.0, kLongest},
  };
  for (const DelayRow& row : rows) {
    EXPECT_EQ(row.policy.Delay(row.before_attempt, row.random), milliseconds(row.expected_ms))
        << row.name;
  }
  // The largest span with jitter must not run over.
  const Duration jittered = Policy(kLongest, kLongest, 2.0, 1.0).Delay(3, almost_one);
  EXPECT_GE(jittered, Duration{0});
}

struct TransientRow {
  const char* name;
  absl::Status status;
  bool transient;
};

absl::Status Refusing(ErrorReason reason, absl::StatusCode code) {
  return MakeRefused(Refusal{.reason = reason}, code, "refused");
}

TEST(IsTransientTest, ByCodeAndReason) {
  const TransientRow rows[] = {
      {"ok", absl::OkStatus(), false},
      {"unavailable", absl::UnavailableError(""), true},
      {"deadline exceeded", absl::DeadlineExceededError(""), true},
      {"cancelled by the network", absl::CancelledError(""), true},
      {"resource exhausted without a reason", absl::ResourceExhaustedError(""), false},
      {"internal", absl::InternalError(""), false},
      {"unknown", absl::UnknownError(""), false},
      {"aborted", absl::AbortedError(""), false},
      {"data loss", absl::DataLossError(""), false},
      {"permission denied", absl::PermissionDeniedError(""), false},
      {"unauthenticated", absl::UnauthenticatedError(""), false},
      {"invalid argument", absl::InvalidArgumentError(""), false},
  };
  for (const TransientRow& row : rows) {
    EXPECT_EQ(IsTransient(row.status), row.transient) << row.name;
  }
}

TEST(IsTransientTest, OnlyThreeReasonsPass) {
  for (int number = 0; number <= 20; ++number) {
    const auto reason = static_cast<ErrorReason>(number);
    const bool passes = reason == ErrorReason::kQuotaExceeded ||
                        reason == ErrorReason::kOverloaded ||
                        reason == ErrorReason::kStoreUnavailable;
    // The reason decides, even where the code alone would be worth a repetition.
    EXPECT_EQ(IsTransient(Refusing(reason, absl::StatusCode::kUnavailable)), passes)
        << Name(reason);
    EXPECT_EQ(IsTransient(Refusing(reason, absl::StatusCode::kResourceExhausted)), passes)
        << Name(reason);
  }
}

}  // namespace
}  // namespace idempotency
