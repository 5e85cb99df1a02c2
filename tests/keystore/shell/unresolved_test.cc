// What is told to metrics: how many operations are open, since when, and how long things took.
#include "keystore/unresolved.h"

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class UnresolvedTest : public ShellTest {
 protected:
  explicit UnresolvedTest(Traits traits = {}) : ShellTest(traits) {}

  UnresolvedCount Of(size_t operations, core::Duration since_start) const {
    return UnresolvedCount{"pay", operations, kStart + since_start};
  }
};

TEST_F(UnresolvedTest, EveryWayIntoTheUnknownIsCountedAndEveryWayOut) {
  Send(Reserve("marked", 1));
  Send(Reserve("lapses", 2));
  EXPECT_EQ(store->pending(), 2u);
  EXPECT_THAT(store->unresolved(), IsEmpty());
  Pass(5s);
  Send(Mark("marked", 1));
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(1, 5s)));
  EXPECT_EQ(store->pending(), 1u);
  Pass(kLease - 5s);
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(2, 5s))) << "it lapsed";
  EXPECT_EQ(store->pending(), 0u);
  // The oldest goes: the next is the oldest.
  Send(Resolve("marked", core::Resolution::kCompleted));
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(1, kLease)));
  Send(Complete("lapses", 2));
  EXPECT_THAT(store->unresolved(), IsEmpty());
}

TEST_F(UnresolvedTest, ANewAttemptEndsIt) {
  Send(Rerun(Reserve("k", 1)));
  Send(Rerun(Mark("k", 1)));
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(1, 0s)));
  Call* const again = Send(Rerun(Reserve("k", 2)));
  EXPECT_EQ(again->said, "ACQUIRED 2");
  EXPECT_THAT(store->unresolved(), IsEmpty());
  EXPECT_EQ(store->pending(), 1u);
}

TEST_F(UnresolvedTest, AForcedDeleteEndsIt) {
  Send(Reserve("k", 1));
  Send(Mark("k", 1));
  Send(Delete("k", true));
  EXPECT_THAT(store->unresolved(), IsEmpty());
}

TEST_F(UnresolvedTest, WhatIsForgottenIsNotCounted) {
  Send(Rerun(Reserve("k", 1), 1h));
  Send(Rerun(Mark("k", 1), 1h));
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(1, 0s)));
  Pass(2h);
  store->Sweep();
  EXPECT_EQ(StoredAs("k"), "ABSENT");
  EXPECT_THAT(store->unresolved(), IsEmpty());
}

class ReplicatedUnresolvedTest : public UnresolvedTest {
 protected:
  ReplicatedUnresolvedTest() : UnresolvedTest(Replicated()) {}

  // Another replica applies `request`, without telling.
  void AnotherApplies(const Request& request) {
    const core::Decision decision =
        core::Step(engine.At(request.key), request.command, *request.policy, clock.Read(), 1);
    engine.Put(request.key, *decision.record);
  }
};

TEST_F(ReplicatedUnresolvedTest, WhatAnotherReplicaSettlesIsCountedUntilItTellsOfIt) {
  Send(Reserve("marked", 1));
  Send(Mark("marked", 1));
  Send(Reserve("lapses", 2));
  Pass(kLease);
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(2, 0s)));
  engine.TellForeignChange(KeyOf("lapses"));
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(2, 0s))) << "it is so still";
  AnotherApplies(Complete("lapses", 2));
  engine.TellForeignChange(KeyOf("lapses"));
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(1, 0s)));
  AnotherApplies(Resolve("marked", core::Resolution::kCompleted));
  engine.TellForeignChange(KeyOf("marked"));
  EXPECT_THAT(store->unresolved(), IsEmpty());
}

TEST_F(ReplicatedUnresolvedTest, WhatAnotherSettlesIsNotCountedForEverWhereTheWordOfItIsLost) {
  Send(Reserve("settled", 1));
  Send(Mark("settled", 1));
  Send(Reserve("open", 2));
  Send(Mark("open", 2));
  AnotherApplies(Resolve("settled", core::Resolution::kCompleted));
  store->Sweep();
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(2, 0s))) << "not looked at yet";
  Pass(10min);
  store->Sweep();
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(1, 0s)));
  EXPECT_EQ(store->open_operations("pay", std::nullopt), 1u);
  // What is still open is looked at again, also where it could not be read in between.
  Pass(10min);
  engine.FailNextReads(1);
  store->Sweep();
  AnotherApplies(Resolve("open", core::Resolution::kCompleted));
  Pass(10min);
  store->Sweep();
  EXPECT_THAT(store->unresolved(), IsEmpty());
  EXPECT_EQ(store->open_operations("pay", std::nullopt), 0u);
}

