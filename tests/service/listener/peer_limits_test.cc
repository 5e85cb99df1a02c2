#include "service/listener/peer_limits.h"

#include <string>

#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

constexpr core::Duration kMs{1};

TEST(PeerLimitsTest, CountsAllAndEachPeer) {
  PeerLimits limits({.max_connections = 3, .max_connections_per_peer = 2});
  EXPECT_EQ(limits.Enter("a", 0 * kMs), Admittance::kAdmitted);
  EXPECT_EQ(limits.Enter("a", 0 * kMs), Admittance::kAdmitted);
  EXPECT_EQ(limits.Enter("a", 0 * kMs), Admittance::kTooManyOfPeer);
  EXPECT_EQ(limits.Enter("b", 0 * kMs), Admittance::kAdmitted);
  EXPECT_EQ(limits.Enter("c", 0 * kMs), Admittance::kTooMany);
  EXPECT_EQ(limits.connections(), 3u);
  limits.Left("a");
  EXPECT_EQ(limits.Enter("c", 0 * kMs), Admittance::kAdmitted);
  EXPECT_EQ(limits.Enter("a", 0 * kMs), Admittance::kTooMany);
  limits.Left("nobody");
  EXPECT_EQ(limits.connections(), 3u);
}

TEST(PeerLimitsTest, KeepsOutWhoMisbehavesAndOnlyThem) {
  PeerLimits limits({});
  ASSERT_EQ(limits.Enter("a", 0 * kMs), Admittance::kAdmitted);
  limits.Misbehaved("a", 5 * kMs);
  EXPECT_EQ(limits.Enter("b", 5 * kMs), Admittance::kAdmitted);
  EXPECT_EQ(limits.Enter("a", 5 * kMs), Admittance::kKeptOut);
  EXPECT_EQ(limits.Enter("a", 4 * kMs + kFirstKeptOut), Admittance::kKeptOut);
  EXPECT_EQ(limits.Enter("a", 5 * kMs + kFirstKeptOut), Admittance::kAdmitted);
}

TEST(PeerLimitsTest, KeepsOutLongerEachTimeUpToTheLongest) {
  PeerLimits limits({});
  core::Duration now{0};
  for (core::Duration span = kFirstKeptOut; span < kLongestKeptOut; span *= 2) {
    limits.Misbehaved("a", now);
    EXPECT_EQ(limits.Enter("a", now + span - 1 * kMs), Admittance::kKeptOut);
    now += span;
    EXPECT_EQ(limits.Enter("a", now), Admittance::kAdmitted);
  }
  for (int i = 0; i < 3; ++i) {
    limits.Misbehaved("a", now);
    EXPECT_EQ(limits.Enter("a", now + kLongestKeptOut - 1 * kMs), Admittance::kKeptOut);
    now += kLongestKeptOut;
    EXPECT_EQ(limits.Enter("a", now), Admittance::kAdmitted);
  }
}

TEST(PeerLimitsTest, TakesWhatIsFoundMeanwhileForOneDeed) {
  PeerLimits limits({});
  for (int i = 0; i < 10; ++i) limits.Misbehaved("a", 0 * kMs);
  EXPECT_EQ(limits.Enter("a", kFirstKeptOut), Admittance::kAdmitted);
}

TEST(PeerLimitsTest, ForgetsWhoKeepsStill) {
  PeerLimits limits({});
  for (int i = 0; i < 3; ++i) limits.Misbehaved("a", i * kLongestKeptOut);
  const core::Duration later = 4 * kLongestKeptOut;
  ASSERT_EQ(limits.Enter("a", later), Admittance::kAdmitted);
  limits.Misbehaved("a", later);
  EXPECT_EQ(limits.Enter("a", later + kFirstKeptOut), Admittance::kAdmitted);
}

TEST(PeerLimitsTest, RemembersABoundedNumberOfPeers) {
  PeerLimits limits({});
  // Each at a time of its own, so that the time of most is up.
  for (size_t i = 0; i < 3 * kMaxRemembered; ++i) {
    const core::Duration now(static_cast<int64_t>(i));
    limits.Misbehaved("peer " + std::to_string(i), now);
  }
  EXPECT_LE(limits.remembered(), kMaxRemembered + 1);
}

}  // namespace
}  // namespace idempotency::service
