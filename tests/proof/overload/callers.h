// A crowd of callers of the real server, in one thread: each reserves a fresh key, and another when
// it is answered. A refused one stays away for as long as it is told, or, where it is impatient, a
// time of its own, and tries the same key again.
// One granted in eight goes on to Complete, Release or MarkUnresolved, in turn.
//
//   Callers callers(channels, seed, 10'000);
//   const Phase phase = callers.Work(0, 256, 5.0);   // the first 256, for five seconds
//   callers.Finish();                                // all calls have ended
//   callers.Check(channel)                           // "" or what was lost
//
// Thread safety: none.
#ifndef IDEMPOTENCY_TESTS_PROOF_OVERLOAD_CALLERS_H_
#define IDEMPOTENCY_TESTS_PROOF_OVERLOAD_CALLERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/proof/overload/judge.h"

namespace idempotency::proof {

class Callers {
 public:
  Callers(const std::vector<std::shared_ptr<grpc::Channel>>& channels, uint64_t seed, size_t count);
  ~Callers();

  // Of every Reserve from now on. `silent`: the server is not told, and nothing is cancelled; an
  // answer that comes later is late all the same.
  void SetDeadline(double milliseconds, bool silent = false);

  // No refusal keeps anybody away for longer from now on.
  void SetImpatience(double seconds);

  // Callers [first, first + count) work for so long. Those who worked before and do not any more
  // end their calls meanwhile, and these count, too.
  Phase Work(size_t first, size_t count, double seconds);
  void Finish();

  // Asks for what was acknowledged; "" where all of it is there.
  std::string Check(const std::shared_ptr<grpc::Channel>& channel) const;
  size_t facts() const { return facts_.size(); }

 private:
  struct Caller;
  enum class Became : uint8_t { kHeld, kCompleted, kReleased, kMarked };
  // What was acknowledged last of an operation.
  struct Fact {
    uint64_t number = 0;
    uint64_t token = 0;
    Became became = Became::kHeld;
  };

  bool Works(const Caller& caller) const;
  void Begin(Caller& caller);
  void SendReserve(Caller& caller);
  void SendFinishing(Caller& caller);
  // Waits for one answer, or until the moment.
  void Advance(int64_t until);
  void Wake(int64_t now);
  void OnAnswer(Caller& caller, int64_t now);
  void OnReserved(Caller& caller, int64_t now);
  void OnFinished(Caller& caller);
  void OnRefused(Caller& caller, int64_t now);
  void GoOn(Caller& caller);
  void Complain(const Caller& caller, const std::string& what);
  void Remember(const Fact& fact);
  Tenth& TenthAt(int64_t now);

  const uint64_t seed_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<v1::IdempotencyService::Stub>> stubs_;
  std::vector<std::unique_ptr<Caller>> callers_;
  // Who comes back when.
  std::priority_queue<std::pair<int64_t, size_t>, std::vector<std::pair<int64_t, size_t>>,
                      std::greater<>>
      away_;
  size_t first_ = 0;
  size_t end_ = 0;
  size_t in_flight_ = 0;
  int64_t deadline_nanos_ = 0;
  bool silent_ = false;
  int64_t longest_away_nanos_ = INT64_MAX;
  int64_t phase_begin_ = 0;
  Phase phase_;
  uint64_t next_number_ = 0;
  uint64_t granted_ = 0;
  std::vector<Fact> facts_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_OVERLOAD_CALLERS_H_
