// A store that has lost records says so to every Reserve that comes.
#include <utility>

#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

Request Aged(Request request, core::Duration age) {
  std::get<core::ReserveCommand>(request.command).operation_age = age;
  return request;
}

class LossTest : public ShellTest {
 protected:
  // An hour ago.
  LossTest() : ShellTest(Traits{.lost_before = kStart - 1h}) {}
};

TEST_F(LossTest, AnOperationThatIsOlderIsTooOldAndNotGranted) {
  EXPECT_EQ(Send(Aged(Reserve("k", 1), 1h + 1ms))->said, "TOO_OLD");
  EXPECT_EQ(StoredAs("k"), "ABSENT");
  EXPECT_EQ(Send(Aged(Reserve("k", 1), 1h))->said, "ACQUIRED 1");
}

TEST_F(LossTest, OneThatSaysNoAgeIsGranted) {
  EXPECT_EQ(Send(Reserve("k", 1))->said, "ACQUIRED 1");
}

class NoLossTest : public ShellTest {};

TEST_F(NoLossTest, NoAgeWithinMemoryIsTooOld) {
  EXPECT_EQ(Send(Aged(Reserve("k", 1), 24h))->said, "ACQUIRED 1");
}

}  // namespace
}  // namespace idempotency::keystore
