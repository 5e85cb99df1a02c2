// Killed at any moment, under load, with flushes and compactions going on: what was
// acknowledged is there when the store is opened again, and tokens go on rising.
//
// Every opening is a process of its own, forked from one that never uses RocksDB, so that a
// kill leaves behind what it would in production.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "keystore/core/record.h"
#include "keystore/engine/engine.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

constexpr int kExitGood = 0;
constexpr int kExitBad = 1;

core::Key NumberedKey(uint64_t number) { return PayKey(std::to_string(number)); }

const core::Record* RecordIn(const ReadEntry& entry) {
  return std::get_if<core::Record>(&entry.stored);
}

// Commit n reserves key n and completes key n - 1: one record comes, one moves. A byte goes to
// `acks` for each that is acknowledged; until the process is killed.
[[noreturn]] void WriteForEver(RocksDbFixture& fixture, uint64_t first, int acks) {
  RocksDbEngine* engine = fixture.Open();
  if (engine == nullptr) _exit(kExitBad);
  const std::string body(500, 'b');
  for (uint64_t number = first;; ++number) {
    const absl::StatusOr<ReadResult> before = Read(*engine, {NumberedKey(number)});
    if (!before.ok()) _exit(kExitBad);
    const uint64_t token = before->token_floor;
    std::vector<GuardedWrite> writes = {{.key = NumberedKey(number),
                                         .expected = before->entries[0].version,
                                         .record = PendingRecord(token)}};
    if (number > 0) {
      const ReadEntry last = ReadOne(*engine, NumberedKey(number - 1));
      writes.push_back({.key = NumberedKey(number - 1),
                        .expected = last.version,
                        .record = CompleteRecord(token, body)});
    }
    for (const WriteOutcome outcome : Commit(*engine, std::move(writes))) {
      if (outcome != WriteOutcome::kCommitted) _exit(kExitBad);
    }
    if (write(acks, "a", 1) != 1) _exit(kExitBad);
  }
}

// Whether everything that the first `acknowledged` commits wrote is there.
bool AllThere(RocksDbFixture& fixture, uint64_t acknowledged) {
  RocksDbEngine* engine = fixture.Open();
  if (engine == nullptr) return false;
  uint64_t newest_token = 0;
  for (uint64_t number = 0; number < acknowledged; ++number) {
    const ReadEntry entry = ReadOne(*engine, NumberedKey(number));
    const core::Record* record = RecordIn(entry);
    const bool completed = number + 1 < acknowledged;
    if (record == nullptr || (completed && record->state != core::State::kComplete)) {
      ADD_FAILURE() << "lost: " << number << " of " << acknowledged;
      return false;
    }
    newest_token = std::max(newest_token, record->token);
  }
  const absl::StatusOr<ReadResult> floor = Read(*engine, {});
  return floor.ok() && floor->token_floor > newest_token;
}

pid_t Fork(const std::function<void()>& child) {
  const pid_t pid = fork();
  if (pid == 0) {
    child();
    _exit(kExitGood);
  }
  return pid;
}

// Lets a process write until `acks` commits are acknowledged, and kills it. Returns how many
// were, in all.
uint64_t WriteAndKill(RocksDbFixture& fixture, uint64_t first, uint64_t acks) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const pid_t writer = Fork([&] { WriteForEver(fixture, first, ends[1]); });
  close(ends[1]);
  uint64_t acknowledged = 0;
  char byte = 0;
  while (acknowledged < acks && read(ends[0], &byte, 1) == 1) ++acknowledged;
  kill(writer, SIGKILL);
  // What it still said before it died counts.
  while (read(ends[0], &byte, 1) == 1) ++acknowledged;
  close(ends[0]);
  int status = 0;
  waitpid(writer, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed before it was killed";
  return acknowledged;
}

// Reads of both families, before anything is written, while files are exchanged behind them. Where
// the last write of the run before had filled a memtable, RocksDB 7.8 let go of a version of a
// family that others still used, and the process died of it.
TEST(RocksDbCrash, ReadsBeforeTheFirstWriteOfARunDoNotKillTheProcess) {
  RocksDbFixture fixture;
  fixture.options.engine.memtable_bytes = 64 * 1024;
  fixture.options.check_guards = false;
  const std::string large(200'000, 'b');
  const auto write = [&](RocksDbEngine& engine, uint64_t number) {
    Store(engine, NumberedKey(number), CompleteRecord(number + 1, large));
  };
  int status = 0;
  const pid_t writer = Fork([&] {
    RocksDbEngine* engine = fixture.Open();
    write(*engine, 0);
    _exit(kExitGood);
  });
  waitpid(writer, &status, 0);
  const pid_t reader = Fork([&] {
    RocksDbEngine* engine = fixture.Open();
    std::vector<core::Key> many;
    for (uint64_t number = 0; number < 1000; ++number) many.push_back(NumberedKey(number));
    std::atomic<bool> done{false};
    std::thread reading([&] {
      while (!done) (void)Read(*engine, many);
    });
    for (int i = 0; i < 30; ++i) {
      if (!engine->Compact().ok()) _exit(kExitBad);
    }
    done = true;
    reading.join();
    for (uint64_t number = 1; number < 5; ++number) write(*engine, number);
    fixture.Close();
  });
  waitpid(reader, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitGood) << status;
}

TEST(RocksDbCrash, LosesNothingAcknowledgedWhenItIsKilled) {
  RocksDbFixture fixture;
  fixture.options.engine.memtable_bytes = 64 * 1024;
  fixture.options.engine.log_ahead_bytes = 16 * 1024;
  fixture.options.check_guards = false;
  uint64_t acknowledged = 0;
  for (const uint64_t acks : {1, 37, 150, 300, 2}) {
    acknowledged += WriteAndKill(fixture, acknowledged, acks);
    const pid_t checker = Fork([&] {
      if (!AllThere(fixture, acknowledged)) _exit(kExitBad);
    });
    int status = 0;
    waitpid(checker, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitGood)
        << "after " << acknowledged << " acknowledged commits";
  }
}

}  // namespace
}  // namespace idempotency::keystore
