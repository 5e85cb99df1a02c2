// Notices that another server has retired the store while this one serves it, and that this was
// taken back. The engine writes nothing in it meanwhile: this is what callers and operators are
// told of it.
//
// Thread safety: retired() may be called from any thread, Look and Tell from one at a time each.
#ifndef IDEMPOTENCY_SERVICE_RETIREMENT_WATCH_H_
#define IDEMPOTENCY_SERVICE_RETIREMENT_WATCH_H_

#include <atomic>

#include "keystore/engine/engine.h"
#include "service/log.h"

namespace idempotency::service {

class RetirementWatch {
 public:
  // Both must outlive it.
  RetirementWatch(keystore::Engine* engine, Log* log) : engine_(*engine), log_(*log) {}

  // As Look has found it.
  bool retired() const { return retired_; }
  // Asks the engine, which does not block.
  void Look() { retired_ = engine_.pressure().retired; }

  // Whether something has changed that the log does not know yet.
  bool untold() const { return retired_ != told_; }
  // Writes it there; of a store that is retired by whom, and what to do, which is read from it: so
  // it blocks. Where it cannot be read it stays untold.
  void Tell();

 private:
  keystore::Engine& engine_;
  Log& log_;
  std::atomic<bool> retired_{false};
  std::atomic<bool> told_{false};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_RETIREMENT_WATCH_H_
