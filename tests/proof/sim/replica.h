// One process of the service on one machine: the real key store, and what it stands on. It can
// be killed, drained and started again.
//
// Thread safety: none; one history is one thread's.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_REPLICA_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_REPLICA_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "keystore/key_store.h"
#include "tests/proof/sim/disk.h"
#include "tests/proof/sim/history.h"
#include "tests/proof/sim/mutants.h"
#include "tests/proof/sim/random.h"
#include "tests/proof/sim/sim_clock.h"
#include "tests/proof/sim/sim_engine.h"

namespace idempotency::proof {

// What all replicas of a history share; outlives them.
struct Shared {
  History* history = nullptr;
  SimDisk* disk = nullptr;
  Random* random = nullptr;
  const EngineManners* manners = nullptr;
  const Mutant* mutant = nullptr;
  // An operation was answered, and its caller can be told.
  std::function<void(size_t op)> on_answer;
};

class Replica final : public keystore::Observer {
 public:
  Replica(const Shared* shared, size_t index) : shared_(shared), index_(index) {}
  ~Replica() override;

  bool up() const { return store_ != nullptr; }
  // Its engine is dead: the process is about to exit.
  bool dying() const { return dying_; }
  Machine& machine() { return machine_; }
  SimEngine& engine() { return *engine_; }
  keystore::KeyStore& store() { return *store_; }

  void Start();
  // Loses everything that is not on the disk; nobody is told anything any more.
  void Kill();
  // Finishes what was accepted, and stops.
  void Stop();

  // Ops of `history`, already noted there.
  void Submit(const std::vector<std::pair<size_t, core::Duration>>& ops);
  void Cancel(Random& random);

  core::Now ReadClock();
  // The time that a restart goes on from is written down.
  void KeepMark();
  // The clock may be led forward by what was done to the machine.
  void NoteForward();
  void Confirm();

  void OnAnswer(const keystore::Request& request, const core::Answer& answer) override;
  void OnLapse(const core::Key& key, const core::Record& record) override;
  void OnUnreadable(const core::Key& key) override;
  void OnEngineDead() override { dying_ = true; }

 private:
  keystore::Request RequestOf(Op& op, core::Duration wait);
  void Answered(size_t op, keystore::Reply reply);
  // What guarded time is by now if it goes on by what has elapsed.
  core::Time Expected() const;
  void NoteBack();
  void LoseUnsynced();
  void Reset();

  const Shared* const shared_;
  const size_t index_;
  Machine machine_;
  core::Time mark_;
  // The last reading of a process before this one, and when it was taken.
  core::Time last_read_;
  core::Duration last_read_at_{0};
  std::unique_ptr<SimClock> clock_;
  std::unique_ptr<SimEngine> engine_;
  std::unique_ptr<keystore::KeyStore> store_;
  std::vector<std::pair<size_t, keystore::CancelHandle>> open_;
  bool dying_ = false;
  bool gone_ = false;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_REPLICA_H_
