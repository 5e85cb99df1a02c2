// Quotas where they are asked: in the lane, in the middle of batches, across restarts and lapses.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::ElementsAre;

Request Limited(Request request, core::Quota quota, core::Quota scope_quota = {}) {
  core::Policy policy = *request.policy;
  policy.quota = quota;
  policy.scope_quota = scope_quota;
  request.policy = std::make_shared<const core::Policy>(policy);
  return request;
}

core::Quota Open(uint64_t operations) {
  core::Quota quota;
  quota.open_operations = operations;
  return quota;
}
core::Quota PerSecond(uint64_t reserves) {
  core::Quota quota;
  quota.reserves_per_second = reserves;
  return quota;
}

class QuotaTest : public ShellTest {
 protected:
  Call* Try(std::string_view key, uint64_t open = 2, uint64_t attempt = 1) {
    return Send(Limited(Reserve(key, attempt), Open(open)));
  }
  uint64_t open() const { return store->open_operations(KeyOf("").name_space, std::nullopt); }
};

TEST_F(QuotaTest, RefusesANewKeyAndNothingElse) {
  EXPECT_EQ(Try("a")->said, "ACQUIRED 1");
  EXPECT_EQ(Try("b")->said, "ACQUIRED 2");
  const Call* refused = Try("c");
  EXPECT_EQ(refused->said, "QUOTA_EXCEEDED");
  EXPECT_EQ(refused->reply.quota,
            (QuotaExcess{QuotaKind::kOpenOperations, false, kOpenQuotaRetryAfter}));
  EXPECT_EQ(StoredAs("c"), "ABSENT");
  // What exists is answered, and finished.
  EXPECT_EQ(Try("a")->said, "ALREADY_HELD 1");
  EXPECT_EQ(Try("a", 2, 7)->said, "IN_PROGRESS");
  EXPECT_EQ(Send(Limited(Complete("a", 1), Open(0)))->said, "COMPLETE");
  EXPECT_EQ(Try("a", 0)->said, "COMPLETED");
  EXPECT_EQ(Try("c")->said, "ACQUIRED 3") << "there is room again";
}

