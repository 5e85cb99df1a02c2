// What the callers of a run do, call by call, and whether the answers are right. Knows nothing of
// how calls are made.
#ifndef IDEMPOTENCY_TESTS_BENCH_PLAN_H_
#define IDEMPOTENCY_TESTS_BENCH_PLAN_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/bench/identity.h"
#include "tests/bench/meter.h"
#include "tests/bench/options.h"
#include "tests/bench/wire.h"

namespace idempotency::bench {

// Common to all callers of a run.
//
// Thread safety: all methods may be called from any thread.
class Plan {
 public:
  explicit Plan(const Options& options);

  // The number of the next operation; false where all have been given out.
  bool TakeNumber(uint64_t* number);

  const Options& options() const { return options_; }
  const RequestWriter& writer() const { return writer_; }
  Faults& faults() { return faults_; }
  // Hot keys that somebody acquired; each must have had exactly one.
  std::atomic<uint64_t>& acquired() { return acquired_; }

 private:
  const Options options_;
  const RequestWriter writer_;
  std::atomic<uint64_t> next_{0};
  Faults faults_;
  std::atomic<uint64_t> acquired_{0};
};

// One caller: has one call in flight at a time.
//
//   while (caller.Begin()) {
//     do { send caller.verb(), caller.Append...; } while (!caller.OnAnswer(answer));
//   }
//
// Thread safety: none.
class Caller {
 public:
  Caller(Plan* plan, uint64_t number);

  // Takes up the next operation; false where there are no more.
  bool Begin();

  // The call to make.
  Verb verb() const { return verb_; }
  const Identity& id() const { return id_; }
  uint64_t token() const { return token_; }

  // True where the operation has ended with it. A wrong answer is noted, and ends it.
  bool OnAnswer(const Answer& answer);
  // The call failed.
  void OnFailure(const std::string& why);

  uint64_t number() const { return number_; }
  // Operations taken up.
  uint64_t rounds() const { return rounds_; }

  // What a completed operation has to show; also what Complete reports.
  std::string Body() const { return MakeBody(id_.hash, plan_->options().shape.body_bytes); }

 private:
  uint64_t KeyIndex(uint64_t number);
  bool Check(bool right, const Answer& answer, const char* wanted);
  bool OnReserved(const Answer& answer);
  bool HasBody(const Answer& answer) const;

  Plan* const plan_;
  const uint64_t number_;
  uint64_t rounds_ = 0;
  uint64_t chance_;
  Verb verb_ = Verb::kReserve;
  Identity id_;
  uint64_t token_ = 0;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_PLAN_H_
