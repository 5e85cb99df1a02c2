// TransferService: all records of the store, out of it or into it, at the pace of the caller; and
// the end of a store whose records were moved away.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/server_callback.h"
#include "idempotency/transfer/v1/transfer_service.grpc.pb.h"
#include "keystore/engine/transfer/record_export.h"
#include "keystore/engine/transfer/record_import.h"
#include "keystore/engine/transfer/retirement.h"
#include "service/audit_log.h"
#include "service/error_table.h"
#include "service/front/front_desk.h"
#include "service/front/services.h"
#include "service/front/transport.h"
#include "service/transfer_keeper.h"
#include "service/validation.h"
#include "service/wire_time.h"

namespace idempotency::service {
namespace {

namespace wire = idempotency::transfer::v1;

constexpr uint32_t kFormatVersion = 1;
constexpr int32_t kMaxNanos = 999'999'999;

// --- Messages <-> values -------------------------------------------------------------------------

// Unset for what no store has.
core::Time TimeOf(const google::protobuf::Timestamp& timestamp) {
  const std::chrono::seconds last =
      std::chrono::floor<std::chrono::seconds>(core::kMaxTime.time_since_epoch());
  if (timestamp.seconds() < 0 || timestamp.seconds() > last.count()) return {};
  if (timestamp.nanos() < 0 || timestamp.nanos() > kMaxNanos) return {};
  return core::Time(std::chrono::seconds(timestamp.seconds()) +
                    std::chrono::milliseconds(timestamp.nanos() / 1'000'000));
}

void Fill(const keystore::Retirement& retirement, wire::Retirement* out) {
  SetTimestamp(retirement.time, out->mutable_retire_time());
  out->set_actor(retirement.actor);
  out->set_moved_to(retirement.moved_to);
  out->set_digest(retirement.digest);
}

keystore::Retirement RetirementOf(const wire::Retirement& retirement) {
  return {.time = TimeOf(retirement.retire_time()),
          .actor = retirement.actor(),
          .moved_to = retirement.moved_to(),
          .digest = retirement.digest()};
}

void Fill(const keystore::TransferFacts& facts, wire::Header* out) {
  out->set_format_version(kFormatVersion);
  out->set_engine(facts.engine);
  out->set_token_floor(facts.token_floor);
  SetTimestamp(facts.made, out->mutable_export_time());
  if (core::IsSet(facts.lost_before)) SetTimestamp(facts.lost_before, out->mutable_lost_before());
  if (facts.retired) Fill(*facts.retired, out->mutable_retired());
  out->set_digest(keystore::DigestOf(facts));
}

// The facts, or why they cannot be taken.
absl::StatusOr<keystore::TransferFacts> FactsOf(const wire::Header& header) {
  if (header.format_version() != kFormatVersion) {
    return absl::InvalidArgumentError(
        "begin.header.format_version is not one that this server knows; import with the version "
        "that exported");
  }
  keystore::TransferFacts facts{.engine = header.engine(),
                                .token_floor = header.token_floor(),
                                .made = TimeOf(header.export_time()),
                                .lost_before = {}};
  if (header.has_lost_before()) facts.lost_before = TimeOf(header.lost_before());
  if (header.has_retired()) facts.retired = RetirementOf(header.retired());
  if (keystore::DigestOf(facts) == header.digest()) return facts;
  return absl::DataLossError(
      "the header is damaged, and nothing was written; export again, or copy the file again");
}

void Fill(keystore::RecordChunk&& chunk, wire::Chunk* out) {
  out->set_number(chunk.number);
  for (keystore::MovedRecord& moved : chunk.records) {
    wire::Record* const record = out->add_records();
    record->set_key(std::move(moved.key));
    record->set_record(std::move(moved.bytes));
  }
  out->set_digest(std::move(chunk.digest));
}

keystore::RecordChunk ChunkOf(wire::Chunk* chunk) {
  keystore::RecordChunk out{
      .number = chunk->number(), .records = {}, .digest = std::move(*chunk->mutable_digest())};
  for (wire::Record& record : *chunk->mutable_records()) {
    out.records.push_back(
        {.key = std::move(*record.mutable_key()), .bytes = std::move(*record.mutable_record())});
  }
  return out;
}

void Fill(const keystore::RecordTotals& totals, wire::Trailer* out) {
  out->mutable_counts()->set_pending(totals.pending);
  out->mutable_counts()->set_unresolved(totals.unresolved);
  out->mutable_counts()->set_complete(totals.complete);
  out->mutable_counts()->set_expired(totals.expired);
  out->mutable_counts()->set_freed(totals.freed);
  out->set_bytes(totals.bytes);
  out->set_digest(totals.digest);
}

keystore::RecordTotals TotalsOf(const wire::Trailer& trailer) {
  const wire::RecordCounts& counts = trailer.counts();
  return {.pending = counts.pending(),
          .unresolved = counts.unresolved(),
          .complete = counts.complete(),
          .expired = counts.expired(),
          .freed = counts.freed(),
          .bytes = trailer.bytes(),
          .digest = trailer.digest()};
}

void Fill(const keystore::ImportCounts& counts, wire::ImportProgress* out) {
  out->set_written(counts.written);
  out->set_present(counts.present);
  out->set_bodies_omitted(counts.bodies_omitted);
}

std::optional<FieldError> Check(const wire::RetireStoreRequest& request) {
  if (request.digest().size() != keystore::kTransferDigestBytes) {
    return FieldError{
        "digest", "digest is required; send the one of the trailer that the export ended with."};
  }
  return CheckActorAndReason(request.actor(), request.moved_to(), "moved_to");
}

// --- Calls ---------------------------------------------------------------------------------------

// Something that gRPC was asked for, and the thread that waits for it.
class Turn {
 public:
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ended_ = false;
  }
  void End(bool ok) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ok_ = ok;
    ended_ = true;
  }
  // Whether it was done; false: the caller has gone, or has nothing more.
  bool Await() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&ended_));
    return ok_;
  }

 private:
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool ok_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status Gone() { return absl::CancelledError("the caller has gone"); }

