// Colour: which words get it, and when.
#include "client/ctl/color.h"

#include <gtest/gtest.h>

#include <string>

namespace idempotency::ctl {
namespace {

TEST(Colored, PaintsTheNamesOfStatesAndNothingElse) {
  EXPECT_EQ(Colored("k-1  UNRESOLVED  2h\n"), "k-1  \x1b[1;33mUNRESOLVED\x1b[0m  2h\n");
  EXPECT_EQ(Colored("COMPLETE, SUCCEEDED: sent"), "\x1b[32mCOMPLETE\x1b[0m, SUCCEEDED: sent");
  EXPECT_EQ(Colored("PENDING"), "\x1b[36mPENDING\x1b[0m");
  for (const std::string text : {"", "nothing", "order-PENDING", "PENDING_2", "a/FREED", "\n \n"}) {
    EXPECT_EQ(Colored(text), text);
  }
}

}  // namespace
}  // namespace idempotency::ctl
