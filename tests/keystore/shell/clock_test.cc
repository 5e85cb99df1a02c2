// The guarded clock: kernel readings in, a time that never runs backwards out.
#include "keystore/clock.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <random>
#include <string>

#include "keystore/core/limits.h"

namespace idempotency::keystore {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr core::Time kStart{core::Duration(1'800'000'000'000)};
constexpr core::Duration kBoot = 500s;

KernelTime At(core::Duration wall, core::Duration boot, bool synchronised = false) {
  return KernelTime{kStart + wall, kBoot + boot, synchronised};
}

// A guard that took its first reading at zero, without an earlier run.
ClockGuard Fresh() { return ClockGuard(At(0s, 0s), core::Time{}); }

// An earlier run had reached `high_water` when this one began at zero.
ClockGuard Restarted(core::Duration high_water) {
  return ClockGuard(At(0s, 0s), kStart + high_water);
}

core::Now Certain(core::Duration time) { return core::At(kStart + time); }

core::Now Doubtful(core::Duration time, core::Duration wall) {
  return core::Now{kStart + time, kStart + time, kStart + wall, true};
}

std::string Describe(const core::Now& now) {
  const auto since = [](core::Time time) { return std::to_string((time - kStart).count()); };
  return since(now.earliest) + " .. " + since(now.latest) + " ms, wall " + since(now.wall) +
         (now.in_doubt ? " ms, in doubt" : " ms");
}

void ExpectNow(const core::Now& actual, const core::Now& expected) {
  EXPECT_EQ(actual, expected) << "is " << Describe(actual) << "\nnot " << Describe(expected);
}

TEST(ClockGuardTest, GoesWithTheWallClock) {
  ClockGuard guard = Fresh();
  ExpectNow(guard.Advance(At(0s, 0s)), Certain(0s));
  ExpectNow(guard.Advance(At(10s, 10s)), Certain(10s));
}

TEST(ClockGuardTest, AStepBackStopsNothing) {
  ClockGuard guard = Fresh();
  guard.Advance(At(10s, 10s));
  ExpectNow(guard.Advance(At(-5min, 11s)), Certain(11s));
  ExpectNow(guard.Advance(At(-5min + 1s, 12s)), Certain(12s));
}

TEST(ClockGuardTest, FollowsAWallClockThatIsSlewed) {
  ClockGuard guard = Fresh();
  ExpectNow(guard.Advance(At(1001ms, 1000ms)), Certain(1001ms));
  // Slower than elapsed time: it waits for nobody.
  ExpectNow(guard.Advance(At(1900ms, 2000ms)), Certain(2001ms));
}

TEST(ClockGuardTest, ASmallStepForwardIsFollowed) {
  ClockGuard guard = Fresh();
  ExpectNow(guard.Advance(At(1h + 1s, 1s)), Certain(1h + 1s));
}

TEST(ClockGuardTest, AJumpOverAnHourIsInDoubtAndTimeGoesOnByWhatElapsed) {
  ClockGuard guard = Fresh();
  ExpectNow(guard.Advance(At(1h + 1s + 1ms, 1s)), Doubtful(1s, 1h + 1s + 1ms));
  ExpectNow(guard.Advance(At(1h + 9s, 9s)), Certain(1h + 9s));
}

TEST(ClockGuardTest, ADoubtStaysUntilTheWallClockIsSetRight) {
  ClockGuard guard = Fresh();
  ExpectNow(guard.Advance(At(24h, 1s)), Doubtful(1s, 24h));
  ExpectNow(guard.Advance(At(24h + 1min, 61s)), Doubtful(61s, 24h + 1min));
  ExpectNow(guard.Advance(At(62s, 62s)), Certain(62s));
}

TEST(ClockGuardTest, TheKernelsWordEndsADoubt) {
  ClockGuard guard = Fresh();
  ExpectNow(guard.Advance(At(24h, 1s)), Doubtful(1s, 24h));
  ExpectNow(guard.Advance(At(24h + 1s, 2s, true)), Certain(24h + 1s));
  ExpectNow(guard.Advance(At(24h + 2s, 3s)), Certain(24h + 2s));
}

TEST(ClockGuardTest, AnOperatorsWordEndsADoubt) {
  ClockGuard guard = Fresh();
  ExpectNow(guard.Advance(At(24h, 1s)), Doubtful(1s, 24h));
  guard.Confirm();
  ExpectNow(guard.Advance(At(24h + 1s, 2s)), Certain(24h + 1s));
}

TEST(ClockGuardTest, AConfirmationIsNotForAJumpStillToCome) {
  ClockGuard guard = Fresh();
  guard.Advance(At(1s, 1s));
  guard.Confirm();
  ExpectNow(guard.Advance(At(24h, 2s)), Doubtful(2s, 24h));
}

TEST(ClockGuardTest, AConfirmationIsNotForAFurtherJump) {
  ClockGuard guard = Fresh();
  guard.Advance(At(2h, 1s));
  guard.Confirm();
  ExpectNow(guard.Advance(At(10'000h, 2s)), Doubtful(2h + 1s, 10'000h));
}

TEST(ClockGuardTest, ASuspendedMachineWasAsleepAndNotSetForward) {
  ClockGuard guard = Fresh();
  ExpectNow(guard.Advance(At(24h, 24h)), Certain(24h));
}

TEST(ClockGuardTest, ARestartGoesOnFromTheLastRun) {
  ClockGuard guard = Restarted(-10s);
  ExpectNow(guard.Advance(At(0s, 0s)), Certain(0s));
}

TEST(ClockGuardTest, ARestartBehindTheLastRunWaitsForNobody) {
  ClockGuard guard = Restarted(5min);
  ExpectNow(guard.Advance(At(0s, 0s)), Certain(5min));
  ExpectNow(guard.Advance(At(1s, 1s)), Certain(5min + 1s));
}

TEST(ClockGuardTest, ARestartMoreThanAnHourAfterTheLastRunIsInDoubt) {
  ClockGuard guard = Restarted(-1h);
  ExpectNow(guard.Advance(At(0s, 0s)), Certain(0s));
  guard = Restarted(-1h - 1ms);
  ExpectNow(guard.Advance(At(0s, 0s)), Doubtful(-1h - 1ms, 0s));
  ExpectNow(guard.Advance(At(1s, 1s, true)), Certain(1s));
}

TEST(ClockGuardTest, ARestartMayBeConfirmedBeforeTheFirstReading) {
  ClockGuard guard = Restarted(-24h);
  guard.Confirm();
  ExpectNow(guard.Advance(At(1s, 1s)), Certain(1s));
}

TEST(ClockGuardTest, ElapsedTimeThatRunsBackwardsIsNone) {
  ClockGuard guard = Fresh();
  guard.Advance(At(10s, 10s));
  ExpectNow(guard.Advance(At(9s, 9s)), Certain(10s));
  ExpectNow(guard.Advance(At(9s, 10s)), Certain(10s));
  ExpectNow(guard.Advance(At(9s, 11s)), Certain(11s));
}

// A kernel whose wall clock is set at will, by up to a day, and whose word is given at times.
TEST(ClockGuardTest, NeverDecreasesAndNeverLeadsOverTenThousandRandomReadings) {
  constexpr unsigned kSeed = 20'260'729;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  const auto below = [&](int64_t limit) {
    return core::Duration(static_cast<int64_t>(random() % static_cast<uint64_t>(limit)));
  };
  ClockGuard guard = Restarted(-1s);
  KernelTime kernel = At(0s, 0s);
  core::Time last = kStart - 1s;
  core::Time highest = kernel.wall;  // elapsed time counted on from the highest wall clock seen
  for (int i = 0; i < 10'000; ++i) {
    const core::Duration elapsed = below(2'000);
    kernel.boot += elapsed;
    kernel.wall += elapsed;
    if (random() % 10 == 0) kernel.wall += below(172'800'000) - 24h;
    kernel.synchronised = random() % 4 == 0;
    highest = std::max(highest + elapsed, kernel.wall);
    ClockGuard other = guard;
    KernelTime flipped = kernel;
    flipped.synchronised = !kernel.synchronised;
    const bool matters = guard.IsJump(kernel);
    const core::Now now = guard.Advance(kernel);
    ASSERT_EQ(other.Advance(flipped) != now, matters) << "reading " << i;
    ASSERT_GE(now.latest, last) << "reading " << i;
    ASSERT_GE(now.latest, last + elapsed) << "slower than elapsed time at reading " << i;
    ASSERT_LE(now.latest, highest) << "reading " << i;
    ASSERT_GE(now.wall, now.latest) << "reading " << i;
    ASSERT_EQ(now.earliest, now.latest) << "reading " << i;
    ASSERT_EQ(now.in_doubt, kernel.wall > now.latest + core::kMaxClockJump) << "reading " << i;
    if (random() % 20 == 0) guard.Confirm();
    last = now.latest;
  }
}

// --- The kernel ------------------------------------------------------------------------------

TEST(KernelTimeTest, RisesAndIsLaterThanThisTest) {
  const KernelTime first = ReadKernelTime();
  const KernelTime second = ReadKernelTime();
  EXPECT_GT(first.wall, kStart - 4 * 365 * core::kDay);
  EXPECT_GE(second.boot, first.boot);
  EXPECT_GT(first.boot, core::Duration::zero());
}

// From here on the kernel refuses to say how its clock is disciplined.
bool ForbidAskingTheKernel() {
  std::array<sock_filter, 5> filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_adjtimex, 1, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_adjtime, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(KernelTimeTest, AKernelThatMayNotBeAskedHasNotSaidThatItsClockIsRight) {
  EXPECT_EXIT(
      {
        if (!ForbidAskingTheKernel()) _exit(2);
        _exit(KernelSaysSynchronised() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(GuardedClockTest, NeverDecreases) {
  GuardedClock clock(core::Time{});
  core::Time last = clock.Read().latest;
  for (int i = 0; i < 1000; ++i) {
    const core::Time now = clock.Read().latest;
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(GuardedClockTest, AnOperatorConfirmsALongStandstill) {
  GuardedClock clock(kStart - 4 * 365 * core::kDay);
  clock.Confirm();
  const core::Now now = clock.Read();
  EXPECT_FALSE(now.in_doubt);
  EXPECT_EQ(now.latest, now.wall);
}

TEST(ManualClockTest, StandsStillUntilItIsMoved) {
  ManualClock clock(kStart);
  EXPECT_EQ(clock.Read(), core::At(kStart));
  clock.Advance(5s);
  EXPECT_EQ(clock.Read(), core::At(kStart + 5s));
  const core::Now doubtful{kStart, kStart + 1s, kStart + 2h, true};
  clock.Set(doubtful);
  EXPECT_EQ(clock.Read(), doubtful);
  clock.Advance(1s);
  EXPECT_EQ(clock.Read(), (core::Now{kStart + 1s, kStart + 2s, kStart + 2h + 1s, true}));
}

// --- The mark --------------------------------------------------------------------------------

class ClockMarkTest : public testing::Test {
 protected:
  ClockMarkTest()
      : path_(testing::TempDir() + "/mark." + std::to_string(getpid()) + "." +
              testing::UnitTest::GetInstance()->current_test_info()->name()),
        mark_(path_) {
    std::remove(path_.c_str());
  }
  ~ClockMarkTest() override { std::remove(path_.c_str()); }

  std::string ReadFile() const {
    std::ifstream file(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  void WriteFile(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  // The code of Load, which must leave the mark unset where it fails.
  absl::StatusCode Load() const {
    core::Time mark = kStart;
    const absl::Status status = mark_.Load(&mark);
    if (!status.ok()) EXPECT_FALSE(core::IsSet(mark));
    return status.code();
  }

  const std::string path_;
  const ClockMark mark_;
};

TEST_F(ClockMarkTest, IsUnsetBeforeTheFirstRun) {
  core::Time mark = kStart;
  ASSERT_TRUE(mark_.Load(&mark).ok());
  EXPECT_FALSE(core::IsSet(mark));
}

TEST_F(ClockMarkTest, IsWhatWasStoredLast) {
  for (const core::Time stored : {kStart, kStart + 1s, core::kMaxTime, kStart - 1h}) {
    ASSERT_TRUE(mark_.Store(stored).ok());
    core::Time mark;
    ASSERT_TRUE(mark_.Load(&mark).ok());
    EXPECT_EQ(mark, stored);
  }
  EXPECT_EQ(access((path_ + ".new").c_str(), F_OK), -1) << "nothing is left aside";
}

TEST_F(ClockMarkTest, AMarkLeftHalfWrittenAsideDoesNoHarm) {
  ASSERT_TRUE(mark_.Store(kStart).ok());
  std::ofstream(path_ + ".new") << "half";
  core::Time mark;
  ASSERT_TRUE(mark_.Load(&mark).ok());
  EXPECT_EQ(mark, kStart);
  EXPECT_TRUE(mark_.Store(kStart + 1s).ok());
}

TEST_F(ClockMarkTest, EveryFlippedBitIsNoticed) {
  ASSERT_TRUE(mark_.Store(kStart).ok());
  const std::string whole = ReadFile();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(damaged);
    EXPECT_EQ(Load(), absl::StatusCode::kDataLoss) << "bit " << bit;
  }
}

TEST_F(ClockMarkTest, AFileOfAnotherLengthIsNotOurs) {
  ASSERT_TRUE(mark_.Store(kStart).ok());
  const std::string whole = ReadFile();
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFile(whole.substr(0, size));
    EXPECT_EQ(Load(), absl::StatusCode::kDataLoss) << size << " bytes";
  }
  WriteFile(whole + "x");
  EXPECT_EQ(Load(), absl::StatusCode::kDataLoss) << "one byte more";
}

TEST_F(ClockMarkTest, WhatCannotBeWrittenIsSaid) {
  const ClockMark nowhere(path_ + "/no/such/directory");
  const absl::Status status = nowhere.Store(kStart);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find(path_), std::string::npos) << "names the file";
}

}  // namespace
}  // namespace idempotency::keystore
