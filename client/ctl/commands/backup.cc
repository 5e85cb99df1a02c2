// Backups: taken and listed by a server that runs; verified and restored by idempotencyd, which has
// the store's code, while none runs.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/duration_text.h"
#include "client/ctl/progress.h"
#include "client/ctl/table.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

std::string Mebibytes(uint64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / kMebibyte);
}

std::string ProgressText(const backup::v1::BackupProgress& progress) {
  if (progress.records() == 0) {
    return ProgressLine("copying", RoughProgressBar(progress.bytes(), progress.estimated_bytes()),
                        Mebibytes(progress.bytes()));
  }
  return ProgressLine("verifying",
                      RoughProgressBar(progress.records(), progress.estimated_records()),
                      absl::StrCat(progress.records(), " records"));
}

// --- backup, backups -----------------------------------------------------------------------------

std::string BackupText(const backup::v1::Backup& backup, absl::Time now) {
  const backup::v1::BackupContents& contents = backup.contents();
  Fields fields;
  fields.Add("of", AgeText(FromProto(backup.create_time()), now));
  fields.Add("size", Mebibytes(backup.bytes()));
  fields.Add("complete", std::to_string(contents.complete()));
  fields.Add("pending", std::to_string(contents.pending()));
  fields.Add("unresolved", std::to_string(contents.unresolved()));
  fields.Add("expired", std::to_string(contents.expired()));
  fields.Add("freed", std::to_string(contents.freed()));
  if (contents.key_missing() > 0) {
    fields.Add("answers whose key is missing", std::to_string(contents.key_missing()));
  }
  return absl::StrCat("BACKED UP: backup ", backup.id(), " is whole and was read back\n",
                      fields.ToString());
}

struct BackupFlags {};

ExitCode RunBackup(const BackupFlags&, Session& session) {
  backup::v1::Backup backup;
  const auto tell = [&session](const backup::v1::BackupProgress& progress) {
    session.Progress(ProgressText(progress));
  };
  const auto error = session.connection().CreateBackup(tell, &backup);
  if (error) return session.Fail(*error, session.Failed("backup", /*changes=*/false, {}));
  session.Show(backup, BackupText(backup, session.Now()));
  return ExitCode::kOk;
}

ExitCode RunBackups(const BackupFlags&, Session& session) {
  backup::v1::ListBackupsResponse response;
  if (const auto error = session.connection().ListBackups({}, &response)) {
    return session.Fail(*error, session.Failed("backups", /*changes=*/false, {}));
  }
  Table table({"ID", "OF", "SIZE"});
  for (const backup::v1::Backup& backup : response.backups()) {
    table.Add({std::to_string(backup.id()), AgeText(FromProto(backup.create_time()), session.Now()),
               Mebibytes(backup.bytes())});
  }
  session.Show(response, table.empty() ? "no backups\n" : table.ToString());
  return ExitCode::kOk;
}

// --- verify, restore -----------------------------------------------------------------------------

struct OfflineFlags {
  std::string backup_dir;
  std::string backup = "latest";
  std::string data_dir;
  std::string response_keys;
};

void AddOffline(CLI::App* command, OfflineFlags* flags) {
  command->add_option("--backup-dir", flags->backup_dir, "The directory of the backups")
      ->required()
      ->type_name("DIR");
  command->add_option("--backup", flags->backup, "Its id, as backups shows it [latest]")
      ->type_name("ID");
  command
      ->add_option("--response-keys", flags->response_keys,
                   "The keys that answers are sealed with, where they are")
      ->type_name("DIR");
}

// What idempotencyd is told of --progress and --quiet: without a bar it logs how far it is.
void AddProgress(const Globals& globals, std::vector<std::string>* words) {
  if (globals.quiet || globals.progress == false) words->push_back("--progress=never");
  if (!globals.quiet && globals.progress == true) words->push_back("--progress=always");
}

// Goes on as idempotencyd, which tells how far it is on standard error and whose exit code counts.
ExitCode Become(const std::string& act, const OfflineFlags& flags, Session& session) {
  std::vector<std::string> words = {absl::StrCat("--", act, "=", flags.backup),
                                    absl::StrCat("--backup_dir=", flags.backup_dir)};
  if (!flags.data_dir.empty()) words.push_back(absl::StrCat("--data_dir=", flags.data_dir));
  if (!flags.response_keys.empty()) {
    words.push_back(absl::StrCat("--response_keys=", flags.response_keys));
  }
  AddProgress(session.globals(), &words);
  return session.Misused(absl::StrCat("idempotencyd cannot be run, which does this: ",
                                      session.Become("idempotencyd", words)));
}

ExitCode RunVerify(const OfflineFlags& flags, Session& session) {
  return Become("verify_backup", flags, session);
}

ExitCode RunRestore(const OfflineFlags& flags, Session& session) {
  return Become("restore_backup", flags, session);
}

}  // namespace

void AddBackupCommands(CLI::App* app, Action* action) {
  CLI::App* create =
      AddCommand(app, "backup", "Back up the store while it serves, and verify that");
  SetFooter(
      create,
      "\nThe server copies to the directory that it was started with (--backup_dir), reads\n"
      "the copy back, and removes those beyond --backups_kept. It goes on where this tool is\n"
      "ended.\n"
      "\nExit codes: 0 backed up, 2 usage, 3 refused (also where one is being taken), 4 no "
      "answer.\n");
  OnNamed(create, action, std::make_shared<BackupFlags>(), &RunBackup);

  CLI::App* list = AddCommand(app, "backups", "The backups that the server keeps");
  SetFooter(list, "\nExit codes: 0 listed, 2 usage, 3 refused, 4 no answer.\n");
  OnNamed(list, action, std::make_shared<BackupFlags>(), &RunBackups);

  const auto verified = std::make_shared<OfflineFlags>();
  CLI::App* verify = AddCommand(app, "verify", "Read a backup back, on this machine");
  AddOffline(verify, verified.get());
  SetFooter(
      verify,
      "\nRuns idempotencyd --verify_backup, from beside this tool or from $PATH: every file's\n"
      "checksum, then every record.\n"
      "\nExit codes: 0 whole, 1 not, 2 usage.\n\nExample:\n"
      "  idempotencyctl verify --backup-dir=/backups\n");
  OnNamed(verify, action, verified, &RunVerify);

  const auto restored = std::make_shared<OfflineFlags>();
  CLI::App* restore = AddCommand(app, "restore", "Make a store out of a backup, on this machine");
  AddOffline(restore, restored.get());
  restore
      ->add_option("--data-dir", restored->data_dir, "Where the store is to be; must not exist yet")
      ->required()
      ->type_name("DIR");
  SetFooter(restore,
            "\nRuns idempotencyd --restore_backup, from beside this tool or from $PATH, while no\n"
            "server has the store open. What was PENDING in the backup becomes UNRESOLVED, and\n"
            "operations begun before now of which it knows nothing are TOO_OLD.\n"
            "\nExit codes: 0 restored, 1 not (nothing was changed), 2 usage.\n\nExample:\n"
            "  idempotencyctl restore --backup-dir=/backups --data-dir=/var/lib/idempotencyd\n");
  OnNamed(restore, action, restored, &RunRestore);
}

}  // namespace idempotency::ctl
