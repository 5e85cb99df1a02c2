// The line that says how far long work is.
#include "client/ctl/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace idempotency::ctl {
namespace {

TEST(ProgressBar, FillsWithTheShare) {
  EXPECT_EQ(ProgressBar(0, 8), "[........................]   0 %");
  EXPECT_EQ(ProgressBar(2, 8), "[######..................]  25 %");
  EXPECT_EQ(ProgressBar(7, 8), "[#####################...]  87 %");
  EXPECT_EQ(ProgressBar(8, 8), "[########################] 100 %");
  // More than there were to be, as where a list grows while it is read.
  EXPECT_EQ(ProgressBar(9, 8), ProgressBar(8, 8));
  EXPECT_EQ(ProgressBar(UINT64_MAX, UINT64_MAX), ProgressBar(8, 8));
}

TEST(ProgressBar, IsNoneWhereNobodyKnowsTheWhole) { EXPECT_EQ(ProgressBar(5, 0), ""); }

TEST(ProgressBar, OfAnEstimateIsNeverFull) {
  EXPECT_EQ(RoughProgressBar(2, 8), ProgressBar(2, 8));
  EXPECT_EQ(RoughProgressBar(8, 8), "[#######################.]  99 %");
  EXPECT_EQ(RoughProgressBar(80, 8), RoughProgressBar(8, 8));
  EXPECT_EQ(RoughProgressBar(5, 0), ProgressBar(0, 8));
}

TEST(ProgressLine, SaysWhatAndHowFar) {
  EXPECT_EQ(ProgressLine("copying", ProgressBar(2, 8), "1.0 MiB"),
            "copying    [######..................]  25 %  1.0 MiB");
  EXPECT_EQ(ProgressLine("copying", "", "1.0 MiB"), "copying    1.0 MiB");
  EXPECT_EQ(LinesProgress("settling", 3, 8),
            "settling   [######..................]  25 %  3 of 8 lines");
  EXPECT_EQ(LinesProgress("looking at", 1, 1),
            "looking at [........................]   0 %  1 of 1 line");
  EXPECT_EQ(ListProgress(2000, 0), "listing    2000 operations");
  EXPECT_EQ(ListProgress(2000, 8000),
            "listing    [######..................]  25 %  2000 operations of at most 8000");
  EXPECT_EQ(NamespacesProgress(2, 8, 3400),
            "listing    [######..................]  25 %  2 of 8 namespaces, 3400 operations");
}

// What wraps cannot be written over.
TEST(ProgressLine, FitsOnALineOfTheTerminal) {
  EXPECT_EQ(ProgressLine("w", ProgressBar(1, 2), std::string(200, 'x')).size(), kProgressColumns);
  EXPECT_LE(NamespacesProgress(SIZE_MAX, SIZE_MAX, UINT64_MAX).size(), kProgressColumns);
  EXPECT_LE(ListProgress(UINT64_MAX, UINT64_MAX).size(), kProgressColumns);
}

}  // namespace
}  // namespace idempotency::ctl
