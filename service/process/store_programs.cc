#include "service/process/store_programs.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "keystore/clock.h"
#include "keystore/engine/backup.h"
#include "keystore/engine/open_engine.h"
#include "service/process/exit_codes.h"

namespace idempotency::service {
namespace {

// 0: the newest.
uint32_t BackupId(const std::string& name) {
  uint32_t id = 0;
  if (name != Flags::kLatestBackup) (void)absl::SimpleAtoi(name, &id);
  return id;
}

void TellBackup(Log* log, const keystore::BackupProgress& progress) {
  log->Write(LogLevel::kInfo,
             progress.stage == keystore::BackupStage::kRestoring ? "restoring" : "verifying",
             {{"bytes", progress.bytes},
              {"estimated_bytes", progress.estimated_bytes},
              {"records", progress.records},
              {"estimated_records", progress.estimated_records}});
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

}  // namespace

int VerifyBackup(Setup* setup) {
  const Flags& flags = setup->flags();
  const auto act = setup->BeginAct("verify_backup", flags.backup_dir);
  if (!act.ok()) return setup->CannotStart(act.status());
  setup->StartClock();
  const auto done =
      keystore::VerifyBackup(flags.backup_dir, BackupId(flags.verify_backup), setup->StoreOptions(),
                             [setup](const auto& progress) { TellBackup(setup->log(), progress); });
  setup->audit()->End(*act, done.ok() ? "OK" : "FAILED");
  if (!done.ok()) return setup->CannotStart(done.status());
  TellBackupDone(setup->log(), "backup_is_whole", *done);
  return kExitStopped;
}

int RestoreBackup(Setup* setup) {
  const Flags& flags = setup->flags();
  const auto act = setup->BeginAct(
      "restore_backup",
      absl::StrCat(flags.restore_backup, " of ", flags.backup_dir, " to ", flags.data_dir));
  if (!act.ok()) return setup->CannotStart(act.status());
  setup->StartClock();
  keystore::EngineOptions options = setup->StoreOptions();
  // What has expired stays until a server with its configuration sees to it.
  options.may_reclaim = [](std::string_view) { return false; };
  const auto done = keystore::RestoreBackup(
      flags.backup_dir, BackupId(flags.restore_backup), options,
      [setup](const auto& progress) { TellBackup(setup->log(), progress); });
  setup->audit()->End(*act, done.ok() ? "OK" : "FAILED");
  if (!done.ok()) return setup->CannotStart(done.status());
  // Time does not run backwards to before what the backup knows.
  absl::Status marked =
      keystore::ClockMark(setup->clock_mark_path()).Store(done->backup.facts.made);
  if (!marked.ok()) return setup->CannotStart(marked);
  TellBackupDone(setup->log(), "restored", *done);
  return kExitStopped;
}

int Rewrap(Setup* setup) {
  if (absl::Status status = setup->ReadConfig(); !status.ok()) return setup->CannotStart(status);
  const auto act = setup->BeginAct("rewrap", setup->flags().data_dir);
  if (!act.ok()) return setup->CannotStart(act.status());
  setup->StartClock();
  const auto done = keystore::RewrapStore(setup->StoreOptions(), [setup](const auto& progress) {
    TellRewrap(setup->log(), "rewrapping", progress);
  });
  setup->audit()->End(*act, done.ok() ? "OK" : "FAILED");
  if (!done.ok()) return setup->CannotStart(done.status());
  TellRewrap(setup->log(), "rewrapped", *done);
  return kExitStopped;
}

}  // namespace idempotency::service
