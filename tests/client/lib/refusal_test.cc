// A refusal survives its way through a status.
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "idempotency/connection.h"

namespace idempotency {
namespace {

TEST(RefusalTest, ComesBackAsItWas) {
  for (int number = 0; number <= 255; ++number) {
    for (const char* field : {"", "id.key", "two words", "- 5 x"}) {
      for (const std::optional<Duration>& retry_after :
           {std::optional<Duration>(), std::optional(Duration{0}), std::optional(Duration{1500}),
            std::optional(Duration{-7}), std::optional(Duration::max())}) {
        const Refusal refusal{static_cast<ErrorReason>(number), field, retry_after};
        const absl::Status status =
            MakeRefused(refusal, absl::StatusCode::kFailedPrecondition, "no");
        EXPECT_EQ(Refused(status), refusal) << number << " " << field;
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(status.message(), "no");
      }
    }
  }
}

TEST(RefusalTest, IsInNoOtherStatus) {
  EXPECT_EQ(Refused(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(Refused(absl::UnavailableError("lost")), std::nullopt);
  absl::Status other = absl::UnavailableError("lost");
  other.SetPayload("something/else", absl::Cord("15 - "));
  EXPECT_EQ(Refused(other), std::nullopt);
}

}  // namespace
}  // namespace idempotency