// A batch of a thousand must not be judged by what there was before it.
TEST_F(QuotaTest, ABatchDoesNotOvertakeItsOwnCount) {
  std::vector<Request> requests;
  for (const char* key : {"a", "b", "c", "d"}) {
    requests.push_back(Limited(Reserve(key, 1), Open(2)));
  }
  EXPECT_THAT(Said(SendAll(std::move(requests))),
              ElementsAre("ACQUIRED 1", "ACQUIRED 2", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"));
  EXPECT_EQ(open(), 2u);
}

TEST_F(QuotaTest, AKeyThatIsFreedInABatchMakesRoomInIt) {
  EXPECT_EQ(Try("a", 1)->said, "ACQUIRED 1");
  std::vector<Request> requests;
  requests.push_back(Limited(Reserve("b", 1), Open(1)));
  requests.push_back(Limited(Release("a", 1), Open(1)));
  requests.push_back(Limited(Reserve("c", 1), Open(1)));
  EXPECT_THAT(Said(SendAll(std::move(requests))),
              ElementsAre("QUOTA_EXCEEDED", "RELEASED FREED", "ACQUIRED 2"));
}

TEST_F(QuotaTest, WhatIsUnresolvedIsOpenUntilItIsSettled) {
  Try("a");
  EXPECT_EQ(Send(Mark("a", 1))->said, "MARKED UNRESOLVED");
  EXPECT_EQ(open(), 1u);
  Try("b");
  Pass(1h);
  EXPECT_EQ(open(), 2u) << "b has lapsed, and may have happened";
  EXPECT_EQ(Try("c")->said, "QUOTA_EXCEEDED");
  EXPECT_EQ(Send(Resolve("a", core::Resolution::kCompleted))->said, "RESOLVED COMPLETE");
  EXPECT_EQ(Try("c")->said, "ACQUIRED 3");
}

TEST_F(QuotaTest, WhatALapseFreesIsNotOpen) {
  Send(Limited(ReserveDispatchLater("a", 1), Open(1)));
  EXPECT_EQ(open(), 1u);
  Pass(kLease);
  EXPECT_EQ(open(), 0u);
  EXPECT_EQ(Try("b", 1)->said, "ACQUIRED 2");
}

TEST_F(QuotaTest, CountsAreRightAfterARestart) {
  Try("pending", 100);
  Try("unresolved", 100);
  Send(Mark("unresolved", 2));
  Try("complete", 100);
  Send(Complete("complete", 3));
  Try("released", 100);
  Send(Release("released", 4));
  Send(Limited(ReserveDispatchLater("lapses", 1), Open(100)));
  EXPECT_EQ(open(), 3u);
  Restart();
  ASSERT_TRUE(store->LoadOpen().ok());
  EXPECT_EQ(open(), 3u);
  Pass(kLease);
  EXPECT_EQ(open(), 2u) << "the one that was not dispatched is free";
  EXPECT_EQ(Send(Complete("pending", 1))->said, "COMPLETE");
  EXPECT_EQ(open(), 1u);
}

class ReplicatedQuotaTest : public ShellTest {
 protected:
  ReplicatedQuotaTest() : ShellTest(Replicated()) {}

  // Another replica applies `request`, without telling.
  void AnotherApplies(const Request& request) {
    const core::Decision decision =
        core::Step(engine.At(request.key), request.command, *request.policy, clock.Read(), 1);
    engine.Put(request.key, *decision.record);
  }
  uint64_t open() const { return store->open_operations(KeyOf("").name_space, std::nullopt); }
};

TEST_F(ReplicatedQuotaTest, WhatAnotherReplicaHasEndedIsOpenUntilItsLeaseWouldEnd) {
  Send(Reserve("a", 1));
  AnotherApplies(Complete("a", 1));
  EXPECT_EQ(open(), 1u);
  Pass(kLease);
  EXPECT_EQ(open(), 0u);
}

TEST_F(ReplicatedQuotaTest, WhoeverReadsThatAnOperationHasEndedTakesItOffTheCount) {
  Send(Reserve("a", 1));
  AnotherApplies(Complete("a", 1));
  EXPECT_EQ(Send(Get("a"))->said, "GOT COMPLETE");
  EXPECT_EQ(open(), 0u);
}

TEST_F(ReplicatedQuotaTest, WhatAnotherReplicaHasResolvedIsOpenUntilItTellsOfIt) {
  Send(Reserve("a", 1));
  Send(Mark("a", 1));
  AnotherApplies(Resolve("a", core::Resolution::kCompleted));
  EXPECT_EQ(open(), 1u);
  const size_t reads = engine.reads().size();
  engine.TellForeignChange(KeyOf("unheard of"));
  EXPECT_EQ(engine.reads().size(), reads);
  engine.TellForeignChange(KeyOf("a"));
  EXPECT_EQ(open(), 0u);
}

TEST_F(ReplicatedQuotaTest, WhatIsReadAndStillOpenStaysCounted) {
  Send(Reserve("a", 1));
  Send(Get("a"));
  EXPECT_EQ(open(), 1u);
  Pass(kLease);
  Send(Get("a"));
  EXPECT_EQ(open(), 1u) << "it has lapsed, and is unresolved";
}

TEST_F(QuotaTest, ReservesASecondAreCountedWhateverTheyAreAnswered) {
  const auto reserve = [&](std::string_view key, uint64_t attempt) {
    return Send(Limited(Reserve(key, attempt), PerSecond(2)))->said;
  };
  EXPECT_EQ(reserve("a", 1), "ACQUIRED 1");
  EXPECT_EQ(reserve("a", 1), "ALREADY_HELD 1");
  EXPECT_EQ(reserve("a", 1), "ALREADY_HELD 1") << "it is no new key";
  EXPECT_EQ(reserve("b", 1), "QUOTA_EXCEEDED");
  Pass(500ms);
  EXPECT_EQ(reserve("b", 1), "ACQUIRED 2");
  EXPECT_EQ(Send(Limited(Complete("b", 2), PerSecond(0)))->said, "COMPLETE");
}

// Whoever waits has paid when it came, and is told by what holds when it is its turn.
TEST_F(QuotaTest, AWaiterIsAskedAgainAndCountedOnce) {
  const auto limited = [](Request request) {
    core::Quota quota = PerSecond(1);
    quota.reserve_burst = 2;
    return Limited(std::move(request), quota);
  };
  EXPECT_EQ(Send(limited(Reserve("k", 1)))->said, "ACQUIRED 1");
  Call* const waits = Send(limited(Reserve("k", 2, 10s)));
  EXPECT_EQ(waits->said, "");
  EXPECT_EQ(Send(limited(Reserve("other", 1)))->said, "QUOTA_EXCEEDED");
  Send(Release("k", 1));
  EXPECT_EQ(waits->said, "ACQUIRED 2");
}

TEST_F(QuotaTest, ANewLimitHoldsFromTheNextRequestOn) {
  Try("a", 10);
  Try("b", 10);
  EXPECT_EQ(Try("c", 2)->said, "QUOTA_EXCEEDED");
  EXPECT_EQ(Try("c", core::kUnlimited)->said, "ACQUIRED 3");
}

// The same reason as before where there is one: it helps more to know that the name is wrong.
TEST_F(QuotaTest, AnotherReasonAgainstTheKeyGoesFirst) {
  Request request = Limited(Reserve("a", 1), Open(0));
  std::get<core::ReserveCommand>(request.command).refuse_new = core::Reason::kNamespaceNotFound;
  EXPECT_EQ(Send(std::move(request))->said, "NAMESPACE_NOT_FOUND");
}

}  // namespace
}  // namespace idempotency::keystore
