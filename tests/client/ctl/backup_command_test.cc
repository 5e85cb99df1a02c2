#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

backup::v1::Backup SomeBackup() {
  backup::v1::Backup backup;
  backup.set_id(7);
  backup.mutable_create_time()->set_seconds(1'767'323'040);
  backup.set_bytes(3 * 1024 * 1024);
  backup.mutable_contents()->set_complete(1200);
  backup.mutable_contents()->set_unresolved(3);
  return backup;
}

TEST(BackupCommand, ShowsWhatIsInTheBackup) {
  FakeServer server;
  server.backups.create = [](auto* writer) {
    backup::v1::CreateBackupResponse response;
    response.mutable_progress()->set_bytes(1024 * 1024);
    response.mutable_progress()->set_estimated_bytes(4 * 1024 * 1024);
    writer->Write(response);
    *response.mutable_backup() = SomeBackup();
    writer->Write(response);
    return grpc::Status::OK;
  };
  const RunResult run = server.Run({"backup"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("BACKED UP: backup 7 is whole and was read back\n"));
  EXPECT_THAT(run.out, HasSubstr("1200"));
  EXPECT_THAT(run.out, HasSubstr("3.0 MiB"));
  EXPECT_THAT(run.out, Not(HasSubstr("key is missing")));
  // Not a terminal.
  EXPECT_EQ(run.err, "");
  server.terminal = true;
  const RunResult watched = server.Run({"backup"});
  EXPECT_THAT(watched.err, HasSubstr("copying    [######..................]  25 %  1.0 MiB"));
  EXPECT_EQ(watched.out, run.out);
}

TEST(BackupCommand, SaysWhyThereIsNone) {
  FakeServer server;
  server.backups.create = [](auto*) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "start it with --backup_dir");
  };
  const RunResult run = server.Run({"backup"});
  EXPECT_EQ(run.code, 3);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("start it with --backup_dir"));
}

TEST(BackupsCommand, ListsThem) {
  FakeServer server;
  EXPECT_EQ(server.Run({"backups"}).out, "no backups\n");
  *server.backups.list.response.add_backups() = SomeBackup();
  const RunResult run = server.Run({"backups"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("7   5s ago"));
}

TEST(RestoreCommand, IsDoneByTheServersProgram) {
  FakeServer server;
  const RunResult restore =
      server.Run({"restore", "--backup-dir=/b", "--data-dir=/d", "--backup=3"});
  EXPECT_THAT(server.became, ElementsAre("idempotencyd", "--restore_backup=3", "--backup_dir=/b",
                                         "--data_dir=/d"));
  EXPECT_EQ(restore.code, 2);
  EXPECT_THAT(restore.err, HasSubstr("idempotencyd cannot be run, which does this: not found"));
  server.Run({"verify", "--backup-dir=/b", "--response-keys=/k"});
  EXPECT_THAT(server.became, ElementsAre("idempotencyd", "--verify_backup=latest",
                                         "--backup_dir=/b", "--response_keys=/k"));
}

// idempotencyd draws the bar, or leaves it.
TEST(RestoreCommand, HandsOnWhatIsWantedOfTheBar) {
  FakeServer server;
  server.Run({"verify", "--backup-dir=/b", "--progress=always"});
  EXPECT_THAT(server.became, Contains("--progress=always"));
  server.Run({"verify", "--backup-dir=/b", "--progress=never"});
  EXPECT_THAT(server.became, Contains("--progress=never"));
  server.Run({"restore", "--backup-dir=/b", "--data-dir=/d", "--quiet"});
  EXPECT_THAT(server.became, Contains("--progress=never"));
  server.Run({"restore", "--backup-dir=/b", "--data-dir=/d", "--progress=auto"});
  EXPECT_THAT(server.became, Not(Contains(HasSubstr("--progress"))));
}

TEST(RestoreCommand, NeedsToKnowFromWhereAndTo) {
  FakeServer server;
  EXPECT_EQ(server.Run({"restore", "--backup-dir=/b"}).code, 2);
  EXPECT_EQ(server.Run({"restore", "--data-dir=/d"}).code, 2);
  EXPECT_EQ(server.Run({"verify"}).code, 2);
  EXPECT_THAT(server.became, IsEmpty());
}

}  // namespace
}  // namespace idempotency::ctl
