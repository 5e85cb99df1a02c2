#include "service/denial_sampler.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr core::Time kStart{seconds(1'800'000'000)};
const DenialStory kStory{"token:ci", "reserve", "payments"};

TEST(DenialSamplerTest, TheFirstOfAStoryAreToldAndTheRestIsCounted) {
  DenialSampler sampler;
  for (uint64_t i = 0; i < kDenialsToldOfStory; ++i) EXPECT_TRUE(sampler.Admit(kStory, kStart));
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(sampler.Admit(kStory, kStart));
  DenialStory other = kStory;
  other.action = "renew";
  EXPECT_TRUE(sampler.Admit(other, kStart)) << "a story of its own";
  EXPECT_THAT(sampler.TakeUntold(kStart + kDenialWindow - milliseconds(1)), IsEmpty());
  EXPECT_THAT(sampler.TakeUntold(kStart + kDenialWindow), ElementsAre(UntoldDenials{kStory, 1000}));
  EXPECT_THAT(sampler.TakeUntold(kStart + 2 * kDenialWindow), IsEmpty()) << "once";
}

TEST(DenialSamplerTest, AMinuteBeginsWithTheFirstDenialInIt) {
  DenialSampler sampler;
  EXPECT_THAT(sampler.TakeUntold(kStart), IsEmpty());
  const core::Time later = kStart + seconds(100);
  for (uint64_t i = 0; i <= kDenialsToldOfStory; ++i) sampler.Admit(kStory, later);
  EXPECT_THAT(sampler.TakeUntold(later + seconds(59)), IsEmpty());
  EXPECT_THAT(sampler.TakeUntold(later + seconds(60)), ElementsAre(UntoldDenials{kStory, 1}));
  EXPECT_TRUE(sampler.Admit(kStory, later + seconds(60))) << "a new minute tells again";
}

TEST(DenialSamplerTest, TheEndOfTheProcessAndAClockThatWasSetBackEndTheMinute) {
  DenialSampler sampler;
  for (uint64_t i = 0; i <= kDenialsToldOfStory; ++i) sampler.Admit(kStory, kStart);
  EXPECT_EQ(sampler.TakeUntold(kStart, true).size(), 1u);
  for (uint64_t i = 0; i <= kDenialsToldOfStory; ++i) sampler.Admit(kStory, kStart);
  EXPECT_EQ(sampler.TakeUntold(kStart - seconds(1)).size(), 1u);
}

// Whoever makes up identities without end must not hide a caller who is known.
TEST(DenialSamplerTest, StrangersTakeNoPlaceFromThoseWhoAreKnown) {
  DenialSampler sampler;
  for (int i = 0; i < 1000; ++i) sampler.Admit({"", "reserve", "n" + std::to_string(i)}, kStart);
  EXPECT_TRUE(sampler.Admit(kStory, kStart));
  for (int i = 0; i < 1000; ++i) sampler.Admit({"t", "reserve", "n" + std::to_string(i)}, kStart);
  const std::vector<UntoldDenials> untold = sampler.TakeUntold(kStart, true);
  ASSERT_EQ(untold.size(), 1u);
  EXPECT_EQ(untold[0].story, DenialStory{}) << "all that found no place, together";
  EXPECT_EQ(untold[0].count, 1000 - kMaxStrangerStories + 1000 - (kMaxKnownStories - 1));
}

TEST(DenialSamplerTest, ADayOfNothingButDenialsIsABoundedNumberOfLines) {
  DenialSampler sampler;
  uint64_t lines = 0;
  for (int second = 0; second < 24 * 3600; ++second) {
    const core::Time now = kStart + seconds(second);
    for (int i = 0; i < 20; ++i) {
      const DenialStory story{i % 2 == 0 ? "t" + std::to_string(second % 977) : "",
                              "reserve" + std::to_string(i), "n"};
      lines += sampler.Admit(story, now) ? 1 : 0;
    }
    lines += sampler.TakeUntold(now).size();
  }
  const uint64_t minutes = 24 * 60;
  const uint64_t told = kDenialsTold.burst + kDenialsTold.per_second * 24 * 3600;
  EXPECT_LE(lines, told + minutes * (kMaxKnownStories + kMaxStrangerStories + 1));
  EXPECT_GT(lines, told / 2) << "and not next to nothing";
}

}  // namespace
}  // namespace idempotency::service
