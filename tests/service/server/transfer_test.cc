// Moving all records out of one server and into another, over the wire, and the end of the store
// that they came from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "idempotency/transfer/v1/transfer_service.grpc.pb.h"
#include "keystore/engine/open_engine.h"
#include "service/audit_log.h"
#include "tests/service/server/commands.h"
#include "tests/support/service_fixture.h"
#include "tests/support/temp_directory.h"

namespace idempotency::testing {
namespace {

namespace wire = transfer::v1;
using service::TransferMode;
using ::testing::HasSubstr;

using Stub = wire::TransferService::Stub;
using Parts = std::vector<wire::ExportRecordsResponse>;

// As the fixture's clock begins.
constexpr core::Time kNow{std::chrono::seconds(1'800'000'000)};

std::unique_ptr<ServiceFixture> Serve(const std::string& data_dir, TransferMode transfer) {
  ServiceFixture::Options options;
  options.data_dir = data_dir;
  options.transfer = transfer;
  return std::make_unique<ServiceFixture>(std::move(options));
}

grpc::Status Export(const ServiceFixture& service, Parts* parts) {
  const std::unique_ptr<Stub> stub = wire::TransferService::NewStub(service.NewChannel());
  grpc::ClientContext context;
  const auto reader = stub->ExportRecords(&context, {});
  wire::ExportRecordsResponse part;
  while (reader->Read(&part)) parts->push_back(part);
  return reader->Finish();
}

// What an import was told, and how it ended.
struct Told {
  grpc::Status status;
  std::optional<wire::ImportSummary> summary;
  std::optional<wire::ImportConflict> conflict;
};

Told Import(const ServiceFixture& service, const Parts& parts, bool dry_run = false,
            bool of_retired_store = false) {
  const std::unique_ptr<Stub> stub = wire::TransferService::NewStub(service.NewChannel());
  grpc::ClientContext context;
  const auto stream = stub->ImportRecords(&context);
  for (const wire::ExportRecordsResponse& part : parts) {
    wire::ImportRecordsRequest request;
    if (part.has_header()) {
      *request.mutable_begin()->mutable_header() = part.header();
      request.mutable_begin()->set_dry_run(dry_run);
      request.mutable_begin()->set_of_retired_store(of_retired_store);
    }
    if (part.has_chunk()) *request.mutable_chunk() = part.chunk();
    if (part.has_trailer()) *request.mutable_trailer() = part.trailer();
    // False where it has ended; the status says why.
    if (!stream->Write(request)) break;
  }
  stream->WritesDone();
  Told told;
  wire::ImportRecordsResponse response;
  while (stream->Read(&response)) {
    if (response.has_summary()) told.summary = response.summary();
    if (response.has_conflict()) told.conflict = response.conflict();
  }
  told.status = stream->Finish();
  return told;
}

// What a retirement was answered.
struct Retired {
  grpc::Status status;
  wire::Retirement retirement;
};

Retired Retire(const ServiceFixture& service, const std::string& digest,
               const std::string& actor = "ann", const std::string& moved_to = "the etcd") {
  const std::unique_ptr<Stub> stub = wire::TransferService::NewStub(service.NewChannel());
  grpc::ClientContext context;
  wire::RetireStoreRequest request;
  request.set_digest(digest);
  request.set_actor(actor);
  request.set_moved_to(moved_to);
  wire::RetireStoreResponse response;
  const grpc::Status status = stub->RetireStore(&context, request, &response);
  return {status, response.retirement()};
}

Retired Reinstate(const ServiceFixture& service, const std::string& actor = "bob",
                  const std::string& reason = "called off") {
  const std::unique_ptr<Stub> stub = wire::TransferService::NewStub(service.NewChannel());
  grpc::ClientContext context;
  wire::ReinstateStoreRequest request;
  request.set_actor(actor);
  request.set_reason(reason);
  wire::ReinstateStoreResponse response;
  const grpc::Status status = stub->ReinstateStore(&context, request, &response);
  return {status, response.retirement()};
}

// How the start of a server on this store ends; `admitted`: whether it said that the store is fit.
absl::Status StartOn(const std::string& data_dir, TransferMode transfer, bool* admitted = nullptr) {
  keystore::ManualClock clock(kNow);
  service::Log log(service::Log::Options{service::LogLevel::kError, 2});
  service::CountingMetrics metrics;
  const auto config = service::ConfigHolder::Open("");
  EXPECT_TRUE(config.ok()) << config.status();
  auto engine = keystore::OpenEngine({.engine = "rocksdb",
                                      .data_dir = data_dir,
                                      .ballast_bytes = 0,
                                      .min_free_bytes = 0,
                                      .now = [&clock] { return clock.Read(); }});
  EXPECT_TRUE(engine.ok()) << engine.status();
  service::ServerParts parts;
  parts.engine = *std::move(engine);
  parts.clock = &clock;
  parts.config = config->get();
  parts.log = &log;
  parts.metrics = &metrics;
  if (admitted != nullptr) parts.on_admitted = [admitted] { *admitted = true; };
  service::ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.transfer = transfer;
  return service::Server::Start(std::move(parts), options).status();
}

class TransferServerTest : public ::testing::Test {
 protected:
  std::string source() const { return directory_.file("source"); }
  std::string target() const { return directory_.file("target"); }

  // A store with an answer, a live lease, and an unknown; the tokens that were given.
  void MakeSource() {
    const auto service = Serve(source(), TransferMode::kOff);
    done_ = Acquire(*service, "done");
    ASSERT_TRUE(service->Call(&Api::Complete, Complete("done", done_, "the answer")).status.ok());
    open_ = Acquire(*service, "open");
    const uint64_t unknown = Acquire(*service, "unknown");
    ASSERT_TRUE(service->Call(&Api::MarkUnresolved, Mark("unknown", unknown)).status.ok());
  }

  static uint64_t Acquire(ServiceFixture& service, const std::string& key) {
    const auto acquired = service.Call(&Api::Reserve, v1::ReserveRequest(Reserve(key)));
    EXPECT_EQ(acquired.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
    return acquired.response.lease().fencing_token();
  }

  Parts MustExport() {
    Parts parts;
    const grpc::Status status = Export(*Serve(source(), TransferMode::kExport), &parts);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(parts.size(), 3u);
    return parts;
  }

  const TempDirectory directory_;
  uint64_t done_ = 0;
  uint64_t open_ = 0;
};

TEST_F(TransferServerTest, EveryAnswerIsTheSameAfterwards) {
  MakeSource();
  const Parts parts = MustExport();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].header().engine(), "rocksdb");
  EXPECT_GT(parts[0].header().token_floor(), open_);
  EXPECT_EQ(parts[2].trailer().counts().complete(), 1u);
  EXPECT_EQ(parts[2].trailer().counts().pending(), 1u);
  EXPECT_EQ(parts[2].trailer().counts().unresolved(), 1u);
  {
    const auto service = Serve(target(), TransferMode::kImport);
    const Told dry = Import(*service, parts, /*dry_run=*/true);
    ASSERT_TRUE(dry.status.ok()) << dry.status.error_message();
    EXPECT_EQ(dry.summary->progress().written(), 3u);
    for (const uint64_t written : {3u, 0u}) {
      const Told told = Import(*service, parts);
      ASSERT_TRUE(told.status.ok()) << told.status.error_message();
      EXPECT_EQ(told.summary->progress().written(), written);
      EXPECT_EQ(told.summary->progress().present(), 3u - written);
      EXPECT_EQ(told.summary->stored().SerializeAsString(), parts[2].trailer().SerializeAsString());
    }
  }
  const auto service = Serve(target(), TransferMode::kOff);
  const auto replayed = service->Call(&Api::Reserve, Reserve("done", "2"));
  EXPECT_EQ(replayed.response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  EXPECT_EQ(replayed.response.operation().response().body(), "the answer");
  EXPECT_EQ(service->Call(&Api::Reserve, Reserve("unknown", "2")).response.outcome(),
            v1::RESERVE_OUTCOME_UNRESOLVED);
  EXPECT_EQ(service->Call(&Api::Reserve, Reserve("open", "2")).response.outcome(),
            v1::RESERVE_OUTCOME_IN_PROGRESS);
  EXPECT_GT(Acquire(*service, "new"), open_);
  // Its owner goes on as if nothing had happened, and nobody else's token does.
  EXPECT_EQ(service->Call(&Api::Complete, Complete("open", open_ + 1)).reason,
            "UNKNOWN_FENCING_TOKEN");
  EXPECT_TRUE(service->Call(&Api::Complete, Complete("open", open_)).status.ok());
}

TEST_F(TransferServerTest, IsRefusedByAServerThatServes) {
  MakeSource();
  const Parts parts = MustExport();
  const auto service = Serve(source(), TransferMode::kOff);
  Parts none;
  const grpc::Status exported = Export(*service, &none);
  EXPECT_EQ(exported.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(exported.error_message(), HasSubstr("--transfer=export"));
  const grpc::Status imported = Import(*service, parts).status;
  EXPECT_EQ(imported.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(imported.error_message(), HasSubstr("--transfer=import"));
  const grpc::Status retired = Retire(*service, parts[2].trailer().digest()).status;
  EXPECT_EQ(retired.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(retired.error_message(), HasSubstr("--transfer=export"));
  EXPECT_EQ(Reinstate(*service).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(service->server()->serving());
}

TEST_F(TransferServerTest, OneModeIsNotTheOther) {
  MakeSource();
  const Parts parts = MustExport();
  Parts none;
  EXPECT_EQ(Export(*Serve(target(), TransferMode::kImport), &none).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Import(*Serve(source(), TransferMode::kExport), parts).status.error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  const auto service = Serve(target(), TransferMode::kImport);
  EXPECT_EQ(Retire(*service, parts[2].trailer().digest()).status.error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Reinstate(*service).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(TransferServerTest, CallersAreToComeBackMeanwhile) {
  MakeSource();
  const auto service = Serve(source(), TransferMode::kExport);
  EXPECT_FALSE(service->server()->serving());
  const auto refused = service->Call(&Api::Complete, Complete("open", open_));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason, "STORE_UNAVAILABLE");
  EXPECT_GT(refused.Find<google::rpc::RetryInfo>().retry_delay().seconds(), 0);
  EXPECT_TRUE(service->Call(&Api::GetOperation, Get("done")).status.ok());
}

TEST_F(TransferServerTest, WhatEndsBeforeItsTrailerIsNotWhole) {
  MakeSource();
  Parts parts = MustExport();
  const wire::ExportRecordsResponse trailer = parts.back();
  parts.pop_back();
  const auto service = Serve(target(), TransferMode::kImport);
  EXPECT_EQ(Import(*service, parts).status.error_code(), grpc::StatusCode::DATA_LOSS);
  parts.push_back(trailer);
  const Told told = Import(*service, parts);
  ASSERT_TRUE(told.status.ok()) << told.status.error_message();
  EXPECT_EQ(told.summary->progress().present(), 3u);
}

TEST_F(TransferServerTest, ADamagedHeaderIsRefusedBeforeAnythingIsWritten) {
  MakeSource();
  const Parts parts = MustExport();
  const auto service = Serve(target(), TransferMode::kImport);
  Parts spoilt = parts;
  spoilt[0].mutable_header()->set_token_floor(1);
  EXPECT_EQ(Import(*service, spoilt).status.error_code(), grpc::StatusCode::DATA_LOSS);
  spoilt = parts;
  // What would be set, and before all time.
  spoilt[0].mutable_header()->mutable_export_time()->set_nanos(-2'000'000'000);
  EXPECT_NE(Import(*service, spoilt).status.error_code(), grpc::StatusCode::OK);
  spoilt = parts;
  spoilt[0].mutable_header()->mutable_export_time()->set_seconds(int64_t{1} << 62);
  EXPECT_EQ(Import(*service, spoilt).status.error_code(), grpc::StatusCode::DATA_LOSS);
  spoilt = parts;
  spoilt[0].mutable_header()->set_format_version(2);
  EXPECT_EQ(Import(*service, spoilt).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  spoilt.erase(spoilt.begin());
  EXPECT_EQ(Import(*service, spoilt).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Import(*service, parts).summary->progress().written(), 3u);
}

TEST_F(TransferServerTest, AnOperationInTheWayIsNamed) {
  MakeSource();
  const Parts parts = MustExport();
  {
    // The same operation, with another token and history.
    const auto service = Serve(target(), TransferMode::kOff);
    const uint64_t token = Acquire(*service, "done");
    ASSERT_TRUE(service->Call(&Api::Complete, Complete("done", token, "another")).status.ok());
  }
  const auto service = Serve(target(), TransferMode::kImport);
  const Told told = Import(*service, parts);
  EXPECT_EQ(told.status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(told.conflict.has_value());
  EXPECT_EQ(told.conflict->key(), "done");
  EXPECT_THAT(told.status.error_message(), ::testing::Not(HasSubstr("done")));
}

// --- The end of the old store --------------------------------------------------------------------

TEST_F(TransferServerTest, ARetiredStoreIsOnlyReadUntilThatIsTakenBack) {
  MakeSource();
  const std::string digest = MustExport().back().trailer().digest();
  {
    const auto service = Serve(source(), TransferMode::kExport);
    const Retired retired = Retire(*service, digest);
    ASSERT_TRUE(retired.status.ok()) << retired.status.error_message();
    EXPECT_EQ(retired.retirement.actor(), "ann");
    EXPECT_EQ(retired.retirement.moved_to(), "the etcd");
    EXPECT_EQ(retired.retirement.digest(), digest);
    EXPECT_TRUE(retired.retirement.has_retire_time());
    const Retired again = Retire(*service, digest, "bob", "elsewhere");
    ASSERT_TRUE(again.status.ok()) << again.status.error_message();
    EXPECT_EQ(again.retirement.SerializeAsString(), retired.retirement.SerializeAsString());
    EXPECT_TRUE(service->Call(&Api::GetOperation, Get("done")).status.ok());
  }
  for (const TransferMode mode : {TransferMode::kOff, TransferMode::kImport}) {
    bool admitted = false;
    const absl::Status refused = StartOn(source(), mode, &admitted);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_FALSE(admitted);
    EXPECT_THAT(std::string(refused.message()),
                ::testing::AllOf(HasSubstr("by ann"), HasSubstr("moved to the etcd"),
                                 HasSubstr("--transfer=export")));
  }
  const Parts since = MustExport();
  EXPECT_EQ(since.back().trailer().digest(), digest);
  EXPECT_EQ(since.front().header().retired().moved_to(), "the etcd");
  {
    const auto service = Serve(target(), TransferMode::kImport);
    EXPECT_EQ(Import(*service, since).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    Parts changed = since;
    changed.front().mutable_header()->clear_retired();
    EXPECT_EQ(Import(*service, changed).status.error_code(), grpc::StatusCode::DATA_LOSS);
    const Told told = Import(*service, since, /*dry_run=*/false, /*of_retired_store=*/true);
    EXPECT_TRUE(told.status.ok()) << told.status.error_message();
  }
  {
    const auto service = Serve(source(), TransferMode::kExport);
    const Retired back = Reinstate(*service);
    EXPECT_TRUE(back.status.ok()) << back.status.error_message();
    EXPECT_EQ(back.retirement.actor(), "ann");
    EXPECT_EQ(back.retirement.moved_to(), "the etcd");
    EXPECT_EQ(back.retirement.digest(), digest);
    const Retired again = Reinstate(*service);
    EXPECT_TRUE(again.status.ok()) << again.status.error_message();
    EXPECT_FALSE(again.retirement.has_retire_time());
  }
  const auto service = Serve(source(), TransferMode::kOff);
  EXPECT_TRUE(service->Call(&Api::Complete, Complete("open", open_)).status.ok());
}

// A store that was moved away stays what was moved, whoever tries to start on it.
TEST_F(TransferServerTest, NothingGoesBeforeTheStoreIsFoundFit) {
  MakeSource();
  bool admitted = false;
  EXPECT_TRUE(StartOn(source(), TransferMode::kOff, &admitted).ok());
  EXPECT_TRUE(admitted);
}

TEST_F(TransferServerTest, AnotherDigestRetiresNothing) {
  MakeSource();
  std::string digest = MustExport().back().trailer().digest();
  digest.back() = static_cast<char>(digest.back() ^ 1);
  const grpc::Status refused = Retire(*Serve(source(), TransferMode::kExport), digest).status;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("not those that were exported"));
  EXPECT_TRUE(StartOn(source(), TransferMode::kOff).ok());
}

TEST_F(TransferServerTest, ARetirementWithoutWhoAndWhereIsRefused) {
  MakeSource();
  const std::string digest = MustExport().back().trailer().digest();
  const auto service = Serve(source(), TransferMode::kExport);
  const std::string too_long(1025, 'x');
  for (const grpc::Status& refused :
       {Retire(*service, "").status, Retire(*service, digest + "x").status,
        Retire(*service, digest, "").status, Retire(*service, digest, "ann", "").status,
        Retire(*service, digest, "ann", too_long).status, Reinstate(*service, "").status,
        Reinstate(*service, "bob", "").status}) {
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  service->Stop();
  EXPECT_TRUE(StartOn(source(), TransferMode::kOff).ok());
}

TEST_F(TransferServerTest, BothAreInTheAudit) {
  MakeSource();
  const std::string digest = MustExport().back().trailer().digest();
  const std::string path = directory_.file("audit");
  service::CountingMetrics metrics;
  auto audit = service::AuditLog::Open({path, [] { return kNow; }, &metrics});
  ASSERT_TRUE(audit.ok()) << audit.status();
  {
    ServiceFixture::Options options;
    options.data_dir = source();
    options.transfer = TransferMode::kExport;
    options.adjust = [&](service::ServerParts* parts) { parts->audit = audit->get(); };
    const ServiceFixture service(std::move(options));
    EXPECT_TRUE(Retire(service, digest).status.ok());
    EXPECT_TRUE(Reinstate(service).status.ok());
  }
  (*audit)->Flush();
  std::ifstream file(path);
  const std::string lines{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(lines,
              ::testing::AllOf(
                  HasSubstr(R"("action":"retire_store")"), HasSubstr(R"("actor":"ann")"),
                  HasSubstr(R"("reason":"the etcd")"), HasSubstr(R"("action":"reinstate_store")"),
                  HasSubstr(R"("actor":"bob")"), HasSubstr(R"("reason":"called off")"),
                  HasSubstr(R"(Z, by ann: its records were moved to the etcd","result":"OK")")));
}

class NoBackups final : public service::AccessPolicy {
 public:
  bool Allows(const service::Principal&, service::Permission permission, std::string_view,
              std::optional<std::string_view>) const override {
    return permission != service::Permission::kWholeStore;
  }
};

TEST_F(TransferServerTest, IsForWhoMayAdministerEverything) {
  const NoBackups access;
  for (const TransferMode mode : {TransferMode::kExport, TransferMode::kImport}) {
    ServiceFixture::Options options;
    options.access = &access;
    options.transfer = mode;
    const ServiceFixture service(std::move(options));
    Parts parts;
    EXPECT_EQ(Export(service, &parts).error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(Import(service, {}).status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(Retire(service, "").status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(Reinstate(service).status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
}

TEST_F(TransferServerTest, OneAtATimeAndStoppingEndsIt) {
  MakeSource();
  const Parts parts = MustExport();
  const auto service = Serve(target(), TransferMode::kImport);
  const std::unique_ptr<Stub> stub = wire::TransferService::NewStub(service->NewChannel());
  grpc::ClientContext context;
  const auto stream = stub->ImportRecords(&context);
  wire::ImportRecordsRequest request;
  *request.mutable_begin()->mutable_header() = parts[0].header();
  ASSERT_TRUE(stream->Write(request));
  *request.mutable_chunk() = parts[1].chunk();
  ASSERT_TRUE(stream->Write(request));
  wire::ImportRecordsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.progress().written(), 3u);
  const Told second = Import(*service, parts);
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::ABORTED);
  // It would wait for this caller for ever.
  service->Stop();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace idempotency::testing
