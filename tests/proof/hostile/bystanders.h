// Well-behaved clients beside an attack: how long their calls take, and what they were promised.
#ifndef IDEMPOTENCY_TESTS_PROOF_HOSTILE_BYSTANDERS_H_
#define IDEMPOTENCY_TESTS_PROOF_HOSTILE_BYSTANDERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/proof/crash/daemon.h"

namespace idempotency::proof {

// What they saw since it was asked last.
struct Seen {
  int64_t p99_nanos = 0;
  size_t calls = 0;
  std::vector<std::string> errors;
};

// Each thread reserves and completes one key after the other, on a connection of its own.
//
// Thread safety: for one thread.
class Bystanders {
 public:
  Bystanders(const Daemon& daemon, int threads);
  ~Bystanders();

  // Waits until each has been answered, so that all connections there will be are there. False
  // where that takes longer than a minute.
  bool AwaitAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // Forgets what was seen until now.
  Seen Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop();

  // "" where every completion that was acknowledged is there, or at least `most` of them, evenly.
  std::string Check(const Daemon& daemon, size_t most) ABSL_LOCKS_EXCLUDED(mutex_);
  size_t completed() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run(int number, std::shared_ptr<grpc::Channel> channel) ABSL_LOCKS_EXCLUDED(mutex_);
  void Note(int64_t nanos, const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
  mutable absl::Mutex mutex_;
  std::vector<int64_t> nanos_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> errors_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> completed_ ABSL_GUARDED_BY(mutex_);
  // Threads that have completed something.
  int busy_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The id of a key, and a request to reserve it.
v1::OperationId IdOf(const std::string& key);
v1::ReserveRequest ReserveOf(const std::string& key, const std::string& attempt);

// How long a new client waits for its first answer; -1 where it gets none within so long.
int64_t FirstAnswerNanos(const Daemon& daemon, int64_t most_nanos);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_HOSTILE_BYSTANDERS_H_