// What the calls have in common: who may, the audit, and the keeper's thread, on which Run(), of
// the derived call, does the work.
template <typename Reactor, typename Derived>
class TransferCall : public Reactor {
 protected:
  TransferCall(const FrontDesk* desk, TransferKeeper* keeper) : desk_(desk), keeper_(keeper) {
    desk_->calls()->Enter();
  }

  // `fault`: what is wrong with the request. `entry`: what the audit is to tell of it.
  void Start(Verb verb, TransferMode wanted, grpc::CallbackServerContext* context,
             const std::optional<FieldError>& fault = std::nullopt, AuditEntry entry = {}) {
    Caller caller;
    std::optional<Failure> failure = IdentifyCaller(*context, *desk_, verb, &caller);
    if (!failure) failure = desk_->AdmitToStore(caller, verb);
    if (!failure && fault) failure = desk_->Refused(caller, verb, ToFailure(*fault));
    if (failure) return this->Finish(RefuseCall(*failure, context));
    const std::string peer = context->peer();
    entry.peer = peer;
    desk_->BeginAct(caller, verb, entry, [this, wanted, context](FrontDesk::Begun begun) {
      if (begun.failure) return this->Finish(RefuseCall(*begun.failure, context));
      act_ = std::move(begun.act);
      const absl::Status started =
          keeper_->Start(wanted, {.run = [this] { return static_cast<Derived*>(this)->Run(); },
                                  .cancel = [context] { context->TryCancel(); },
                                  .end = [this](const absl::Status& status) { End(status); }});
      if (!started.ok()) End(started);
    });
  }

  TransferKeeper& keeper() const { return *keeper_; }
  // What the audit is to tell besides how it ended. By Run.
  void set_detail(std::string detail) { detail_ = std::move(detail); }
  // Nobody listens any more, or the server stops: what reads whole stores ends, too.
  bool given_up() const { return gone_ || keeper_->stopping(); }

 private:
  void End(const absl::Status& status) {
    desk_->EndAct(act_, absl::StatusCodeToString(status.code()), detail_);
    // The codes of both have the same numbers.
    this->Finish({static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message())});
  }
  void OnCancel() override { gone_ = true; }
  void OnDone() override {
    keystore::Outstanding* const calls = desk_->calls();
    delete this;
    calls->Leave();
  }

  const FrontDesk* const desk_;
  TransferKeeper* const keeper_;
  std::atomic<bool> gone_{false};
  std::optional<AuditLog::Act> act_;
  std::string detail_;
};

