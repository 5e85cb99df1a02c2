// What a scrape says, without a server: what belongs to one is tested on the real binary
// (tests/e2e/metrics_test.cc).
#include "service/exporter/exposition.h"

#include <map>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

namespace idempotency::service {
namespace {

class ExpositionTest : public testing::Test {
 protected:
  std::string Text() const { return prometheus::TextSerializer().Serialize(exposition_.Collect()); }
  bool Says(const std::string& line) const {
    return ("\n" + Text()).find("\n" + line + "\n") != std::string::npos;
  }

  Log log_{{LogLevel::kError}};
  ServiceMetrics metrics_;
  Exposition exposition_{&metrics_, &log_, {"1.2.3", "memory", "", core::Time{}}};
};

TEST_F(ExpositionTest, EveryFamilyHasOurPrefixAHelpAndOneSampleAtLeast) {
  std::set<std::string> names;
  for (const prometheus::MetricFamily& family : exposition_.Collect()) {
    EXPECT_EQ(family.name.rfind("idempotency_", 0), 0u) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_FALSE(family.metric.empty()) << family.name;
    EXPECT_TRUE(names.insert(family.name).second) << family.name << " is there twice";
    const bool counts = family.type == prometheus::MetricType::Counter;
    EXPECT_EQ(family.name.ends_with("_total"), counts) << family.name;
  }
}

TEST_F(ExpositionTest, AHistogramIsCumulativeAndInSeconds) {
  metrics_.OnTook(Verb::kReserve, std::chrono::microseconds(200), false);
  metrics_.OnTook(Verb::kReserve, std::chrono::seconds(60), false);
  const std::string name = "idempotency_request_duration_seconds";
  const std::string text = Text();
  for (const char* end :
       {"_bucket{method=\"reserve\",le=\"0.0001\"} 0", "_bucket{method=\"reserve\",le=\"10\"} 1",
        "_bucket{method=\"reserve\",le=\"+Inf\"} 2", "_count{method=\"reserve\"} 2"}) {
    EXPECT_NE(text.find(name + end), std::string::npos) << end << "\n" << text;
  }
}

TEST_F(ExpositionTest, WhatHasHappenedNowhereElseIsOfOtherNamespaces) {
  metrics_.OnOutcome(Verb::kComplete, CallOutcome(core::Reason::kLeaseLapsed), 0);
  EXPECT_TRUE(
      Says("idempotency_requests_total{method=\"complete\",outcome=\"lease_lapsed\","
           "idempotency_namespace=\"_other\"} 1"))
      << Text();
  EXPECT_TRUE(
      Says("idempotency_requests_total{method=\"reserve\",outcome=\"acquired\","
           "idempotency_namespace=\"_other\"} 0"));
}

TEST_F(ExpositionTest, SaysThatNothingIsReadyBeforeThereIsAServer) {
  EXPECT_FALSE(exposition_.ready());
  EXPECT_TRUE(Says("idempotency_ready 0"));
  EXPECT_TRUE(Says("idempotency_build_info{version=\"1.2.3\",engine=\"memory\"} 1"));
}

TEST_F(ExpositionTest, ABadConfigurationLeavesTheTimeOfTheGoodOne) {
  exposition_.OnConfigRead(true, core::Time(std::chrono::seconds(100)));
  exposition_.OnConfigRead(false, core::Time(std::chrono::seconds(200)));
  EXPECT_TRUE(Says("idempotency_config_last_reload_successful 0"));
  EXPECT_TRUE(Says("idempotency_config_last_reload_success_timestamp_seconds 100"));
}

}  // namespace
}  // namespace idempotency::service
