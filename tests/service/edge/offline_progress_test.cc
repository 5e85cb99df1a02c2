// How far verifying, restoring and rewrapping are, on a terminal.
#include "service/offline_progress.h"

#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

TEST(OfflineProgress, IsOneLine) {
  EXPECT_EQ(BytesProgress("checking", 2 * kMebibyte, 8 * kMebibyte),
            "checking   [######..................]  25 %  2.0 MiB");
  EXPECT_EQ(BytesProgress("restoring", 0, 8 * kMebibyte),
            "restoring  [........................]   0 %  0.0 MiB");
  EXPECT_EQ(RecordsProgress("verifying", 40, 80),
            "verifying  [############............]  50 %  40 records");
}

TEST(OfflineProgress, IsNeverFullBeforeTheEnd) {
  EXPECT_EQ(RecordsProgress("sealing", 90, 80),
            "sealing    [#######################.]  99 %  90 records");
  EXPECT_EQ(RecordsProgress("sealing", 90, 0),
            "sealing    [........................]   0 %  90 records");
  EXPECT_LT(RecordsProgress("verifying", UINT64_MAX, UINT64_MAX).size(), 80u);
  EXPECT_LT(BytesProgress("restoring", UINT64_MAX, UINT64_MAX).size(), 80u);
}

TEST(OfflineProgress, IsDrawnOnATerminalThatCanBeWrittenOver) {
  EXPECT_TRUE(DrawsProgress("auto", true, "xterm"));
  EXPECT_TRUE(DrawsProgress("auto", true, nullptr));
  EXPECT_FALSE(DrawsProgress("auto", true, "dumb"));
  EXPECT_FALSE(DrawsProgress("auto", false, "xterm"));
  EXPECT_TRUE(DrawsProgress("always", false, nullptr));
  EXPECT_FALSE(DrawsProgress("never", true, "xterm"));
}

TEST(OfflineProgress, ALineIsWrittenOverAndTakenAway) {
  std::ostringstream out;
  {
    ProgressLine line(&out);
    line.End();
    EXPECT_EQ(out.str(), "");
    line.Write("one");
    line.Write("two");
    EXPECT_EQ(out.str(), "\r\x1b[Kone\r\x1b[Ktwo");
  }
  EXPECT_EQ(out.str(), "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K");
}

}  // namespace
}  // namespace idempotency::service
