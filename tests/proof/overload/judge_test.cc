// The judges of overload and soak, on series that are made up: what they have to notice is noticed.
#include "tests/proof/overload/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/proof/overload/steadiness.h"

namespace idempotency::proof {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- Overload ------------------------------------------------------------------------------------

Round GoodRound() {
  return Round{.normal_before = 10'000,
               .overload = 9'000,
               .normal_after = 10'000,
               .offered_per_second = 95'000,
               .refused_per_second = 86'000,
               .good_p99_ms = 60,
               .refused_p99_ms = 20,
               .finished = 1'000,
               .recovery_seconds = 0.5};
}

std::vector<std::string> Told(const std::function<void(Round&)>& change) {
  std::vector<Round> rounds(3, GoodRound());
  for (Round& round : rounds) change(round);
  return Judge(rounds);
}

TEST(OverloadJudgeTest, AGoodRoundPasses) {
  EXPECT_THAT(Told([](Round&) {}), IsEmpty());
}

TEST(OverloadJudgeTest, ACollapseIsNoticed) {
  EXPECT_THAT(Told([](Round& r) { r.overload = 7'900; }), ElementsAre(HasSubstr("goodput")));
}

TEST(OverloadJudgeTest, AnOverloadThatIsNoneIsNoticed) {
  EXPECT_THAT(Told([](Round& r) { r.refused_per_second = 0; }),
              ElementsAre(HasSubstr("nobody was refused")));
  EXPECT_THAT(Told([](Round& r) { r.offered_per_second = 70'000; }),
              ElementsAre(HasSubstr("only 7.0 times")));
}

TEST(OverloadJudgeTest, SlowRefusalsAreNoticed) {
  EXPECT_THAT(Told([](Round& r) { r.refused_p99_ms = 31; }), ElementsAre(HasSubstr("p99")));
}

TEST(OverloadJudgeTest, ASlowRecoveryIsNoticed) {
  EXPECT_THAT(Told([](Round& r) { r.recovery_seconds = 5.1; }), ElementsAre(HasSubstr("back")));
  EXPECT_THAT(Told([](Round& r) { r.recovery_seconds = -1; }), ElementsAre(HasSubstr("back")));
}

TEST(OverloadJudgeTest, OneDisturbedRoundOfThreeDoesNotDecide) {
  std::vector<Round> rounds(3, GoodRound());
  rounds[1].overload = 100;
  rounds[1].recovery_seconds = -1;
  EXPECT_THAT(Judge(rounds), IsEmpty());
}

TEST(OverloadJudgeTest, OneWrongRefusalDoes) {
  std::vector<Round> rounds(3, GoodRound());
  rounds[1].without_retry_info = 1;
  rounds[2].finished = 0;
  EXPECT_THAT(Judge(rounds), ElementsAre(HasSubstr("RetryInfo"), HasSubstr("holder")));
}

Phase Tenths(const std::vector<uint64_t>& good, float milliseconds) {
  Phase phase;
  for (const uint64_t count : good) {
    phase.tenths.push_back(
        Tenth{.good = count, .good_ms = std::vector<float>(count, milliseconds)});
  }
  return phase;
}

TEST(OverloadJudgeTest, RecoveryIsWhenHalfASecondIsAsNormal) {
  const Phase after = Tenths({0, 0, 10, 100, 100, 100, 100, 100}, 5);
  EXPECT_EQ(RecoverySeconds(after, 1000, 5), 0.2);
  EXPECT_EQ(RecoverySeconds(after, 1300, 5), -1) << "less goodput than before";
  EXPECT_EQ(RecoverySeconds(after, 1000, 1), -1) << "more latency than before";
}

// --- Soak ----------------------------------------------------------------------------------------

// A sample a second for two minutes: what was there at the start, and what comes each second.
std::vector<double> Series(double level, double each, double noise) {
  std::vector<double> series;
  for (int i = 0; i < 120; ++i) series.push_back(level + each * i + noise * ((i * 7 % 11) - 5) / 5);
  return series;
}

TEST(SteadinessTest, NoiseAroundALevelIsSteady) {
  EXPECT_EQ(Unsteady("memory", Series(100, 0, 8), 10), "");
}

TEST(SteadinessTest, WhatGrowsOnlyWhileItWarmsUpIsSteady) {
  std::vector<double> series = Series(100, 0, 1);
  for (size_t i = 0; i < series.size() / 3; ++i) series[i] = static_cast<double>(i);
  EXPECT_EQ(Unsteady("memory", series, 10), "");
}

TEST(SteadinessTest, AGrowingSeriesIsNoticed) {
  EXPECT_THAT(Unsteady("memory", Series(100, 0.5, 8), 10), HasSubstr("memory grew"));
  EXPECT_THAT(Unsteady("threads", Series(20, 0.1, 0), 2), HasSubstr("threads grew"));
}

TEST(SteadinessTest, TooFewSamplesProveNothing) {
  EXPECT_THAT(Unsteady("memory", {1, 1, 1}, 10), HasSubstr("samples"));
}

}  // namespace
}  // namespace idempotency::proof
