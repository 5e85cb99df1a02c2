// Commits of an engine's, one after the other, that remember everything that was acknowledged;
// after whatever has happened to the engine meanwhile they know what must be found.
//
//   Workload workload(seed);
//   while (workload.Commit(*engine)) { ... }        // until it says that it does not know
//   ... power cut, crash, damage; engine opened again ...
//   workload.Check(*engine)                         // "" or what is broken; settles what was
//   unknown
//
// A commit steps a few keys with core::Step, as the key store does. Keys live long: they are
// reserved, renewed, completed, released, marked, resolved and deleted over and over.
//
// Thread safety: none.
#ifndef IDEMPOTENCY_TESTS_PROOF_CRASH_WORKLOAD_H_
#define IDEMPOTENCY_TESTS_PROOF_CRASH_WORKLOAD_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keystore/core/command.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/core/transition.h"
#include "keystore/engine/engine.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof {

inline constexpr core::Time kWorkloadStart{std::chrono::milliseconds(1'700'000'000'000)};

struct WorkloadOptions {
  size_t keys = 60;
  size_t max_writes = 4;  // of one commit
  size_t max_body_bytes = 3000;
};

// What may be missing or unreadable in a store that was damaged.
struct Tolerance {
  // What was acknowledged behind the last call of Promised may be gone.
  bool since_promised = false;
  bool unreadable = false;
};

class Workload {
 public:
  explicit Workload(uint64_t seed, WorkloadOptions options = {});

  // One commit; false where the engine does not say that all of it is durable.
  bool Commit(keystore::Engine& engine);
  // The watermark has been stored: what is acknowledged by now is never gone unnoticed.
  void Promised();

  // Reads everything. "" where it is as acknowledged; else what is not. What was unknown is known
  // afterwards: the writes of one commit are all there or none of them.
  std::string Check(keystore::Engine& engine, Tolerance tolerance = {});

  // After a loss that was accepted: nothing is pending, and tokens go on rising.
  std::string CheckAccepted(keystore::Engine& engine) const;

  // What broke a rule while committing; empty: nothing.
  const std::string& broken() const { return broken_; }

  core::Now now() const { return core::At(kWorkloadStart + std::chrono::milliseconds(commits_)); }
  uint64_t commits() const { return commits_; }
  uint64_t operations() const { return operations_; }
  // No token up to this one may be given again.
  uint64_t newest_token() const { return newest_token_; }

 private:
  struct Fact {
    core::RecordPtr record;  // null: nothing is stored
    uint64_t commit = 0;     // that made it so
  };
  struct Known {
    core::Key key;
    // Oldest first; the first is what was promised.
    std::vector<Fact> acknowledged;
    bool unknown = false;
    core::RecordPtr perhaps;  // unknown: what may be stored instead
  };
  // Between which commits a store lies that has lost its newest ones.
  struct Span {
    uint64_t first = 0;
    uint64_t last = UINT64_MAX;
  };

  core::Command Draw(const core::Stored& stored);
  core::Command DrawOwners(const core::Record& record);
  core::ReserveCommand DrawReserve();
  core::Response DrawResponse();
  // One write of a commit; nullopt where the command changes nothing.
  std::optional<keystore::GuardedWrite> DrawWrite(const Known& known,
                                                  const keystore::ReadEntry& entry,
                                                  uint64_t* token_floor);
  std::string CheckOne(const Known& known, const core::Stored& stored, Tolerance tolerance,
                       Span* span) const;
  std::string Settle(const std::vector<core::Stored>& found);

  WorkloadOptions options_;
  core::Policy policy_;
  Random random_;
  std::vector<Known> keys_;
  uint64_t commits_ = 0;
  uint64_t operations_ = 0;
  uint64_t newest_token_ = 0;
  std::string broken_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_CRASH_WORKLOAD_H_
