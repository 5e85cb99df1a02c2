// Reading metrics, and the screen that is made of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/ctl/metrics.h"
#include "client/ctl/top_text.h"

namespace idempotency::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(MetricsTest, ReadsSamplesWithTheirLabels) {
  const Metrics metrics = Metrics::Parse(
      "# HELP a_total What it is.\n"
      "# TYPE a_total counter\n"
      "a_total{method=\"reserve\",outcome=\"ok\"} 3\n"
      "a_total{method=\"renew\",outcome=\"a \\\"b\\\"\\n\"} 4.5 1767323045000\n"
      "b 1e3\n"
      "broken{x=\"y\n"
      "broken two\n"
      "c +Inf");
  ASSERT_EQ(metrics.Get("a_total").size(), 2u);
  EXPECT_EQ(metrics.Get("a_total")[1].labels.at("outcome"), "a \"b\"\n");
  EXPECT_EQ(metrics.Sum("a_total"), 7.5);
  EXPECT_EQ(metrics.Sum("a_total", "method", "renew"), 4.5);
  EXPECT_EQ(metrics.Max("b"), 1000);
  EXPECT_EQ(metrics.Get("broken").size(), 0u);
  EXPECT_EQ(metrics.Sum("none"), 0);
  EXPECT_TRUE(Metrics::Parse("no metrics at all\n").empty());
}

std::string Buckets(int fast, int slow) {
  const std::string name = "idempotency_request_duration_seconds_bucket{method=\"reserve\",le=\"";
  return name + "0.001\"} " + std::to_string(fast) + "\n" + name + "0.1\"} " +
         std::to_string(fast + slow) + "\n" + name + "+Inf\"} " + std::to_string(fast + slow) +
         "\n";
}

TEST(TopTextTest, PercentilesAreOfTheSpanAlone) {
  const std::string histogram = "idempotency_request_duration_seconds";
  const Metrics before = Metrics::Parse(Buckets(0, 1000));
  const Metrics now = Metrics::Parse(Buckets(99, 1001));
  EXPECT_EQ(Quantile(before, now, histogram, "method", "reserve", 0.5), 0.001);
  EXPECT_EQ(Quantile(before, now, histogram, "method", "reserve", 0.99), 0.001);
  EXPECT_EQ(Quantile(before, now, histogram, "method", "reserve", 0.999), 0.1);
  EXPECT_LT(Quantile(now, now, histogram, "method", "reserve", 0.5), 0);
  EXPECT_LT(Quantile(before, now, histogram, "method", "renew", 0.5), 0);
}

TEST(TopTextTest, ShowsWhatToLookAt) {
  const std::string well =
      "idempotency_ready 1\nidempotency_store_alive 1\n"
      "idempotency_requests_total{method=\"reserve\",outcome=\"acquired\"} ";
  const Metrics before = Metrics::Parse(well + "100\n" + Buckets(0, 0));
  const Metrics now = Metrics::Parse(
      well + "300\nidempotency_requests_total{method=\"reserve\",outcome=\"overloaded\"} 50\n" +
      Buckets(200, 0) +
      "idempotency_unresolved_operations{idempotency_namespace=\"payments\"} 3\n"
      "idempotency_unresolved_operations{idempotency_namespace=\"quiet\"} 0\n"
      "idempotency_unresolved_oldest_age_seconds{idempotency_namespace=\"payments\"} 192\n");
  const std::string text = TopText(before, now, absl::Seconds(2));
  EXPECT_THAT(text, HasSubstr("alarms             none\n"));
  EXPECT_THAT(text, HasSubstr("payments 3; the oldest for 3m12s\n"));
  EXPECT_THAT(text, Not(HasSubstr("quiet")));
  EXPECT_THAT(text, HasSubstr("reserve  125.0     overloaded 25.0  1ms  1ms"));
  EXPECT_THAT(TopText({}, Metrics::Parse("idempotency_store_full 1\n"), absl::Seconds(2)),
              HasSubstr("NOT READY, STORE DEAD, STORE FULL"));
}

}  // namespace
}  // namespace idempotency::ctl
