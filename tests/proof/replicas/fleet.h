// Several servers of ours on one store, and a crowd of clients that ask any of them.
//
//   Fleet fleet(2, {"--engine=etcd", ...});
//   fleet.StartAll();
//   Crowd crowd(seed, &fleet);
//   crowd.Start();
//   ... crowd.AwaitCalls(100), and something bad happens to the store or a server ...
//   crowd.Stop()        // "" or what a client was told that cannot be
//   crowd.Check(0)      // "" or what was acknowledged and is not there, asked of one server
//
// A client asks the same until it is answered, by whichever server. Keys: most are one client's
// own, and are completed or stay open; some are everybody's, and one client alone may be granted
// each.
#ifndef IDEMPOTENCY_TESTS_PROOF_REPLICAS_FLEET_H_
#define IDEMPOTENCY_TESTS_PROOF_REPLICAS_FLEET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/proof/crash/daemon.h"

namespace idempotency::proof {

template <typename Request>
Request RequestFor(const std::string& name_space, const std::string& key) {
  Request request;
  request.mutable_id()->set_namespace_(name_space);
  request.mutable_id()->set_scope("acct_1");
  request.mutable_id()->set_key(key);
  return request;
}

v1::ReserveRequest ReserveFor(const std::string& name_space, const std::string& key,
                              const std::string& who, int lease_seconds);
v1::CompleteRequest CompleteFor(const std::string& name_space, const std::string& key,
                                uint64_t token, const std::string& body);

// By a clock that nobody sets.
void GiveUpAfter(int seconds, grpc::ClientContext* context);
// Else nobody has decided, and the same may be asked once more.
bool IsAnswered(const grpc::Status& status);
// Word for word until it is answered, in all for so many seconds, of which the last try takes what
// is left. What was said last.
grpc::Status UntilAnswered(int seconds,
                           const std::function<grpc::Status(grpc::ClientContext*)>& ask);

// Thread safety: Channel may be called from any thread, the rest from one.
class Fleet {
 public:
  Fleet(size_t servers, const std::vector<std::string>& flags);

  size_t size() const { return daemons_.size(); }
  // "" once it answers; else what it says.
  std::string Start(size_t which) ABSL_LOCKS_EXCLUDED(mutex_);
  std::string StartAll();
  void Kill(size_t which) { daemons_[which]->Kill(); }
  // SIGSTOP and SIGCONT; Freeze returns once nothing of it runs.
  void Freeze(size_t which);
  void Thaw(size_t which);
  // Null where it has not started.
  std::shared_ptr<grpc::Channel> Channel(size_t which) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::vector<std::unique_ptr<Daemon>> daemons_;
  mutable absl::Mutex mutex_;
  std::map<size_t, std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
};

// Who holds what, of all clients together. Thread safety: any thread.
class Holders {
 public:
  // False where somebody else was granted the key, or the same one with another token.
  bool Add(const std::string& key, const std::string& who, uint64_t token)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::pair<std::string, uint64_t>> holders_ ABSL_GUARDED_BY(mutex_);
};

class CrowdClient;

// Thread safety: acknowledged may be called from any thread, the rest from one.
class Crowd {
 public:
  // `fleet` has to outlive it.
  Crowd(uint64_t seed, const Fleet* fleet);
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void Start();
  // "" or what a client was told that cannot be.
  std::string Stop();
  // Until so many more calls are acknowledged; false: they are not, for minutes, or some client was
  // told what cannot be and has ended.
  bool AwaitCalls(uint64_t more) const;
  bool somebody_broke() const { return somebody_broke_; }
  uint64_t acknowledged() const { return acknowledged_; }

  // While it is stopped. "" or the first fact that is not there, as one server sees it.
  std::string Check(size_t server) const;
  // Of every server.
  std::string CheckAll() const;
  size_t facts() const;

 private:
  const Fleet* const fleet_;
  Holders holders_;
  std::atomic<uint64_t> acknowledged_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> somebody_broke_{false};
  std::vector<std::unique_ptr<CrowdClient>> clients_;
  std::vector<std::thread> threads_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_REPLICAS_FLEET_H_
