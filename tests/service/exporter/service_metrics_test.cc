// What is counted, by how many threads ever.
#include "service/exporter/service_metrics.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/call_outcome.h"
#include "service/namespace_rows.h"

namespace idempotency::service {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using testing::ElementsAre;

constexpr StripedHistogram<3>::Bounds kSizes{1, 10, 100};

TEST(StripedHistogramTest, ABoundBelongsToTheBucketBelowIt) {
  StripedHistogram<3> sizes(&kSizes);
  for (const uint64_t size : {0, 1, 2, 10, 11, 100, 101, 5000}) sizes.Observe(size);
  EXPECT_THAT(sizes.Read().counts, ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(sizes.Read().sum, 5225u);
}

TEST(StripedHistogramTest, LosesNothingBetweenThreads) {
  constexpr int kThreads = 2 * kStripes;
  constexpr int kEach = 1000;
  StripedHistogram<3> sizes(&kSizes);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) sizes.Observe(7);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sizes.Read().counts, ElementsAre(0, kThreads * kEach, 0, 0));
  EXPECT_EQ(sizes.Read().sum, 7u * kThreads * kEach);
}

TEST(ServiceMetricsTest, CountsByNamespaceMethodAndOutcome) {
  ServiceMetrics metrics;
  const CallOutcome acquired(core::ReserveOutcome::kAcquired);
  const CallOutcome stale(core::Reason::kStaleFencingToken);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      // All make the row at once.
      metrics.OnOutcome(Verb::kReserve, acquired, 3);
      metrics.OnOutcome(Verb::kComplete, stale, kMaxNamespaceRows - 1);
      metrics.OnBodyOmitted(5);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.outcomes(3, Verb::kReserve, acquired.number()), 8u);
  EXPECT_EQ(metrics.outcomes(3, Verb::kComplete, acquired.number()), 0u);
  EXPECT_EQ(metrics.outcomes(0, Verb::kReserve, acquired.number()), 0u);
  EXPECT_EQ(metrics.bodies_omitted(5), 8u);
  EXPECT_EQ(metrics.bodies_omitted(3), 0u);
  EXPECT_EQ(metrics.bodies_omitted(6), 0u);
  EXPECT_EQ(metrics.outcomes(kMaxNamespaceRows - 1, Verb::kComplete, stale.number()), 8u);
}

TEST(ServiceMetricsTest, WhoHasWaitedIsNoMeasureOfTheService) {
  ServiceMetrics metrics;
  metrics.OnTook(Verb::kReserve, microseconds(300), false);
  metrics.OnTook(Verb::kReserve, seconds(20), true);
  EXPECT_EQ(metrics.durations(Verb::kReserve).Read().sum, 300'000u);
  EXPECT_EQ(metrics.waits().Read().sum, 20'000'000'000u);
}

TEST(ServiceMetricsTest, ABatchThatWritesNothingSaysNothingOfTheDisk) {
  ServiceMetrics metrics;
  metrics.OnCommit(5, 0, microseconds(0));
  metrics.OnCommit(7, 3, microseconds(900));
  EXPECT_EQ(metrics.batches().Read().sum, 12u);
  EXPECT_EQ(metrics.commits().Read().sum, 900'000u);
  EXPECT_EQ(metrics.written_records(), 3u);
}

TEST(CallOutcomeTest, HasANameForEachAndNoTwoAlike) {
  std::vector<std::string> names;
  for (size_t i = 0; i < CallOutcome::kCount; ++i) names.push_back(CallOutcome::NameOf(i));
  EXPECT_EQ(names[0], "ok");
  EXPECT_EQ(names[CallOutcome(core::ReserveOutcome::kAcquired).number()], "acquired");
  EXPECT_EQ(names[CallOutcome(core::Reason::kRecordUnreadable).number()], "record_unreadable");
  for (const std::string& name : names) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
    EXPECT_NE(name, "unknown");
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
  }
}

TEST(NamespaceRowsTest, ARowStaysWhatItIs) {
  const uint32_t row = NamespaceRow("rows-test-a");
  EXPECT_NE(row, 0u);
  EXPECT_NE(NamespaceRow("rows-test-b"), row);
  EXPECT_EQ(NamespaceRow("rows-test-a"), row);
  EXPECT_EQ(NamespaceRowNames()[row], "rows-test-a");
  EXPECT_EQ(NamespaceRowNames()[0], kOtherNamespaces);
}

TEST(NamespaceRowsTest, WhatIsTooManyIsCountedTogether) {
  for (size_t i = 0; i < kMaxNamespaceRows; ++i) NamespaceRow("rows-test-" + std::to_string(i));
  EXPECT_EQ(NamespaceRow("rows-test-one-too-many"), 0u);
  EXPECT_EQ(NamespaceRowNames().size(), kMaxNamespaceRows);
}

}  // namespace
}  // namespace idempotency::service
