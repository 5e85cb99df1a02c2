// A store that has lost records, through the real server: it does not start, says which flag would
// accept that, and with it knows what it does not know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/proof/crash/daemon.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class AcceptedLossTest : public ::testing::Test {
 protected:
  Daemon Server(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--data_dir=" + store(), "--ballast_mb=0"};
    flags.insert(flags.end(), more.begin(), more.end());
    return Daemon(Daemon::Program(), flags);
  }
  std::string store(const std::string& name = "") const { return directory_.file("store" + name); }

  v1::ReserveResponse Reserve(const Daemon& server, const std::string& key, int age_seconds = -1) {
    v1::ReserveRequest request;
    request.mutable_id()->set_namespace_("payments");
    request.mutable_id()->set_scope("acct_1");
    request.mutable_id()->set_key(key);
    request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
    request.mutable_fingerprint()->set_digest(std::string(32, 'f'));
    request.set_attempt_id("attempt-0123456789-" + key);
    request.mutable_lease_duration()->set_seconds(3600);
    if (age_seconds >= 0) request.mutable_operation_age()->set_seconds(age_seconds);
    v1::ReserveResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::time_point::max());
    const grpc::Status status =
        v1::IdempotencyService::NewStub(server.Connect())->Reserve(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  // Two runs, and the store of the first in place of that of the second.
  void LoseTheSecondRun() {
    for (const char* key : {"kept", "lost"}) {
      Daemon server = Server();
      ASSERT_EQ(server.Start(), "");
      EXPECT_EQ(Reserve(server, key).outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
      server.Signal(SIGTERM);
      ASSERT_EQ(server.Wait(), 0) << server.Log();
      if (key == std::string("kept")) {
        fs::copy(store("/db"), directory_.file("db"), fs::copy_options::recursive);
      }
    }
    fs::remove_all(store("/db"));
    fs::rename(directory_.file("db"), store("/db"));
  }

  const TempDirectory directory_;
};

TEST_F(AcceptedLossTest, IsRefusedAndSaysHowItCanBeAccepted) {
  LoseTheSecondRun();
  for (const char* flag : {"--accept_loss=0", "--accept_loss=1", "--accept_loss=3"}) {
    Daemon server = Server({flag});
    EXPECT_THAT(server.Start(), AllOf(HasSubstr("the server ended with 1 when"),
                                      HasSubstr("start once with --accept_loss=2")));
  }
}

TEST_F(AcceptedLossTest, PendingIsUnresolvedAndWhatIsOlderIsTooOld) {
  LoseTheSecondRun();
  {
    Daemon server = Server({"--accept_loss=2"});
    ASSERT_EQ(server.Start(), "");
    EXPECT_EQ(Reserve(server, "kept").outcome(), v1::RESERVE_OUTCOME_UNRESOLVED);
    EXPECT_EQ(Reserve(server, "lost", 3600).outcome(), v1::RESERVE_OUTCOME_TOO_OLD);
    EXPECT_EQ(Reserve(server, "new", 0).outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0) << server.Log();
  }
  // It is remembered, and needs no flag any more.
  Daemon server = Server();
  ASSERT_EQ(server.Start(), "");
  EXPECT_EQ(Reserve(server, "lost", 3600).outcome(), v1::RESERVE_OUTCOME_TOO_OLD);
  EXPECT_EQ(Reserve(server, "kept").outcome(), v1::RESERVE_OUTCOME_UNRESOLVED);
}

}  // namespace
}  // namespace idempotency::proof
