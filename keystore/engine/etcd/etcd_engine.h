// The engine on etcd v3: a store that several servers share and that outlives any of them.
//
//   auto engine = EtcdEngine::Open(options, {.endpoints = {"etcd-0:2379", "etcd-1:2379"}});
//
// - A commit is one transaction: it compares the epoch (etcd_epoch.h) and the mark of a retired
//   store (etcd_retired.h), and in it each write is a transaction of its own that compares its
//   key's mod_revision. So there is nothing to be done for FenceOthers.
// - A read is one transaction that only reads: linearizable.
// - A write whose answer is lost is kUnknown. The next read first changes the epoch, and fails
//   where it cannot: so what it finds is not undone by that write any more.
// - What etcd refuses (no room, no permission, too large) is kLostRace, since nothing was written,
//   and fails the next read, so that whoever asked is told.
// - No record has a lease of etcd's: whether it has ended is never etcd's decision.
// - An answer that does not fit into a request of etcd's is stored without its body.
// - Where etcd has gone back in time, or what is under the prefix was removed, that is noticed by
//   about a second later. The engine takes nothing any more, notes it there, and dies.
// StoredBytes says nothing: etcd does not tell what a range of keys takes.
//
// Thread safety: all methods may be called from any thread. Completions run on threads of gRPC's
// or of the engine.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_ENGINE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_ENGINE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/etcd/etcd_options.h"
#include "keystore/engine/open_engine.h"

namespace idempotency::keystore {

class EtcdEngine final : public Engine {
 public:
  // Of `options` it uses now, may_reclaim, log, random_bytes, the keys of responses, and what
  // concerns bodies that are left out. Blocks until etcd has answered. INVALID_ARGUMENT for bad
  // options; FAILED_PRECONDITION where something else is stored under the prefix; UNAVAILABLE and
  // others as etcd says. The message says what to do next.
  static absl::StatusOr<std::unique_ptr<EtcdEngine>> Open(EngineOptions options, EtcdOptions etcd);
  ~EtcdEngine() override;
  EtcdEngine(const EtcdEngine&) = delete;
  EtcdEngine& operator=(const EtcdEngine&) = delete;

  void Read(std::vector<core::Key> keys, ReadDone done) override;
  // A record that breaks a rule of core/invariants.h is a bug: nothing of the batch is written,
  // and the engine dies.
  void Commit(std::vector<GuardedWrite> writes, CommitDone done) override;
  void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) override;
  // Told are changes of what is or was PENDING or UNRESOLVED.
  void OnForeignChange(std::function<void(const core::Key&)> hint) override;
  Traits traits() const override;
  Pressure pressure() const override;
  StoreStats stats() const override;
  EngineCheck CheckStore() override;

  // A pass of sweeping (etcd_sweep.h), now. Blocks. For tests.
  absl::Status SweepNow();
  // Looks how etcd stands, now and not within a second. Blocks. For tests.
  void LookNow();
  // How many answers were stored without their body, since they did not fit.
  uint64_t bodies_omitted() const;

 private:
  class Impl;
  explicit EtcdEngine(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_ENGINE_H_
