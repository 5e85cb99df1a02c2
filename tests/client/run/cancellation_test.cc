#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "idempotency/client.h"
#include "tests/client/run/run_fixture.h"

namespace idempotency {
namespace {

using namespace testing;  // of the run fixture
using ::testing::_;
using ::testing::Return;
using ::testing::StrictMock;

TEST(CancellationTest, CopiesShareOneState) {
  const Cancellation cancellation;
  Cancellation copy = cancellation;
  EXPECT_FALSE(cancellation.cancelled());
  copy.Cancel();
  copy.Cancel();
  EXPECT_TRUE(cancellation.cancelled());
  EXPECT_TRUE(cancellation.token().stop_requested());
}

TEST(CancellationTest, CallbacksRunOnceAndAtOnceWhereItIsLate) {
  Cancellation cancellation;
  std::string log;
  cancellation.OnCancel([&] { log += 'a'; });
  {
    const std::stop_callback scoped(cancellation.token(), [&] { log += 'x'; });
  }
  cancellation.Cancel();
  EXPECT_EQ(log, "a") << "a subscription ends with its scope";
  cancellation.OnCancel([&] { log += 'b'; });
  cancellation.Cancel();
  EXPECT_EQ(log, "ab");
}

TEST(NameTest, OfEveryReason) {
  const std::pair<StopReason, std::string> names[] = {
      {StopReason::kNone, "NONE"},
      {StopReason::kInProgress, "IN_PROGRESS"},
      {StopReason::kUnresolved, "UNRESOLVED"},
      {StopReason::kMismatch, "MISMATCH"},
      {StopReason::kAnswerGone, "ANSWER_GONE"},
      {StopReason::kAbandoned, "ABANDONED"},
      {StopReason::kTooOld, "TOO_OLD"},
      {StopReason::kNothingHappened, "NOTHING_HAPPENED"},
      {StopReason::kCancelled, "CANCELLED"},
      {StopReason::kUnavailable, "UNAVAILABLE"},
      {StopReason::kRefused, "REFUSED"},
      {StopReason::kInvalid, "INVALID"},
      {static_cast<StopReason>(200), "UNKNOWN"},
  };
  for (const auto& [reason, name] : names) EXPECT_EQ(Name(reason), name);
}

// The whole of it with a real clock and the shared thread.
TEST(ClientTest, RenewsInTheBackground) {
  auto connection = std::make_shared<StrictMock<MockConnection>>();
  absl::Notification renewed;
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired(2s)));
  EXPECT_CALL(*connection, AsyncRenew)
      .WillOnce([&](RenewRequest, CallOptions, Connection::RenewDone done) {
        std::move(done)(RenewResponse{LeaseOf(1h)});
        renewed.Notify();
      });
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  const Client client(connection);
  const RunResult result = client.Run({.id = {"payments", "acct", "order-1"}}, [&](Attempt&) {
    renewed.WaitForNotification();
    return Answer("charged");
  });
  EXPECT_TRUE(result.has_answer());
  EXPECT_EQ(&client.connection(), connection.get());
}

TEST(ClientTest, OneThreadRenewsForAll) {
  constexpr int kRuns = 8;
  auto connection = std::make_shared<StrictMock<MockConnection>>();
  absl::BlockingCounter renewed(kRuns);
  absl::Mutex mutex;
  std::set<std::thread::id> renewing;
  EXPECT_CALL(*connection, Reserve).Times(kRuns).WillRepeatedly(Return(Acquired(2s)));
  EXPECT_CALL(*connection, AsyncRenew)
      .Times(kRuns)
      .WillRepeatedly([&](RenewRequest, CallOptions, Connection::RenewDone done) {
        std::move(done)(RenewResponse{LeaseOf(1h)});
        absl::MutexLock lock(&mutex);
        renewing.insert(std::this_thread::get_id());
        renewed.DecrementCount();
      });
  EXPECT_CALL(*connection, Complete).Times(kRuns).WillRepeatedly(Return(Done()));
  const Client client(connection);
  absl::Notification all_renewed;
  std::vector<std::thread> runs;
  for (int i = 0; i < kRuns; ++i) {
    runs.emplace_back([&, i] {
      const RunRequest request{.id = {"payments", "acct", std::to_string(i)}};
      const RunResult result = client.Run(request, [&](Attempt&) {
        all_renewed.WaitForNotification();
        return Answer("charged");
      });
      EXPECT_TRUE(result.has_answer());
    });
  }
  renewed.Wait();
  EXPECT_EQ(renewing.size(), 1u);
  all_renewed.Notify();
  for (std::thread& run : runs) run.join();
}

TEST(ClientTest, MayBeDestroyedWhileItRuns) {
  auto connection = std::make_shared<StrictMock<MockConnection>>();
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired(2s)));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  std::optional<Client> client(connection);
  const RunResult result = client->Run({.id = {"payments", "acct", "order-1"}}, [&](Attempt&) {
    client.reset();
    return Answer("charged");
  });
  EXPECT_TRUE(result.has_answer());
}

}  // namespace
}  // namespace idempotency
