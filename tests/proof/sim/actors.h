// Who asks: clients that reserve, work, report, repeat themselves, forget, die and come back; and
// an operator who settles and deletes, now and then wrongly.
//
// Thread safety: none; one history is one thread's.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_ACTORS_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_ACTORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keystore/core/command.h"
#include "keystore/core/outcome.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof {

struct Message {
  // Copies have the same number.
  uint64_t number = 0;
  size_t actor = 0;
  size_t key = 0;
  core::Command command;
  core::Duration wait{0};
};
using MessagePtr = std::shared_ptr<const Message>;

// What all actors of a history draw from, so that their ids differ.
struct Numbers {
  uint64_t messages = 0;
  uint64_t attempts = 0;
};

class Client {
 public:
  Client(size_t index, size_t key, Numbers* numbers)
      : index_(index), key_(key), numbers_(numbers) {}

  // What it sends now: something new, or its last message again.
  MessagePtr Speak(Random& random);
  void Hear(const Message& asked, const core::Answer& answer, Random& random);
  void SetKey(size_t key) { key_ = key; }

 private:
  enum class Phase : uint8_t { kIdle, kReserving, kHolding, kFinishing, kDone };

  MessagePtr Send(core::Command command, core::Duration wait = core::Duration{0});
  MessagePtr Reserve(Random& random);
  MessagePtr Report(Random& random);
  void HearReserve(const core::ReserveAnswer& answer, Random& random);
  void Die(Random& random);

  const size_t index_;
  size_t key_;
  Numbers* const numbers_;
  Phase phase_ = Phase::kIdle;
  uint64_t attempt_ = 0;
  uint64_t token_ = 0;
  // Of earlier attempts, which it may still speak of.
  std::vector<uint64_t> old_tokens_;
  MessagePtr last_;
};

class Operator {
 public:
  Operator(size_t index, Numbers* numbers) : index_(index), numbers_(numbers) {}

  MessagePtr Speak(size_t key, Random& random);
  void Hear(const core::Answer& answer);

 private:
  MessagePtr Send(size_t key, core::Command command, core::Duration wait = core::Duration{0});

  const size_t index_;
  Numbers* const numbers_;
  std::string etag_;
  MessagePtr last_;
};

// The answer's record, where it shows one; else null.
core::RecordPtr ShownIn(const core::Answer& answer);

// Each key's operations name it, so that it is seen where they turn up under another.
std::string TagOf(size_t key);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_ACTORS_H_
