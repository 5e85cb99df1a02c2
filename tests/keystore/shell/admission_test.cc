// Who is let in under load, stall and lack of space.
#include <string>
#include <utility>
#include <vector>

#include "keystore/core/limits.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Not;

constexpr size_t kMaxQueued = 16;

// It is spread, so that those who were refused together do not come back together.
auto IsAboutASecond() {
  return testing::Optional(testing::AllOf(testing::Ge(core::kOverloadRetryAfter * 3 / 4),
                                          testing::Lt(core::kOverloadRetryAfter * 5 / 4)));
}

class AdmissionTest : public ShellTest {
 protected:
  AdmissionTest() : ShellTest(Traits{}, KeyStoreOptions{.max_queued_commands = kMaxQueued}) {}

  // Leaves `count` commands queued behind one whose read is held.
  void Queue(size_t count) {
    engine.Hold(FakeEngine::Call::kRead);
    Send(Get("first"));
    for (size_t i = 0; i < count; ++i) Send(Complete("queued", i + 1));
    ASSERT_EQ(store->queued(), count);
  }
};

struct ThresholdCase {
  std::string name;
  Request request;
  size_t admitted_below;
};

void PrintTo(const ThresholdCase& c, std::ostream* out) { *out << c.name; }

class ThresholdTest : public AdmissionTest, public testing::WithParamInterface<ThresholdCase> {};

TEST_P(ThresholdTest, IsAdmittedBelow) {
  Queue(GetParam().admitted_below - 1);
  EXPECT_EQ(Send(GetParam().request)->said, "") << "queued";
}

TEST_P(ThresholdTest, IsRefusedFromThereOn) {
  Queue(GetParam().admitted_below);
  const Call* const call = Send(GetParam().request);
  EXPECT_EQ(call->said, "OVERLOADED");
  EXPECT_THAT(std::get<core::Refusal>(call->reply.answer).retry_after, IsAboutASecond());
  EXPECT_EQ(call->reply.server_time, kStart);
  EXPECT_THAT(observer.answers, ElementsAre("k: OVERLOADED"));
  EXPECT_EQ(store->queued(), GetParam().admitted_below) << "it takes no place";
}

INSTANTIATE_TEST_SUITE_P(Verbs, ThresholdTest,
                         testing::Values(ThresholdCase{"Reserve", Reserve("k", 1), 10},
                                         ThresholdCase{"Get", Get("k"), 12},
                                         ThresholdCase{"Inspect", Inspect("k"), 12},
                                         ThresholdCase{"Delete", Delete("k"), 12},
                                         ThresholdCase{"Release", Release("k", 1), 14},
                                         ThresholdCase{"Renew", Renew("k", 1), kMaxQueued}),
                         [](const auto& param) { return param.param.name; });

TEST_F(AdmissionTest, AQueueOfOneStillTakesReservations) {
  Restart({.max_queued_commands = 1});
  EXPECT_EQ(Send(Reserve("k", 1))->said, "ACQUIRED 1");
  EXPECT_EQ(Send(Get("k"))->said, "GOT PENDING");
  Queue(1);
  EXPECT_EQ(Send(Reserve("k", 2))->said, "OVERLOADED");
}

TEST_F(AdmissionTest, FinishingVerbsAreNeverRefusedForLoad) {
  Queue(10 * kMaxQueued);
  const std::vector<Call*> calls = {Send(Complete("k", 1)), Send(Mark("k", 1)),
                                    Send(Resolve("k", core::Resolution::kCompleted))};
  EXPECT_THAT(Said(calls), Each("")) << "queued";
  engine.ReleaseAll();
  EXPECT_THAT(Said(calls), Each("OPERATION_NOT_FOUND"));
}

TEST_F(AdmissionTest, ARefusalInTheMiddleOfManyConcernsNoOther) {
  Queue(kMaxQueued);
  const auto calls = SendAll({Complete("k", 1), Reserve("k", 1), Mark("k", 1)});
  EXPECT_THAT(Said(calls), ElementsAre("", "OVERLOADED", ""));
  EXPECT_EQ(calls[1]->handle.id, 0u);
  Cancel(calls[1]);
}

TEST_F(AdmissionTest, AStallKeepsReservationsOutAndNothingElse) {
  Send(Reserve("k", 1));
  engine.SetPressure({.stalled = true});
  const auto calls =
      SendAll({Reserve("k", 2), Reserve("new", 3), Get("k"), Renew("k", 1), Complete("k", 1)});
  EXPECT_THAT(Said(calls),
              ElementsAre("OVERLOADED", "OVERLOADED", "GOT PENDING", "RENEWED 1", "COMPLETE"));
  EXPECT_THAT(std::get<core::Refusal>(calls[0]->reply.answer).retry_after, IsAboutASecond());
}

TEST_F(AdmissionTest, AFullStoreRefusesOnlyKeysThatItDoesNotKnow) {
  Send(Reserve("held", 1));
  Send(Reserve("freed", 2));
  Send(Release("freed", 2));
  engine.SetPressure({.full = true});
  const auto calls =
      SendAll({Reserve("new", 3), Reserve("held", 4), Reserve("freed", 5), Complete("held", 1)});
  EXPECT_THAT(Said(calls), ElementsAre("STORE_FULL", "IN_PROGRESS", "ACQUIRED 3", "COMPLETE"));
  engine.SetPressure({});
  EXPECT_EQ(Send(Reserve("new", 3))->said, "ACQUIRED 4");
}

TEST_F(AdmissionTest, AFullStoreDoesNotHideWhatIsWrongWithTheRequest) {
  engine.SetPressure({.full = true});
  Request request = Reserve("new", 1);
  std::get<core::ReserveCommand>(request.command).refuse_new = core::Reason::kInvalidField;
  EXPECT_EQ(Send(request)->said, "INVALID_FIELD");
}

TEST_F(AdmissionTest, ADeadEngineTakesNoReservation) {
  engine.SetPressure({.alive = false});
  EXPECT_EQ(Send(Reserve("k", 1))->said, "STORE_UNAVAILABLE");
  EXPECT_THAT(engine.reads(), testing::IsEmpty());
}

}  // namespace
}  // namespace idempotency::keystore
