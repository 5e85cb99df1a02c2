#include "keystore/token_bucket.h"

#include "gtest/gtest.h"

namespace idempotency::keystore {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr core::Time kStart{seconds(1'800'000'000)};

int TakeAll(TokenBucket* bucket, const Rate& rate, core::Time now) {
  int taken = 0;
  while (bucket->Take(rate, now)) ++taken;
  return taken;
}

TEST(TokenBucketTest, IsFullAtFirstAndNeverMoreThanFull) {
  const Rate rate{.per_second = 10, .burst = 25};
  TokenBucket bucket;
  EXPECT_TRUE(bucket.IsFull(rate, kStart));
  EXPECT_EQ(TakeAll(&bucket, rate, kStart), 25);
  EXPECT_FALSE(bucket.IsFull(rate, kStart));
  EXPECT_EQ(TakeAll(&bucket, rate, kStart + hours(1)), 25);
  EXPECT_FALSE(bucket.IsFull(rate, kStart + hours(1) + milliseconds(2499)));
  EXPECT_TRUE(bucket.IsFull(rate, kStart + hours(1) + milliseconds(2500)));
}

TEST(TokenBucketTest, GivesOneWhenItsTimeHasComeAndNotBefore) {
  const Rate rate{.per_second = 4, .burst = 1};
  TokenBucket bucket;
  EXPECT_TRUE(bucket.Take(rate, kStart));
  EXPECT_EQ(bucket.Wait(rate, kStart), milliseconds(250));
  EXPECT_FALSE(bucket.Take(rate, kStart + milliseconds(249)));
  EXPECT_EQ(bucket.Wait(rate, kStart + milliseconds(249)), milliseconds(1));
  EXPECT_TRUE(bucket.Take(rate, kStart + milliseconds(250)));
}

// Rounding must not lose what is asked for often.
TEST(TokenBucketTest, ARateIsKeptHoweverOftenItIsAsked) {
  for (const uint64_t per_second : {1u, 3u, 7u, 999u, 1001u, 100'000u}) {
    const Rate rate{.per_second = per_second, .burst = 1000};
    TokenBucket bucket;
    TakeAll(&bucket, rate, kStart);
    uint64_t taken = 0;
    for (int ms = 1; ms <= 10'000; ++ms) {
      taken += static_cast<uint64_t>(TakeAll(&bucket, rate, kStart + milliseconds(ms)));
    }
    EXPECT_EQ(taken, 10 * per_second);
  }
}

TEST(TokenBucketTest, TimeThatRunsBackwardsStandsStill) {
  const Rate rate{.per_second = 1, .burst = 1};
  TokenBucket bucket;
  EXPECT_TRUE(bucket.Take(rate, kStart));
  EXPECT_FALSE(bucket.Take(rate, kStart - hours(1)));
  EXPECT_FALSE(bucket.Take(rate, kStart + milliseconds(999)));
  EXPECT_TRUE(bucket.Take(rate, kStart + seconds(1)));
}

TEST(TokenBucketTest, ANewRateHoldsFromNowOn) {
  TokenBucket bucket;
  EXPECT_EQ(TakeAll(&bucket, {.per_second = 1, .burst = 10}, kStart), 10);
  EXPECT_EQ(TakeAll(&bucket, {.per_second = 100, .burst = 100}, kStart), 0);
  EXPECT_EQ(TakeAll(&bucket, {.per_second = 100, .burst = 100}, kStart + seconds(1)), 100);
  EXPECT_EQ(TakeAll(&bucket, {.per_second = 1, .burst = 3}, kStart + hours(1)), 3);
}

TEST(TokenBucketTest, NoneASecondIsNoneEver) {
  const Rate rate{.per_second = 0, .burst = 0};
  TokenBucket bucket;
  EXPECT_FALSE(bucket.Take(rate, kStart));
  EXPECT_FALSE(bucket.Take(rate, kStart + hours(1)));
  EXPECT_EQ(bucket.Wait(rate, kStart + hours(1)), core::Duration::max());
}

TEST(TokenBucketTest, TheLargestRatesDoNotOverflow) {
  const Rate rate{.per_second = 1'000'000'000, .burst = 1'000'000'000};
  TokenBucket bucket;
  EXPECT_TRUE(bucket.Take(rate, kStart));
  EXPECT_TRUE(bucket.IsFull(rate, core::kMaxTime));
}

}  // namespace
}  // namespace idempotency::keystore
