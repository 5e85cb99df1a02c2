// What the tests of the key store's shell share: requests in one line, answers as words, and a
// key store over a FakeEngine and a ManualClock.
//
//   Call* first = Send(Reserve("k", 1));
//   EXPECT_EQ(first->said, "ACQUIRED 1");        // outcome, fencing token
//   Call* waits = Send(Reserve("k", 2, /*wait=*/10s));
//   EXPECT_EQ(waits->said, "");                  // no answer yet
//
// Not for several threads: a Call is written by whoever runs the lane.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_SHELL_SHELL_FIXTURE_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_SHELL_SHELL_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keystore/clock.h"
#include "keystore/core/command.h"
#include "keystore/core/outcome.h"
#include "keystore/core/policy.h"
#include "keystore/key_store.h"
#include "tests/keystore/shell/fake_engine.h"

namespace idempotency::keystore {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""h;

inline constexpr core::Time kStart{core::Duration(1'800'000'000'000)};
inline constexpr core::Duration kLease = 30s;

// --- Requests, in namespace "pay" under a default policy --------------------------------------

core::Key KeyOf(std::string_view key);
Request Reserve(std::string_view key, uint64_t attempt_id, core::Duration wait = 0ms);
// Its attempt provably did nothing until it says dispatched.
Request ReserveDispatchLater(std::string_view key, uint64_t attempt_id, core::Duration wait = 0ms);
Request Renew(std::string_view key, uint64_t token, core::Duration lease = kLease);
Request Complete(std::string_view key, uint64_t token);
Request Release(std::string_view key, uint64_t token);
Request Mark(std::string_view key, uint64_t token);
Request Get(std::string_view key, core::Duration wait = 0ms);
Request Inspect(std::string_view key);
Request Resolve(std::string_view key, core::Resolution resolution);
Request Delete(std::string_view key, bool force = false);

// The same request in a namespace where what is unknown may simply be run again.
Request Rerun(Request request, core::Duration retention = core::kDay);
// The same request where completed keys are freed at once.
Request ZeroRetention(Request request);

// An answer in words: outcome or verb or reason, then state or fencing token.
std::string Words(const Reply& reply);

// --- Answers ---------------------------------------------------------------------------------

struct Call {
  std::string said;  // empty: not answered yet
  int answers = 0;
  Reply reply;
  CancelHandle handle;
};

class RecordingObserver final : public Observer {
 public:
  void OnAnswer(const Request& request, const core::Answer& answer) override;
  void OnLapse(const core::Key& key, const core::Record& record) override;
  void OnUnreadable(const core::Key& key) override { unreadable.push_back(key.key); }
  void OnCommit(size_t commands, size_t writes, std::chrono::nanoseconds) override {
    commits.push_back({commands, writes});
  }
  void OnEngineDead() override { ++deaths; }

  std::vector<std::string> answers;  // "key: words"
  std::vector<std::string> lapses;   // "key: state"
  std::vector<std::string> unreadable;
  std::vector<std::pair<size_t, size_t>> commits;
  int deaths = 0;
};

class ShellTest : public testing::Test {
 protected:
  explicit ShellTest(Traits traits = {}, KeyStoreOptions options = {});
  ~ShellTest() override;

  // Another key store over the same engine and clock; the one before is destroyed.
  void Restart(KeyStoreOptions options = {});

  Call* Send(Request request);
  // All in one SubmitAll.
  std::vector<Call*> SendAll(std::vector<Request> requests);
  void Cancel(const Call* call) { store->Cancel(call->handle); }

  // The clock moves, and what is due is seen to.
  void Pass(core::Duration span);
  void RunTimers();
  // When timers are due, counted from now; -1ms: not at all.
  core::Duration UntilTimer() const;

  // What is stored under a key: a state, "ABSENT" or "UNREADABLE".
  std::string StoredAs(std::string_view key) const;

  mutable ManualClock clock{kStart};
  FakeEngine engine;
  RecordingObserver observer;
  std::unique_ptr<KeyStore> store;

 private:
  ReplyCallback Record(Call* call);

  std::deque<Call> calls_;
};

// The words of several calls, in order.
std::vector<std::string> Said(const std::vector<Call*>& calls);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_SHELL_SHELL_FIXTURE_H_