class ExportCall final
    : public TransferCall<grpc::ServerWriteReactor<wire::ExportRecordsResponse>, ExportCall> {
 public:
  ExportCall(const FrontDesk* desk, TransferKeeper* keeper, grpc::CallbackServerContext* context)
      : TransferCall(desk, keeper) {
    Start(Verb::kExportRecords, TransferMode::kExport, context);
  }

  absl::Status Run() {
    keystore::RecordExport records(keeper().engine(), keeper().engine_name());
    const auto facts = records.Begin(keeper().Now());
    if (!facts.ok()) return facts.status();
    Fill(*facts, response_.mutable_header());
    response_.mutable_header()->set_estimated_records(keeper().engine()->stats().estimated_keys);
    if (!Send()) return Gone();
    for (;;) {
      absl::StatusOr<keystore::RecordChunk> chunk = records.Next();
      if (!chunk.ok()) return chunk.status();
      if (chunk->records.empty()) break;
      Fill(*std::move(chunk), response_.mutable_chunk());
      if (!Send()) return Gone();
    }
    const auto totals = records.End([this] { return given_up(); });
    if (!totals.ok()) return totals.status();
    Fill(*totals, response_.mutable_trailer());
    return Send() ? absl::OkStatus() : Gone();
  }

 private:
  bool Send() {
    written_.Begin();
    StartWrite(&response_);
    const bool sent = written_.Await();
    response_.Clear();
    return sent;
  }
  void OnWriteDone(bool ok) override { written_.End(ok); }

  wire::ExportRecordsResponse response_;
  Turn written_;
};

class ImportCall final
    : public TransferCall<
          grpc::ServerBidiReactor<wire::ImportRecordsRequest, wire::ImportRecordsResponse>,
          ImportCall> {
 public:
  ImportCall(const FrontDesk* desk, TransferKeeper* keeper, grpc::CallbackServerContext* context)
      : TransferCall(desk, keeper) {
    Start(Verb::kImportRecords, TransferMode::kImport, context);
  }

  absl::Status Run() {
    if (!Receive() || !request_.has_begin()) {
      return absl::InvalidArgumentError("begin is required first; send it with the header");
    }
    const auto facts = FactsOf(request_.begin().header());
    if (!facts.ok()) return facts.status();
    keystore::RecordImport records(keeper().engine(),
                                   {.facts = *facts,
                                    .dry_run = request_.begin().dry_run(),
                                    .omit_large_bodies = request_.begin().omit_large_bodies(),
                                    .of_retired_store = request_.begin().of_retired_store()});
    if (absl::Status status = records.Begin(keeper().Now()); !status.ok()) return status;
    while (Receive()) {
      if (request_.has_trailer()) return End(&records);
      if (!request_.has_chunk()) {
        return absl::InvalidArgumentError("part is required behind begin: a chunk or the trailer");
      }
      const absl::Status taken = records.Take(ChunkOf(request_.mutable_chunk()));
      if (!taken.ok()) return Refuse(records, taken);
      wire::ImportRecordsResponse response;
      Fill(records.counts(), response.mutable_progress());
      if (!Send(std::move(response))) return Gone();
    }
    if (keeper().stopping()) return absl::CancelledError("the server is stopping; run this again");
    return absl::DataLossError(
        "the records end before their trailer, so that some are missing and the store is not "
        "whole; run the import again with the whole export");
  }

 private:
  absl::Status End(keystore::RecordImport* records) {
    const auto stored = records->End(TotalsOf(request_.trailer()), [this] { return given_up(); });
    if (!stored.ok()) return stored.status();
    wire::ImportRecordsResponse response;
    Fill(records->counts(), response.mutable_summary()->mutable_progress());
    Fill(*stored, response.mutable_summary()->mutable_stored());
    return Send(std::move(response)) ? absl::OkStatus() : Gone();
  }

  // Names the operation that is in the way, which no status does.
  absl::Status Refuse(const keystore::RecordImport& records, const absl::Status& why) {
    if (!records.conflict()) return why;
    wire::ImportRecordsResponse response;
    wire::ImportConflict* const conflict = response.mutable_conflict();
    conflict->set_namespace_(records.conflict()->name_space);
    conflict->set_scope(records.conflict()->scope);
    conflict->set_key(records.conflict()->key);
    (void)Send(std::move(response));
    return why;
  }

  bool Receive() {
    read_.Begin();
    StartRead(&request_);
    return read_.Await();
  }
  bool Send(wire::ImportRecordsResponse response) {
    response_ = std::move(response);
    written_.Begin();
    StartWrite(&response_);
    return written_.Await();
  }
  void OnReadDone(bool ok) override { read_.End(ok); }
  void OnWriteDone(bool ok) override { written_.End(ok); }

  wire::ImportRecordsRequest request_;
  wire::ImportRecordsResponse response_;
  Turn read_;
  Turn written_;
};

