// export, import and retire: the file between them, and what is said of each.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "client/ctl/record_file.h"
#include "tests/client/ctl/fake_server.h"
#include "tests/support/temp_directory.h"

namespace idempotency::ctl {
namespace {

namespace wire = transfer::v1;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<wire::ExportRecordsResponse> SomeParts() {
  std::vector<wire::ExportRecordsResponse> parts(3);
  parts[0].mutable_header()->set_format_version(1);
  parts[0].mutable_header()->set_engine("rocksdb");
  parts[0].mutable_header()->set_estimated_records(4);
  wire::Record* const record = parts[1].mutable_chunk()->add_records();
  record->set_key("k");
  record->set_record("r");
  parts[2].mutable_trailer()->mutable_counts()->set_complete(1);
  parts[2].mutable_trailer()->set_bytes(3 * 1024 * 1024);
  parts[2].mutable_trailer()->set_digest("\x01\xab");
  return parts;
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TransferCommandTest : public testing::Test {
 protected:
  TransferCommandTest() {
    server_.transfers.give = [](auto* writer) {
      for (const wire::ExportRecordsResponse& part : SomeParts()) writer->Write(part);
      return grpc::Status::OK;
    };
    server_.transfers.take = [this](FakeTransfers::Imports* stream) { return Take(stream); };
  }

  // As the service does, where all is well.
  grpc::Status Take(FakeTransfers::Imports* stream) {
    wire::ImportRecordsRequest request;
    wire::ImportRecordsResponse response;
    taken_.clear();
    while (stream->Read(&request)) {
      taken_.push_back(request);
      response.mutable_progress()->set_written(1);
      if (request.has_chunk()) stream->Write(response);
      if (!request.has_trailer()) continue;
      response.mutable_summary()->mutable_progress()->set_written(1);
      *response.mutable_summary()->mutable_stored() = request.trailer();
      stream->Write(response);
      return grpc::Status::OK;
    }
    return {grpc::StatusCode::DATA_LOSS, "the records end before their trailer"};
  }

  std::string file() const { return directory_.file("records"); }
  RunResult Export() { return server_.Run({"export", "--to=" + file()}); }
  RunResult Import() { return server_.Run({"import", "--from=" + file()}); }
  void Spoil(const std::string& content) {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << content;
  }

  const TempDirectory directory_;
  FakeServer server_;
  std::vector<wire::ImportRecordsRequest> taken_;
};

TEST_F(TransferCommandTest, TheFileHoldsWhatTheOtherServerIsGiven) {
  const RunResult exported = Export();
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_THAT(exported.out, AllOf(HasSubstr("EXPORTED: 1 records of rocksdb are whole"),
                                  HasSubstr("01ab"), HasSubstr("3.0 MiB")));
  EXPECT_THAT(exported.err, HasSubstr("in the clear"));
  struct stat status = {};
  ASSERT_EQ(stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_NE(access((file() + ".partial").c_str(), F_OK), 0);

  const RunResult imported =
      server_.Run({"import", "--from=" + file(), "--dry-run", "--omit-large-bodies"});
  EXPECT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("WOULD IMPORT: 1 records would be written"));
  const auto parts = SomeParts();
  ASSERT_EQ(taken_.size(), parts.size());
  EXPECT_EQ(taken_[0].begin().header().SerializeAsString(), parts[0].header().SerializeAsString());
  EXPECT_TRUE(taken_[0].begin().dry_run());
  EXPECT_TRUE(taken_[0].begin().omit_large_bodies());
  EXPECT_EQ(taken_[1].chunk().SerializeAsString(), parts[1].chunk().SerializeAsString());
  EXPECT_EQ(taken_[2].trailer().SerializeAsString(), parts[2].trailer().SerializeAsString());
  EXPECT_THAT(Import().out, HasSubstr("IMPORTED: the store was read back and holds these 1 "));
}

TEST_F(TransferCommandTest, APipeWillDo) {
  const RunResult exported = server_.Run({"export", "--to=-"});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_THAT(exported.err, HasSubstr("EXPORTED: "));
  ASSERT_EQ(Export().code, 0);
  EXPECT_EQ(exported.out, Content(file()));
  EXPECT_EQ(server_.Run({"import", "--from=-"}, exported.out).code, 0);
  EXPECT_EQ(taken_.size(), 3u);
}

TEST_F(TransferCommandTest, SaysHowFarItIs) {
  server_.terminal = true;
  EXPECT_THAT(Export().err, HasSubstr("exporting  [######..................]  25 %  1 records"));
  EXPECT_THAT(Import().err, HasSubstr("importing  [######..................]  25 %  1 records"));
}

TEST_F(TransferCommandTest, ASecondExportToTheSameFileLeavesTheFirstAlone) {
  RecordFileWriter first(file(), nullptr);
  EXPECT_EQ(first.Open(), "");
  const RunResult second = Export();
  EXPECT_EQ(second.code, 2) << second.err;
  EXPECT_THAT(second.err, HasSubstr("another export writes"));
  EXPECT_EQ(first.Write(SomeParts()[0]), "");
  EXPECT_EQ(first.Finish(), "");
  EXPECT_EQ(access(file().c_str(), F_OK), 0);
}

TEST_F(TransferCommandTest, WhatAKilledExportHasLeftIsWrittenOver) {
  std::ofstream(file() + ".partial") << std::string(100'000, 'x');
  EXPECT_EQ(Export().code, 0);
  EXPECT_EQ(Import().code, 0);
}

TEST_F(TransferCommandTest, WhatIsNotWholeGetsNoName) {
  server_.transfers.give = [](auto* writer) {
    writer->Write(SomeParts()[0]);
    return grpc::Status(grpc::StatusCode::ABORTED, "the records have changed");
  };
  const RunResult aborted = Export();
  EXPECT_EQ(aborted.code, 3) << aborted.err;
  EXPECT_THAT(aborted.err, HasSubstr("the records have changed"));
  EXPECT_NE(access(file().c_str(), F_OK), 0);
  EXPECT_NE(access((file() + ".partial").c_str(), F_OK), 0);
  // A server that ends well and too early.
  server_.transfers.give = [](auto* writer) {
    writer->Write(SomeParts()[0]);
    return grpc::Status::OK;
  };
  EXPECT_EQ(Export().code, 5);
  EXPECT_NE(access(file().c_str(), F_OK), 0);
}

TEST_F(TransferCommandTest, NoFileIsWrittenOver) {
  Spoil("of somebody");
  const RunResult run = Export();
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("is there already"));
  EXPECT_EQ(Content(file()), "of somebody");
  // One that came meanwhile.
  unlink(file().c_str());
  server_.transfers.give = [this](auto* writer) {
    for (const wire::ExportRecordsResponse& part : SomeParts()) writer->Write(part);
    Spoil("of somebody");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Export().code, 5);
  EXPECT_EQ(Content(file()), "of somebody");
}

TEST_F(TransferCommandTest, AFileThatIsNotOneIsRefusedBeforeAnythingIsSent) {
  EXPECT_EQ(Import().code, 2);
  for (const char* content :
       {"", "idempotency", "idempotency records 2\n", "idempotency records 1\n"}) {
    Spoil(content);
    EXPECT_EQ(Import().code, 2) << content;
  }
  EXPECT_TRUE(taken_.empty());
}

TEST_F(TransferCommandTest, AFileThatIsCutOffOrDamagedIsNeverTakenForWhole) {
  ASSERT_EQ(Export().code, 0);
  const std::string whole = Content(file());
  for (size_t size = 0; size < whole.size(); ++size) {
    Spoil(whole.substr(0, size));
    EXPECT_NE(Import().code, 0) << size;
  }
  Spoil(whole.substr(0, whole.size() - 1));
  const RunResult cut = Import();
  EXPECT_EQ(cut.code, 3);
  EXPECT_THAT(cut.err, AllOf(HasSubstr("ends before its end"), HasSubstr("copy it again")));
  Spoil(whole + "x");
  EXPECT_THAT(Import().err, HasSubstr("goes on behind its end"));
}

TEST_F(TransferCommandTest, NamesWhatIsInTheWay) {
  ASSERT_EQ(Export().code, 0);
  server_.transfers.take = [](FakeTransfers::Imports* stream) {
    wire::ImportRecordsRequest request;
    while (stream->Read(&request) && !request.has_chunk()) {
    }
    wire::ImportRecordsResponse response;
    response.mutable_conflict()->set_namespace_("payments");
    response.mutable_conflict()->set_scope("acct 1");
    response.mutable_conflict()->set_key(std::string("k\0\x1b", 3));
    stream->Write(response);
    return grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "import into an empty store");
  };
  const RunResult run = Import();
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, AllOf(HasSubstr("in the way is payments 'acct 1' "),
                             HasSubstr("import into an empty store"), Not(HasSubstr("\x1b"))));
}

// --- retire --------------------------------------------------------------------------------------

const std::string& SomeDigest() {
  static const std::string digest(32, '\xab');
  return digest;
}

TEST_F(TransferCommandTest, RetiresTheStoreOfThisDigest) {
  server_.transfers.retire.answer = [](auto*, const wire::RetireStoreRequest& request,
                                       wire::RetireStoreResponse* response) {
    response->mutable_retirement()->mutable_retire_time()->set_seconds(1);
    response->mutable_retirement()->set_actor("bob\x1b");
    response->mutable_retirement()->set_moved_to(request.moved_to());
    response->mutable_retirement()->set_digest(request.digest());
    return grpc::Status::OK;
  };
  // As export prints it, and as its JSON has it.
  for (const std::string& digest :
       {absl::BytesToHexString(SomeDigest()), absl::Base64Escape(SomeDigest())}) {
    const RunResult run = server_.Run({"retire", "--digest=" + digest, "--moved-to=etcd two"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(server_.transfers.retire.request.digest(), SomeDigest());
    EXPECT_EQ(server_.transfers.retire.request.actor(), "ann");
    EXPECT_EQ(server_.transfers.retire.request.moved_to(), "etcd two");
    EXPECT_THAT(run.out, AllOf(HasSubstr("RETIRED: "), HasSubstr("1970-01-01T00:00:01Z"),
                               HasSubstr("bob\\x1b"), HasSubstr("etcd two"),
                               HasSubstr(absl::BytesToHexString(SomeDigest()))));
  }
  EXPECT_EQ(server_.transfers.reinstate.calls, 0);
}

TEST_F(TransferCommandTest, TakesARetirementBackOnlyWithAReason) {
  const RunResult run = server_.Run({"retire", "--undo", "--reason=called off", "--actor=bob"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("NOT RETIRED"));
  EXPECT_EQ(server_.transfers.reinstate.request.actor(), "bob");
  EXPECT_EQ(server_.transfers.reinstate.request.reason(), "called off");
  EXPECT_EQ(server_.transfers.retire.calls, 0);
}

TEST_F(TransferCommandTest, SaysWhatWasTakenBack) {
  server_.transfers.reinstate.answer = [](auto*, const auto&,
                                          wire::ReinstateStoreResponse* response) {
    response->mutable_retirement()->mutable_retire_time()->set_seconds(1);
    response->mutable_retirement()->set_actor("ann\x1b");
    response->mutable_retirement()->set_moved_to("etcd two");
    return grpc::Status::OK;
  };
  const RunResult run = server_.Run({"retire", "--undo", "--reason=called off"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("NOT RETIRED"), HasSubstr("1970-01-01T00:00:01Z"),
                             HasSubstr("ann\\x1b"), HasSubstr("etcd two")));
}

TEST_F(TransferCommandTest, SaysThatTheStoreWasRetiredBeforeItWasExported) {
  EXPECT_THAT(Export().err, Not(HasSubstr("was retired")));
  unlink(file().c_str());
  server_.transfers.give = [](auto* writer) {
    auto parts = SomeParts();
    parts[0].mutable_header()->mutable_retired()->mutable_retire_time()->set_seconds(1);
    parts[0].mutable_header()->mutable_retired()->set_moved_to("etcd two\x1b");
    for (const wire::ExportRecordsResponse& part : parts) writer->Write(part);
    return grpc::Status::OK;
  };
  const RunResult run = Export();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("was retired"), HasSubstr("1970-01-01T00:00:01Z"),
                             HasSubstr("etcd two\\x1b"), HasSubstr("granted since")));
  for (const bool wanted : {false, true}) {
    std::vector<std::string> words = {"import", "--from=" + file()};
    if (wanted) words.push_back("--of-retired-store");
    ASSERT_EQ(server_.Run(words).code, 0);
    EXPECT_EQ(taken_[0].begin().of_retired_store(), wanted);
    EXPECT_EQ(taken_[0].begin().header().retired().moved_to(), "etcd two\x1b");
  }
}

TEST_F(TransferCommandTest, SaysWhyAStoreIsNotRetired) {
  server_.transfers.retire.answer = [](auto...) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the store's records come to 00");
  };
  const RunResult run = server_.Run(
      {"retire", "--digest=" + absl::BytesToHexString(SomeDigest()), "--moved-to=there"});
  EXPECT_EQ(run.code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the store's records come to 00"));
}

TEST_F(TransferCommandTest, NothingIsSentOfARetirementThatIsNotWhole) {
  const std::string digest = "--digest=" + absl::BytesToHexString(SomeDigest());
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{"retire"}, "--digest"},
      {{"retire", "--moved-to=there"}, "--digest"},
      {{"retire", digest}, "--moved-to"},
      {{"retire", "--digest=abcd", "--moved-to=there"}, "--digest"},
      {{"retire", "--digest=" + std::string(64, 'x'), "--moved-to=there"}, "--digest"},
      {{"retire", digest, "--moved-to=there", "--reason=why"}, "--undo"},
      {{"retire", "--undo"}, "--reason"},
      {{"retire", "--undo", "--reason=why", digest}, "--digest"},
      {{"retire", "--undo", "--reason=why", "--moved-to=there"}, "--moved-to"},
  };
  for (const auto& [words, named] : rows) {
    const RunResult run = server_.Run(words);
    EXPECT_EQ(run.code, 2) << testing::PrintToString(words);
    EXPECT_THAT(run.err, HasSubstr(named)) << testing::PrintToString(words);
  }
  EXPECT_EQ(server_.transfers.retire.calls + server_.transfers.reinstate.calls, 0);
}

}  // namespace
}  // namespace idempotency::ctl
