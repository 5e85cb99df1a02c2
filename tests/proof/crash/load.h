// Eight clients of a server, and what each was told: whatever has happened to the server meanwhile,
// everything that it acknowledged must be there, and no key may be held twice.
//
//   Load load(seed);
//   load.Run(daemon, 200, [&] { daemon.Kill(); });    // returns when all clients have lost it
//   ... the server again ...
//   load.Check(*daemon.Connect())                     // "" or what is wrong
//
// Keys: most are one client's own, and go through their life; some are everybody's, and one
// client alone may ever be granted each.
//
// Thread safety: none; it starts the clients' threads itself.
#ifndef IDEMPOTENCY_TESTS_PROOF_CRASH_LOAD_H_
#define IDEMPOTENCY_TESTS_PROOF_CRASH_LOAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/proof/crash/daemon.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof {

// What one client was told of a key, and so may rely on.
struct Fact {
  v1::OperationState state = v1::OPERATION_STATE_UNSPECIFIED;  // nothing was ever acknowledged
  std::string body;
  uint64_t token = 0;
  // What was asked last and not answered; UNSPECIFIED: nothing.
  v1::OperationState perhaps = v1::OPERATION_STATE_UNSPECIFIED;
  std::string perhaps_body;
};

// Tokens and grants of all clients together.
class Grants {
 public:
  // False where the token was given before, or the key to anybody else.
  bool Add(const std::string& key, const std::string& attempt, uint64_t token)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // 0: it was granted to nobody, as far as is known.
  uint64_t TokenOf(const std::string& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<std::string> keys() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  std::map<uint64_t, std::string> tokens_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::pair<std::string, uint64_t>> shared_ ABSL_GUARDED_BY(mutex_);
};

// How far all clients together have got.
class Progress {
 public:
  void Begins(int clients) ABSL_LOCKS_EXCLUDED(mutex_);
  void Acknowledged() ABSL_LOCKS_EXCLUDED(mutex_);
  void ClientEnds() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until so many calls are acknowledged in all; false: every client has ended before.
  bool Await(uint64_t acknowledged) const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t acknowledged() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One client: its own keys, and its own connection in each run.
class LoadClient {
 public:
  LoadClient(uint64_t seed, std::string name, Grants* grants)
      : random_(seed), name_(std::move(name)), grants_(grants) {}

  // Until the server is gone. While `deaf`, no reply counts.
  void Run(std::shared_ptr<grpc::Channel> channel, uint64_t round, Progress* progress,
           const std::atomic<bool>* deaf);
  // Every fact, or those that may have changed since the last check and some others.
  std::string Check(v1::IdempotencyAdminService::Stub& admin, bool everything);
  const std::string& broken() const { return broken_; }
  size_t facts() const { return facts_.size(); }

 private:
  bool One(uint64_t round);
  bool ReserveOwn(const std::string& key, Fact& fact);
  bool ReserveShared(const std::string& key);
  bool GoOn(const std::string& key, Fact& fact);
  bool Complete(const std::string& key, Fact& fact);
  bool Mark(const std::string& key, Fact& fact);
  bool Release(const std::string& key, Fact& fact);
  enum class Heard : uint8_t {
    kGone,     // the server is
    kNothing,  // the reply does not count, or says that there was no effect
    kReply,
  };
  Heard Hear(const grpc::Status& status);
  // Hears, and notes that what was asked is so.
  Heard Settle(const grpc::Status& status, Fact& fact);
  bool Break(const std::string& what);
  std::string CheckOne(v1::IdempotencyAdminService::Stub& admin, const std::string& key,
                       Fact& fact);

  Random random_;
  const std::string name_;
  Grants* const grants_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
  Progress* progress_ = nullptr;
  const std::atomic<bool>* deaf_ = nullptr;
  std::map<std::string, Fact> facts_;
  std::set<std::string> touched_;
  uint64_t next_key_ = 0;
  std::string broken_;
};

class Load {
 public:
  explicit Load(uint64_t seed);

  enum class Hearing : uint8_t {
    kToTheEnd,  // every reply counts, however late
    // No reply counts from the moment that `end` begins: the power is gone for all of them.
    kUntilEnd,
  };
  // Lets all clients work; calls `end` once so many more calls are acknowledged. "" or what broke.
  std::string Run(const Daemon& daemon, uint64_t acknowledged, const std::function<void()>& end,
                  Hearing hearing = Hearing::kToTheEnd);
  std::string Check(const Daemon& daemon, bool everything = false);
  uint64_t acknowledged() const { return progress_.acknowledged(); }
  size_t facts() const;

 private:
  std::string CheckShared(v1::IdempotencyAdminService::Stub& admin);

  Grants grants_;
  std::vector<std::unique_ptr<LoadClient>> clients_;
  Progress progress_;
  uint64_t round_ = 0;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_CRASH_LOAD_H_
