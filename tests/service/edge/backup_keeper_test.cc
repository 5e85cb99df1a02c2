// One backup at a time, and none when the server stops.
#include "service/backup_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "keystore/engine/memory_engine.h"

namespace idempotency::service {
namespace {

using testing::HasSubstr;

// Backs up for as long as a test wants.
class SlowEngine final : public keystore::Engine {
 public:
  absl::StatusOr<keystore::VerifiedBackup> BackUp(const keystore::BackupOptions& options,
                                                  const keystore::TellBackup& tell) override {
    directory = options.directory;
    keep = options.keep;
    tell(keystore::BackupProgress{.bytes = 17});
    begun.Notify();
    while (!finish.HasBeenNotified()) {
      if (options.stopped()) return absl::CancelledError("stopped");
      std::this_thread::yield();
    }
    return keystore::VerifiedBackup{.backup = {.id = 3, .bytes = 170}};
  }
  void Read(std::vector<core::Key>, ReadDone) override {}
  void Commit(std::vector<keystore::GuardedWrite>, CommitDone) override {}
  void Scan(keystore::ScanFilter, size_t, std::string, ScanDone) override {}
  void OnForeignChange(std::function<void(const core::Key&)>) override {}
  keystore::Traits traits() const override { return {}; }
  keystore::Pressure pressure() const override { return {}; }

  std::string directory;
  size_t keep = 0;
  absl::Notification begun;
  absl::Notification finish;
};

struct BackupMetrics final : Metrics {
  void OnBackup(bool good) override { ++(good ? whole : failed); }
  void OnNewestBackup(core::Time made, uint64_t bytes) override { newest = bytes; }
  int whole = 0;
  int failed = 0;
  uint64_t newest = 0;
};

// What one backup came to.
struct Outcome {
  absl::Notification ended;
  absl::StatusOr<keystore::VerifiedBackup> backup = absl::UnknownError("not yet");

  BackupKeeper::Done Done() {
    return [this](absl::StatusOr<keystore::VerifiedBackup> result) {
      backup = std::move(result);
      ended.Notify();
    };
  }
};

TEST(BackupKeeperTest, TakesOneAtATime) {
  SlowEngine engine;
  BackupMetrics metrics;
  BackupKeeper keeper(&engine, &metrics, "/backups", 5);
  Outcome first;
  uint64_t told = 0;
  ASSERT_TRUE(
      keeper.Start([&](const keystore::BackupProgress& at) { told = at.bytes; }, first.Done())
          .ok());
  engine.begun.WaitForNotification();
  Outcome second;
  const absl::Status busy = keeper.Start([](const auto&) {}, second.Done());
  EXPECT_TRUE(absl::IsAborted(busy)) << busy;
  engine.finish.Notify();
  first.ended.WaitForNotification();
  ASSERT_TRUE(first.backup.ok());
  EXPECT_EQ(first.backup->backup.id, 3u);
  EXPECT_EQ(told, 17u);
  EXPECT_EQ(engine.directory, "/backups");
  EXPECT_EQ(engine.keep, 5u);
  EXPECT_EQ(metrics.whole, 1);
  EXPECT_EQ(metrics.newest, 170u);
  EXPECT_FALSE(second.ended.HasBeenNotified());
}

TEST(BackupKeeperTest, StoppingEndsWhatIsBeingTaken) {
  SlowEngine engine;
  BackupMetrics metrics;
  BackupKeeper keeper(&engine, &metrics, "/backups", 5);
  Outcome outcome;
  ASSERT_TRUE(keeper.Start([](const auto&) {}, outcome.Done()).ok());
  engine.begun.WaitForNotification();
  keeper.Stop();
  ASSERT_TRUE(outcome.ended.HasBeenNotified()) << "Stop waits for it";
  EXPECT_TRUE(absl::IsCancelled(outcome.backup.status()));
  EXPECT_EQ(metrics.failed, 1);
  Outcome late;
  EXPECT_TRUE(absl::IsCancelled(keeper.Start([](const auto&) {}, late.Done())));
}

TEST(BackupKeeperTest, WithoutADirectoryItSaysWhatToSet) {
  SlowEngine engine;
  BackupMetrics metrics;
  BackupKeeper keeper(&engine, &metrics, "", 5);
  Outcome outcome;
  const absl::Status refused = keeper.Start([](const auto&) {}, outcome.Done());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--backup_dir"));
  EXPECT_TRUE(absl::IsFailedPrecondition(keeper.List().status()));
}

TEST(BackupKeeperTest, AnEngineWithoutBackupsSaysSo) {
  keystore::MemoryEngine engine;
  BackupMetrics metrics;
  BackupKeeper keeper(&engine, &metrics, "/backups", 5);
  Outcome outcome;
  ASSERT_TRUE(keeper.Start([](const auto&) {}, outcome.Done()).ok());
  outcome.ended.WaitForNotification();
  EXPECT_TRUE(absl::IsUnimplemented(outcome.backup.status()));
}

}  // namespace
}  // namespace idempotency::service
