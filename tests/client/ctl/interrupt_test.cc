// Ctrl-C at every moment that matters.
#include <gmock/gmock.h>
#include <signal.h>

#include "absl/synchronization/notification.h"
#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kReserve = {"reserve", "payments", "acct-1", "order/7",
                                           "--wait=30s"};

TEST(Interrupt, InTheMiddleOfACallIsNoRiddle) {
  FakeServer server;
  absl::Notification over;
  // The request has arrived, and no answer goes out before the tool has given up on it.
  server.service.reserve.answer = [&](grpc::ServerContext*, const auto&, auto*) {
    server.interrupt.Trigger(SIGINT);
    over.WaitForNotification();
    return grpc::Status::OK;
  };
  const RunResult run = server.Run(kReserve);
  over.Notify();
  EXPECT_EQ(run.code, 130);
  EXPECT_EQ(server.interrupt.signal(), SIGINT);
  EXPECT_THAT(run.err, HasSubstr("reserve: interrupted\n"));
  EXPECT_THAT(run.err, HasSubstr("may have been applied"));
  EXPECT_THAT(run.err, HasSubstr("The attempt id is " + std::string(kAttemptId)));
  EXPECT_THAT(run.err, HasSubstr("reserve payments acct-1 order/7 --attempt-id=" +
                                 std::string(kAttemptId) + " --wait=30s\n"));
}

TEST(Interrupt, BeforeAnythingIsSentSaysSo) {
  FakeServer server;
  server.interrupt.Trigger(SIGTERM);
  const RunResult run = server.Run(kReserve);
  EXPECT_EQ(run.code, 130);
  EXPECT_THAT(run.err, HasSubstr("Nothing was sent"));
  EXPECT_THAT(run.err, Not(HasSubstr("may have been applied")));
  EXPECT_EQ(server.service.reserve.calls, 0);
}

TEST(Interrupt, OfAReadChangesNothing) {
  FakeServer server;
  absl::Notification over;
  server.service.get.answer = [&](grpc::ServerContext*, const auto&, auto*) {
    server.interrupt.Trigger(SIGINT);
    over.WaitForNotification();
    return grpc::Status::OK;
  };
  const RunResult run = server.Run({"get", "payments", "acct-1", "order/7", "--wait=30s"});
  over.Notify();
  EXPECT_EQ(run.code, 130);
  EXPECT_THAT(run.err, HasSubstr("Nothing was changed"));
}

TEST(Interrupt, TheFirstSignalCounts) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.triggered());
  interrupt.Trigger(SIGTERM);
  interrupt.Trigger(SIGINT);
  EXPECT_EQ(interrupt.signal(), SIGTERM);
}

}  // namespace
}  // namespace idempotency::ctl