// Reads all records, which takes as long as an export.
class RetireCall final : public TransferCall<grpc::ServerUnaryReactor, RetireCall> {
 public:
  RetireCall(const FrontDesk* desk, TransferKeeper* keeper, grpc::CallbackServerContext* context,
             const wire::RetireStoreRequest* request, wire::RetireStoreResponse* response)
      : TransferCall(desk, keeper), request_(*request), response_(*response) {
    AuditEntry entry;
    entry.actor = request_.actor();
    entry.reason = request_.moved_to();
    Start(Verb::kRetireStore, TransferMode::kExport, context, Check(request_), entry);
  }

  absl::Status Run() {
    const absl::StatusOr<keystore::Retirement> retirement =
        keystore::Retire(keeper().engine(),
                         {.time = keeper().Now(),
                          .actor = request_.actor(),
                          .moved_to = request_.moved_to(),
                          .digest = request_.digest()},
                         [this] { return given_up(); });
    if (!retirement.ok()) return retirement.status();
    Fill(*retirement, response_.mutable_retirement());
    return absl::OkStatus();
  }

 private:
  // gRPC's, until the call is over.
  const wire::RetireStoreRequest& request_;
  wire::RetireStoreResponse& response_;
};

class ReinstateCall final : public TransferCall<grpc::ServerUnaryReactor, ReinstateCall> {
 public:
  ReinstateCall(const FrontDesk* desk, TransferKeeper* keeper, grpc::CallbackServerContext* context,
                const wire::ReinstateStoreRequest& request, wire::ReinstateStoreResponse* response)
      : TransferCall(desk, keeper), response_(*response) {
    AuditEntry entry;
    entry.actor = request.actor();
    entry.reason = request.reason();
    Start(Verb::kReinstateStore, TransferMode::kExport, context,
          CheckActorAndReason(request.actor(), request.reason()), entry);
  }

  absl::Status Run() {
    const auto stood = keystore::Reinstate(keeper().engine());
    if (!stood.ok()) return stood.status();
    if (!stood->has_value()) return absl::OkStatus();
    Fill(**stood, response_.mutable_retirement());
    set_detail(keystore::TextOf(**stood));
    return absl::OkStatus();
  }

 private:
  // gRPC's, until the call is over.
  wire::ReinstateStoreResponse& response_;
};

class TransferServiceImpl final : public wire::TransferService::CallbackService {
 public:
  TransferServiceImpl(const FrontDesk* desk, TransferKeeper* keeper)
      : desk_(desk), keeper_(keeper) {}

  grpc::ServerWriteReactor<wire::ExportRecordsResponse>* ExportRecords(
      grpc::CallbackServerContext* context, const wire::ExportRecordsRequest*) override {
    return new ExportCall(desk_, keeper_, context);
  }
  grpc::ServerBidiReactor<wire::ImportRecordsRequest, wire::ImportRecordsResponse>* ImportRecords(
      grpc::CallbackServerContext* context) override {
    return new ImportCall(desk_, keeper_, context);
  }
  grpc::ServerUnaryReactor* RetireStore(grpc::CallbackServerContext* context,
                                        const wire::RetireStoreRequest* request,
                                        wire::RetireStoreResponse* response) override {
    return new RetireCall(desk_, keeper_, context, request, response);
  }
  grpc::ServerUnaryReactor* ReinstateStore(grpc::CallbackServerContext* context,
                                           const wire::ReinstateStoreRequest* request,
                                           wire::ReinstateStoreResponse* response) override {
    return new ReinstateCall(desk_, keeper_, context, *request, response);
  }

 private:
  const FrontDesk* const desk_;
  TransferKeeper* const keeper_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeTransferService(const FrontDesk* desk, TransferKeeper* keeper) {
  return std::make_unique<TransferServiceImpl>(desk, keeper);
}

}  // namespace idempotency::service
