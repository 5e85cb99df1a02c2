#include "client/ctl/duration_text.h"

#include <gtest/gtest.h>

namespace idempotency::ctl {
namespace {

struct ParseRow {
  const char* text;
  absl::Duration duration;
};

TEST(DurationText, ReadsWhatPeopleWrite) {
  const ParseRow rows[] = {
      {"0", absl::ZeroDuration()},        {"0s", absl::ZeroDuration()},
      {"30s", absl::Seconds(30)},         {"500ms", absl::Milliseconds(500)},
      {"24h", absl::Hours(24)},           {"1h30m", absl::Minutes(90)},
      {"1.5s", absl::Milliseconds(1500)}, {"0.000000001s", absl::Nanoseconds(1)},
      {"30d", absl::Hours(30 * 24)},      {"7us", absl::Microseconds(7)},
      {"9ns", absl::Nanoseconds(9)},      {"315576000000s", kMaxDuration},
  };
  for (const ParseRow& row : rows) EXPECT_EQ(ParseDuration(row.text), row.duration) << row.text;
}

TEST(DurationText, RefusesEverythingElse) {
  for (const char* text :
       {"", " ", "30", "s", "-1s", "+1s", "1 s", "1s ", "1x", "1.s", ".5s", "1..5s", "1e3s", "1S",
        "inf", "1h-3m", "315576000001s", "9999999999999999s", "999999999999999d"}) {
    EXPECT_EQ(ParseDuration(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(DurationText, WritesExactlyAndReadsItBack) {
  const ParseRow rows[] = {
      {"0s", absl::ZeroDuration()}, {"500ms", absl::Milliseconds(500)},
      {"1m30s", absl::Seconds(90)}, {"24h", absl::Hours(24)},
      {"36h", absl::Hours(36)},     {"2d", absl::Hours(48)},
      {"30d", absl::Hours(720)},    {"1s1ns", absl::Seconds(1) + absl::Nanoseconds(1)},
  };
  for (const ParseRow& row : rows) {
    EXPECT_EQ(DurationText(row.duration), row.text);
    EXPECT_EQ(ParseDuration(DurationText(row.duration)), row.duration) << row.text;
  }
}

TEST(DurationText, SpansShowTheLargestUnitOrTwo) {
  const ParseRow rows[] = {
      {"450ms", absl::Milliseconds(450)},
      {"1s", absl::Milliseconds(1999)},
      {"45s", absl::Seconds(45)},
      {"3m", absl::Minutes(3)},
      {"3m12s", absl::Seconds(192)},
      {"12m", absl::Seconds(12 * 60 + 30)},
      {"5h20m", absl::Minutes(320)},
      {"47h", absl::Hours(47)},
      {"2d", absl::Hours(48)},
      {"2d5h", absl::Hours(53)},
      {"12d", absl::Hours(12 * 24 + 5)},
  };
  for (const ParseRow& row : rows) EXPECT_EQ(SpanText(row.duration), row.text);
}

TEST(DurationText, AgesNameTheMomentToo) {
  const absl::Time now = absl::FromUnixSeconds(1'767'323'045);
  EXPECT_EQ(AgeText(now - absl::Minutes(3), now), "3m ago (2026-01-02T03:01:05Z)");
  EXPECT_EQ(AgeText(now + absl::Seconds(29), now), "in 29s (2026-01-02T03:04:34Z)");
  EXPECT_EQ(AgeText(now, now), "now (2026-01-02T03:04:05Z)");
  EXPECT_EQ(AgeText(now - absl::Milliseconds(999), now), "now (2026-01-02T03:04:04Z)");
  EXPECT_EQ(AgeText(now - absl::Seconds(1), now), "1s ago (2026-01-02T03:04:04Z)");
  EXPECT_EQ(AgeText(now + absl::Seconds(1), now), "in 1s (2026-01-02T03:04:06Z)");
}

}  // namespace
}  // namespace idempotency::ctl
