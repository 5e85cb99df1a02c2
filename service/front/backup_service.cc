// BackupService: administrative acts on the store as a whole.
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/timestamp.pb.h"
#include "grpcpp/support/server_callback.h"
#include "idempotency/backup/v1/backup_service.grpc.pb.h"
#include "service/audit_log.h"
#include "service/backup_keeper.h"
#include "service/front/front_desk.h"
#include "service/front/services.h"
#include "service/front/store_call.h"
#include "service/front/transport.h"
#include "service/wire_time.h"
#include "service/worker.h"

namespace idempotency::service {
namespace {

namespace wire = idempotency::backup::v1;

void Fill(const keystore::Backup& backup, wire::Backup* out) {
  out->set_id(backup.id);
  SetTimestamp(backup.facts.made, out->mutable_create_time());
  out->set_bytes(backup.bytes);
}

void Fill(const keystore::BackupContents& contents, wire::BackupContents* out) {
  out->set_pending(contents.pending);
  out->set_unresolved(contents.unresolved);
  out->set_complete(contents.complete);
  out->set_expired(contents.expired);
  out->set_freed(contents.freed);
  out->set_key_missing(contents.key_missing);
}

void Fill(const keystore::BackupProgress& progress, wire::BackupProgress* out) {
  out->set_bytes(progress.bytes);
  out->set_estimated_bytes(progress.estimated_bytes);
  out->set_records(progress.records);
  out->set_estimated_records(progress.estimated_records);
}

// Tells how far it is as fast as the caller listens, and no faster than it happens: of several
// reports that wait to be sent the last one counts. The backup goes on where the caller has gone.
class CreateBackupCall final : public grpc::ServerWriteReactor<wire::CreateBackupResponse> {
 public:
  CreateBackupCall(const FrontDesk* desk, BackupKeeper* keeper,
                   grpc::CallbackServerContext* context)
      : desk_(desk) {
    desk_->calls()->Enter();
    Start(keeper, context);
  }

 private:
  void Start(BackupKeeper* keeper, grpc::CallbackServerContext* context) {
    BeginStoreAct(*desk_, Verb::kCreateBackup, *context,
                  [this, keeper, context](FrontDesk::Begun begun) {
                    if (begun.failure) return Finish(RefuseCall(*begun.failure, context));
                    act_ = std::move(begun.act);
                    Begin(keeper);
                  });
  }

  void Begin(BackupKeeper* keeper) {
    const absl::Status begun = keeper->Start(
        [this](const keystore::BackupProgress& progress) {
          wire::CreateBackupResponse response;
          Fill(progress, response.mutable_progress());
          Send(std::move(response));
        },
        [this](absl::StatusOr<keystore::VerifiedBackup> backup) { End(std::move(backup)); });
    if (begun.ok()) return;
    desk_->EndAct(act_, ResultOf(begun));
    Finish(ToGrpc(begun));
  }

  void End(absl::StatusOr<keystore::VerifiedBackup> backup) ABSL_LOCKS_EXCLUDED(mutex_) {
    desk_->EndAct(act_, ResultOf(backup.status()));
    if (backup.ok()) {
      wire::CreateBackupResponse response;
      Fill(backup->backup, response.mutable_backup());
      Fill(backup->contents, response.mutable_backup()->mutable_contents());
      Send(std::move(response));
    }
    {
      absl::MutexLock lock(&mutex_);
      result_ = ToGrpc(backup.status());
      if (writing_) return;  // the write's end finishes
    }
    Finish(ToGrpc(backup.status()));
  }

  void Send(wire::CreateBackupResponse response) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (gone_) return;
      if (writing_) {
        next_ = std::move(response);
        return;
      }
      writing_ = true;
      sent_ = std::move(response);
    }
    StartWrite(&sent_);
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    std::optional<grpc::Status> finish;
    {
      absl::MutexLock lock(&mutex_);
      gone_ |= !ok;
      if (next_ && !gone_) {
        sent_ = *std::move(next_);
        next_.reset();
      } else {
        writing_ = false;
        if (!result_) return;
        finish = result_;
      }
    }
    if (finish) return Finish(*finish);
    StartWrite(&sent_);
  }

  void OnCancel() override {}
  void OnDone() override {
    keystore::Outstanding* const calls = desk_->calls();
    delete this;
    calls->Leave();
  }

  const FrontDesk* const desk_;
  std::optional<AuditLog::Act> act_;
  // What is being written; nobody else's until that has ended.
  wire::CreateBackupResponse sent_;

  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;  // the caller
  std::optional<wire::CreateBackupResponse> next_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> result_ ABSL_GUARDED_BY(mutex_);  // the backup has ended
};

class ListBackupsCall final : public StoreCall {
 public:
  ListBackupsCall(const FrontDesk* desk, BackupKeeper* keeper, Worker* worker,
                  grpc::CallbackServerContext* context, wire::ListBackupsResponse* response)
      : StoreCall(desk, Verb::kListBackups, context),
        keeper_(keeper),
        worker_(worker),
        response_(response) {}

 private:
  void Act() override {
    if (worker_->Run([this] { List(); })) return;
    End(absl::ResourceExhaustedError("Too many lists are being made; send the call again later."));
  }

  void List() {
    const auto list = keeper_->List();
    if (!list.ok()) return End(list.status());
    for (const keystore::Backup& backup : *list) Fill(backup, response_->add_backups());
    End(absl::OkStatus());
  }

  BackupKeeper* const keeper_;
  Worker* const worker_;
  wire::ListBackupsResponse* const response_;
};

class BackupServiceImpl final : public wire::BackupService::CallbackService {
 public:
  BackupServiceImpl(const FrontDesk* desk, BackupKeeper* keeper, Worker* worker)
      : desk_(desk), keeper_(keeper), worker_(worker) {}

  grpc::ServerWriteReactor<wire::CreateBackupResponse>* CreateBackup(
      grpc::CallbackServerContext* context, const wire::CreateBackupRequest*) override {
    return new CreateBackupCall(desk_, keeper_, context);
  }
  grpc::ServerUnaryReactor* ListBackups(grpc::CallbackServerContext* context,
                                        const wire::ListBackupsRequest*,
                                        wire::ListBackupsResponse* response) override {
    return StoreCall::Begun(new ListBackupsCall(desk_, keeper_, worker_, context, response));
  }

 private:
  const FrontDesk* const desk_;
  BackupKeeper* const keeper_;
  Worker* const worker_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBackupService(const FrontDesk* desk, BackupKeeper* keeper,
                                                 Worker* worker) {
  return std::make_unique<BackupServiceImpl>(desk, keeper, worker);
}

}  // namespace idempotency::service
