// An engine's calls, waited for: for work that has a thread of its own and is in no hurry.
//
// Thread safety: as the engine's; each call keeps its thread until it is answered.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_WAITING_ENGINE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_WAITING_ENGINE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/engine/engine.h"

namespace idempotency::keystore {

class WaitingEngine {
 public:
  // The engine must outlive it.
  explicit WaitingEngine(Engine* engine) : engine_(*engine) {}

  Engine& engine() const { return engine_; }

  // As Engine::Read, and no key is put off.
  absl::StatusOr<ReadResult> Read(const std::vector<core::Key>& keys) const;
  std::vector<WriteOutcome> Commit(std::vector<GuardedWrite> writes) const;
  // A page of everything that is stored.
  absl::StatusOr<ScanResult> Scan(size_t limit, const std::string& resume_key) const;

 private:
  absl::StatusOr<ReadResult> ReadOnce(std::vector<core::Key> keys) const;

  Engine& engine_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_WAITING_ENGINE_H_
