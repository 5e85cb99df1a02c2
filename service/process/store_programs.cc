#include "service/process/store_programs.h"

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "keystore/clock.h"
#include "keystore/engine/backup.h"
#include "keystore/engine/open_engine.h"
#include "service/offline_progress.h"
#include "service/process/exit_codes.h"
#include "service/process/process.h"

namespace idempotency::service {
namespace {

// 0: the newest.
uint32_t BackupId(const std::string& name) {
  uint32_t id = 0;
  if (name != Flags::kLatestBackup) (void)absl::SimpleAtoi(name, &id);
  return id;
}

void TellBackupDone(Log* log, std::string_view event, const keystore::VerifiedBackup& done) {
  const keystore::BackupContents& contents = done.contents;
  log->Write(LogLevel::kInfo, event,
             {{"backup", done.backup.id},
              {"made_ms", done.backup.facts.made.time_since_epoch().count()},
              {"bytes", done.backup.bytes},
              {"pending", contents.pending},
              {"unresolved", contents.unresolved},
              {"complete", contents.complete},
              {"expired", contents.expired},
              {"freed", contents.freed},
              {"key_missing", contents.key_missing}});
}

void TellRewrap(Log* log, std::string_view event, const keystore::RewrapProgress& progress) {
  log->Write(LogLevel::kInfo, event,
             {{"visited", progress.visited},
              {"estimated", progress.estimated},
              {"rewrapped", progress.rewrapped},
              {"key_missing", progress.key_missing},
              {"unreadable", progress.unreadable}});
}

// All files first, then what is in them.
std::string LineOf(const keystore::BackupProgress& progress) {
  if (progress.stage == keystore::BackupStage::kRestoring) {
    return BytesProgress("restoring", progress.bytes, progress.estimated_bytes);
  }
  return progress.records == 0
             ? BytesProgress("checking", progress.bytes, progress.estimated_bytes)
             : RecordsProgress("verifying", progress.records, progress.estimated_records);
}

// What one of these programs tells while it works.
class Work {
 public:
  // Nothing is served, so there is nothing to finish before the end.
  Work(Log* log, std::ostream* terminal) : log_(log) {
    LetSignalsEndIt();
    if (terminal != nullptr) line_.emplace(terminal);
  }

  void Tell(const keystore::BackupProgress& progress) {
    if (line_) return line_->Write(LineOf(progress));
    log_->Write(LogLevel::kInfo,
                progress.stage == keystore::BackupStage::kRestoring ? "restoring" : "verifying",
                {{"bytes", progress.bytes},
                 {"estimated_bytes", progress.estimated_bytes},
                 {"records", progress.records},
                 {"estimated_records", progress.estimated_records}});
  }
  void Tell(const keystore::RewrapProgress& progress) {
    if (line_) {
      return line_->Write(RecordsProgress("sealing", progress.visited, progress.estimated));
    }
    TellRewrap(log_, "rewrapping", progress);
  }
  // Before the log tells how it ended.
  void End() { line_.reset(); }

 private:
  Log* const log_;
  std::optional<ProgressLine> line_;  // empty: the log tells
};

}  // namespace

int VerifyBackup(Setup* setup, std::ostream* terminal) {
  Work work(setup->log(), terminal);
  const Flags& flags = setup->flags();
  const auto act = setup->BeginAct("verify_backup", flags.backup_dir);
  if (!act.ok()) return setup->CannotStart(act.status());
  setup->StartClock();
  const auto done =
      keystore::VerifyBackup(flags.backup_dir, BackupId(flags.verify_backup), setup->StoreOptions(),
                             [&work](const auto& progress) { work.Tell(progress); });
  work.End();
  setup->audit()->End(*act, done.ok() ? "OK" : "FAILED");
  if (!done.ok()) return setup->CannotStart(done.status());
  TellBackupDone(setup->log(), "backup_is_whole", *done);
  return kExitStopped;
}

int RestoreBackup(Setup* setup, std::ostream* terminal) {
  Work work(setup->log(), terminal);
  const Flags& flags = setup->flags();
  const auto act = setup->BeginAct(
      "restore_backup",
      absl::StrCat(flags.restore_backup, " of ", flags.backup_dir, " to ", flags.data_dir));
  if (!act.ok()) return setup->CannotStart(act.status());
  setup->StartClock();
  keystore::EngineOptions options = setup->StoreOptions();
  // What has expired stays until a server with its configuration sees to it.
  options.may_reclaim = [](std::string_view) { return false; };
  // Time does not run backwards to before what the backup knows.
  const auto mark_clock = [](const std::string& store, const keystore::BackupFacts& facts) {
    return keystore::ClockMark(ClockMarkPath(store)).Store(facts.made);
  };
  const auto done = keystore::RestoreBackup(
      flags.backup_dir, BackupId(flags.restore_backup), options,
      [&work](const auto& progress) { work.Tell(progress); }, mark_clock);
  work.End();
  setup->audit()->End(*act, done.ok() ? "OK" : "FAILED");
  if (!done.ok()) return setup->CannotStart(done.status());
  TellBackupDone(setup->log(), "restored", *done);
  return kExitStopped;
}

int Rewrap(Setup* setup, std::ostream* terminal) {
  Work work(setup->log(), terminal);
  if (absl::Status status = setup->ReadConfig(); !status.ok()) return setup->CannotStart(status);
  const auto act = setup->BeginAct("rewrap", setup->flags().data_dir);
  if (!act.ok()) return setup->CannotStart(act.status());
  setup->StartClock();
  const auto done = keystore::RewrapStore(setup->StoreOptions(),
                                          [&work](const auto& progress) { work.Tell(progress); });
  work.End();
  setup->audit()->End(*act, done.ok() ? "OK" : "FAILED");
  if (!done.ok()) return setup->CannotStart(done.status());
  TellRewrap(setup->log(), "rewrapped", *done);
  return kExitStopped;
}

}  // namespace idempotency::service
