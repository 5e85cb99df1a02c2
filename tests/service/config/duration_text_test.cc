#include "service/duration_text.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

using core::Duration;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr char kNotADuration[] =
    "is not a duration: write whole numbers with the units d, h, m, s or ms, the largest first, "
    "such as 24h, 1h30m or 500ms";

TEST(DurationTextTest, ReadsWhatPeopleWrite) {
  const struct {
    const char* text;
    Duration expected;
  } kRows[] = {
      {"0", Duration(0)},
      {"0s", Duration(0)},
      {"-0s", Duration(0)},
      {"1ms", Duration(1)},
      {"500ms", Duration(500)},
      {"30s", seconds(30)},
      {"5m", minutes(5)},
      {"24h", hours(24)},
      {"7d", hours(168)},
      {"400d", hours(9600)},
      {"1h30m", minutes(90)},
      {"1d2h3m4s5ms", hours(26) + minutes(3) + seconds(4) + Duration(5)},
      {"90m", minutes(90)},
      {"010s", seconds(10)},
      {"-5s", seconds(-5)},
      {"-1h30m", minutes(-90)},
      {"3652500d", kMaxTextDuration},
      {"-3652500d", -kMaxTextDuration},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<Duration> read = ParseDuration(row.text);
    ASSERT_TRUE(read.ok()) << row.text << " " << read.status().message();
    EXPECT_EQ(read->count(), row.expected.count()) << row.text;
  }
}

TEST(DurationTextTest, SaysWhatIsWrong) {
  const std::string too_long = "is too long: write at most 3652500d";
  const struct {
    std::string text;
    std::string expected;
  } kRows[] = {
      {"", kNotADuration},
      {"-", kNotADuration},
      {"--5s", kNotADuration},
      {"s", kNotADuration},
      {"24", "has no unit: write 24s, 24m or 24h for seconds, minutes or hours"},
      {"-24", "has no unit: write 24s, 24m or 24h for seconds, minutes or hours"},
      {"1h30", kNotADuration},
      {"24x", kNotADuration},
      {"24H", kNotADuration},
      {"24hours", kNotADuration},
      {"1.5h", kNotADuration},
      {"30m1h", kNotADuration},
      {"1h1h", kNotADuration},
      {"1h 30m", kNotADuration},
      {" 1h", kNotADuration},
      {"1h ", kNotADuration},
      {"1h-30m", kNotADuration},
      {"5us", kNotADuration},
      {"+5s", kNotADuration},
      {"1e3s", kNotADuration},
      {std::string("1s\0", 3), kNotADuration},
      {"3652501d", too_long},
      {"3652500d1ms", too_long},
      {"999999999999999999d", too_long},
      {"1000000000000000000s", kNotADuration},
      {std::string(100'000, '9') + "s", kNotADuration},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<Duration> read = ParseDuration(row.text);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << row.text;
    EXPECT_EQ(std::string(read.status().message()), row.expected) << row.text;
  }
}

TEST(DurationTextTest, WritesTheLargestUnitFirst) {
  const struct {
    Duration duration;
    const char* expected;
  } kRows[] = {
      {Duration(0), "0s"},
      {Duration(1), "1ms"},
      {Duration(-1), "-1ms"},
      {seconds(60), "1m"},
      {hours(24), "1d"},
      {hours(36), "1d12h"},
      {minutes(90), "1h30m"},
      {-(hours(1) + Duration(7)), "-1h7ms"},
      {Duration::max(), "106751991167d7h12m55s807ms"},
      {Duration::min(), "-106751991167d7h12m55s808ms"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(FormatDuration(row.duration), row.expected) << row.duration.count();
  }
}

TEST(DurationTextTest, ReadsBackWhatItWrites) {
  // Steps that are not multiples of any unit, through the whole range and both signs.
  for (int64_t ms = 1; ms < kMaxTextDuration.count(); ms = ms * 3 + 1) {
    for (const Duration duration : {Duration(ms), Duration(-ms)}) {
      const absl::StatusOr<Duration> read = ParseDuration(FormatDuration(duration));
      ASSERT_TRUE(read.ok()) << FormatDuration(duration);
      EXPECT_EQ(*read, duration) << FormatDuration(duration);
    }
  }
}

}  // namespace
}  // namespace idempotency::service
