// One key, what is stored under it, and the clock: steps commands and applies their effects,
// as a key store would.
//
//   Machine machine;
//   machine.set_time(kStart);
//   Decision decision = machine.Do(ReserveCommand{...});
//
// Not thread-safe.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CORE_MACHINE_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CORE_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "keystore/core/command.h"
#include "keystore/core/policy.h"
#include "keystore/core/transition.h"
#include "tests/keystore/core/core_text.h"

namespace idempotency::core {

class Machine {
 public:
  explicit Machine(StepFunction step = &Step) : step_(step) {}

  Policy& policy() { return policy_; }
  void set_now(const Now& now) { now_ = now; }
  void set_time(Time time) { now_ = At(time); }
  const Now& now() const { return now_; }

  // Steps, applies the effect, and notes a rule that what was written breaks.
  Decision Do(const Command& command);

  const Stored& stored() const { return stored_; }
  void set_stored(Stored stored) { stored_ = std::move(stored); }
  uint64_t token_floor() const { return token_floor_; }
  void set_token_floor(uint64_t floor) { token_floor_ = floor; }
  // What is stored as of now; nullopt also where it cannot be read.
  std::optional<Record> Observed() const;
  // The first rule broken so far; empty: none.
  const std::string& broken() const { return broken_; }

 private:
  void Write(const Record& record);

  StepFunction step_;
  Policy policy_;
  Now now_ = At(kStart);
  Stored stored_ = Absent{};
  uint64_t token_floor_ = 1;
  std::string broken_;
};

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CORE_MACHINE_H_