TEST_F(ReplicatedUnresolvedTest, WhatIsFoundAtAStartIsNotLookedAtAllAtOnce) {
  constexpr size_t kOperations = 400;
  for (size_t i = 0; i < kOperations; ++i) {
    const std::string key = std::to_string(i);
    Send(Reserve(key, i + 1));
    // The others lapse while nobody runs.
    if (i % 2 == 0) Send(Mark(key, i + 1));
  }
  clock.Advance(kLease);
  Restart();
  ASSERT_TRUE(store->LoadOpen().ok());
  RunTimers();
  const auto looked_at = [this] {
    const std::vector<size_t> reads = engine.reads();
    return std::accumulate(reads.begin(), reads.end(), size_t{0});
  };
  const size_t before = looked_at();
  for (int minute = 0; minute < 10; ++minute) {
    const size_t last = looked_at();
    Pass(1min);
    store->Sweep();
    EXPECT_GT(looked_at(), last) << minute;
    EXPECT_LT(looked_at(), last + kOperations / 3) << minute;
  }
  EXPECT_EQ(looked_at(), before + kOperations) << "each once";
}

TEST_F(ReplicatedUnresolvedTest, WhatAnotherReplicaHasMarkedIsCountedFromTheEndOfItsLeaseOn) {
  Send(Reserve("k", 1));
  Pass(5s);
  AnotherApplies(Mark("k", 1));
  Pass(kLease);
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(1, 5s)));
}

TEST_F(UnresolvedTest, IsKnownAgainAfterARestart) {
  Send(Reserve("marked", 1));
  Send(Reserve("lapsed", 2));
  Send(Reserve("freed", 3));
  Send(Release("freed", 3));
  Send(Mark("marked", 1));
  clock.Advance(kLease);
  Restart();
  ASSERT_TRUE(store->LoadOpen().ok());
  RunTimers();
  EXPECT_THAT(store->unresolved(), ElementsAre(Of(2, 0s)));
  EXPECT_EQ(store->pending(), 0u);
}

TEST_F(UnresolvedTest, AReplySaysWhetherItWasWaitedFor) {
  Call* const holder = Send(Reserve("k", 1));
  EXPECT_FALSE(holder->reply.has_waited);
  Call* const waiter = Send(Reserve("k", 2, 10s));
  Send(Complete("k", 1));
  EXPECT_EQ(waiter->answers, 1);
  EXPECT_TRUE(waiter->reply.has_waited);
  Call* const prompt = Send(Reserve("k", 3, 10s));
  EXPECT_EQ(prompt->answers, 1);
  EXPECT_FALSE(prompt->reply.has_waited) << "it may have waited, and need not";
}

// --- The table alone --------------------------------------------------------------------------

core::Key In(const std::string& name_space, const std::string& key) {
  return core::Key{name_space, "scope", key};
}

TEST(UnresolvedOperationsTest, CountsByNamespace) {
  UnresolvedOperations table;
  table.Erase(In("a", "never there"));
  table.Set(In("a", "1"), kStart + 3s);
  table.Set(In("a", "2"), kStart + 1s);
  table.Set(In("b", "1"), kStart + 2s);
  table.Set(In("b", "1"), kStart + 9s);
  EXPECT_THAT(table.Count(), UnorderedElementsAre(UnresolvedCount{"a", 2, kStart + 1s},
                                                  UnresolvedCount{"b", 1, kStart + 9s}));
  table.Erase(In("a", "2"));
  table.Erase(In("b", "1"));
  EXPECT_THAT(table.Count(), ElementsAre(UnresolvedCount{"a", 1, kStart + 3s}));
}

TEST(UnresolvedOperationsTest, LanesTellAtOnce) {
  constexpr int kKeys = 500;
  UnresolvedOperations table;
  std::vector<std::thread> lanes;
  for (int lane = 0; lane < 4; ++lane) {
    lanes.emplace_back([&table, lane] {
      for (int i = 0; i < kKeys; ++i) {
        const core::Key key = In("a", std::to_string(lane) + "/" + std::to_string(i));
        table.Set(key, kStart);
        if (i % 2 == 0) table.Erase(key);
        if (i % 100 == 0) table.Count();
      }
    });
  }
  for (std::thread& lane : lanes) lane.join();
  EXPECT_THAT(table.Count(), ElementsAre(UnresolvedCount{"a", 4 * kKeys / 2, kStart}));
}

}  // namespace
}  // namespace idempotency::keystore
