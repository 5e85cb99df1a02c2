// Gives back the space of what time has ended: what compaction does for RocksDB. It decides
// nothing: it asks core::Observe, as every read does, about a moment an hour ago.
//
// Every record under "f/" has an entry under "x/", in the minute in which it is to be looked at;
// changed records leave older entries behind. A pass goes through the minutes that are over:
//
//   COMPLETE whose retention is over      shrinks to its EXPIRED tombstone, and gets a new entry
//   what is forgotten, erased keys        are removed, if they are older than the epoch
//   what is due later, or unreadable      loses this entry only
//   namespaces that must not be reclaimed stay, and their entries with them
//
// All of it is guarded by what was read, and nothing is removed while the clock is in doubt. Before
// it removes anything, a pass changes the epoch (etcd_epoch.h), which is also how several servers
// agree on whose turn it is.
//
// Thread safety: one caller, not a thread of gRPC's.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_SWEEP_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_SWEEP_H_

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/time.h"
#include "keystore/engine/etcd/etcd_client.h"
#include "keystore/engine/etcd/etcd_epoch.h"
#include "keystore/engine/etcd/etcd_layout.h"
#include "keystore/engine/etcd/etcd_retired.h"
#include "keystore/engine/record_sealer.h"

namespace idempotency::keystore {

struct SweepSettings {
  // Whether expired records of a namespace may be given up.
  std::function<bool(std::string_view name_space)> may_reclaim;
  // No pass begins this soon after the last one, anybody's.
  core::Duration interval;
  // Entries at once.
  size_t page = 1;
};

struct SweepDone {
  size_t removed = 0;
  size_t shrunk = 0;
};

class EtcdSweep {
 public:
  // All must outlive it.
  EtcdSweep(EtcdClient* client, const EtcdLayout* layout, EtcdEpoch* epoch,
            const EtcdRetired* retired, const RecordSealer* sealer, SweepSettings settings);

  // One pass, until nothing more is due, somebody changes the epoch or retires the store, or `stop`
  // says so. Blocks.
  absl::StatusOr<SweepDone> Run(const core::Now& now, const std::function<bool()>& stop);

 private:
  // Entries that are due, with what is stored for them.
  struct Page;

  absl::StatusOr<bool> Begin(const core::Now& now);
  absl::StatusOr<Page> ReadPage(const std::string& from, const std::string& end);
  absl::Status ReadRecords(Page* page);
  // False: somebody has changed the epoch, or retired the store.
  absl::StatusOr<bool> Settle(const Page& page, const core::Now& then, SweepDone* done);

  EtcdClient& client_;
  const EtcdLayout& layout_;
  EtcdEpoch& epoch_;
  const EtcdRetired& retired_;
  const RecordSealer& sealer_;
  const SweepSettings settings_;
  EpochState began_;
  RetiredState began_retired_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_SWEEP_H_
