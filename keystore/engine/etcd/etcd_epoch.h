// The epoch: one key that every commit compares, so that whoever changes it has fenced off all
// writes that are still on their way, wherever they are kept up.
//
// It is changed
//   - where nobody knows what became of a write, before anything is read again: what that read
//     finds is then final;
//   - before a sweep removes anything: a write that is guarded by the absence of a key was guarded
//     in an older epoch if the key has been made and removed since;
//   - where a server begins, and where a token comes that the base does not cover.
// Others lose what they have on their way then, and step it again: it costs a round trip.
//
// It also holds the base of fencing tokens. The next token is above
//
//   base + revision of the store x 128
//
// where a commit, which raises the revision, gives fewer than 128 tokens. The base is raised to
// where that is 2048 for each millisecond since 1970 whenever a server begins. So tokens go on
// rising, too, where etcd is made of a snapshot and its revisions begin again further down: unless
// more than 16,000 revisions a second were made since a server began last, or the clock is wrong by
// more than what lies between. A server that notices such a thing raises it to what it knows, too.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_EPOCH_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_EPOCH_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "etcdserverpb/rpc.pb.h"
#include "keystore/core/time.h"
#include "keystore/engine/etcd/etcd_client.h"
#include "keystore/engine/etcd/etcd_layout.h"

namespace idempotency::keystore {

inline constexpr uint64_t kTokensPerRevision = 128;
inline constexpr int kTokenBitsPerMillisecond = 11;

// As it was in some answer.
struct EpochState {
  // mod_revision of the key.
  int64_t revision = 0;
  // When it was made, as a revision, and how often it was written since.
  int64_t made = 0;
  int64_t writes = 0;
  EpochValue value;
  // The newest revision of the store that was seen.
  int64_t store_revision = 0;
};

// Above every token that was committed up to this revision of the store.
uint64_t TokenFloor(const EpochValue& value, int64_t store_revision);

class EtcdEpoch {
 public:
  using Settled = absl::AnyInvocable<void(absl::Status) &&>;

  // Both must outlive it.
  EtcdEpoch(EtcdClient* client, const EtcdLayout* layout) : client_(*client), layout_(*layout) {}

  // Makes the key where there is none, and raises the base. Blocks. FAILED_PRECONDITION where
  // something else is stored under it.
  absl::Status Open(core::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  EpochState state() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The revision of the epoch when it was opened.
  int64_t first_revision() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes up what an answer to a question of that time says: `asked_at` is the newest revision of
  // the store, or of the key, that was known then. DATA_LOSS where the store has gone back, where
  // the key is not ours any more or was made anew, and where another server has noted a loss.
  absl::Status NoteRevision(int64_t asked_at, const etcdserverpb::ResponseHeader& header)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<EpochState> NoteKey(const etcdserverpb::TxnResponse& response,
                                     const etcdserverpb::KeyValue* key, int64_t asked_at = 0)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Somebody's write may or may not be done: Settle has to fence it off.
  void NoteUnknown() ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `settled` at once where no write is unknown; else once those are fenced off, or that
  // has failed.
  void Settle(Settled settled) ABSL_LOCKS_EXCLUDED(mutex_);

  // Changes the epoch, if it is still that of `from`. OK also where somebody else has changed it
  // first; `ours` tells.
  void Change(const EpochState& from, const EpochValue& to,
              absl::AnyInvocable<void(absl::Status status, bool ours) &&> done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes in the epoch that the store has lost what was done before `now`, for whoever opens it
  // next, unless another server has done so; and raises the base above all tokens that are known
  // here. Where that fails, it is told: DATA_LOSS where something else is stored there, for good.
  void MarkLoss(core::Time now, Settled done) ABSL_LOCKS_EXCLUDED(mutex_);

  // As Change, waiting for it.
  absl::StatusOr<bool> ChangeNow(const EpochState& from, const EpochValue& to)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Why `seen` cannot have become of what is known; empty where it can.
  std::string_view WhyLost(const EpochState& seen, int64_t asked_at) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunFence() ABSL_LOCKS_EXCLUDED(mutex_);
  void EndFence(uint64_t unknowns, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  EtcdClient& client_;
  const EtcdLayout& layout_;

  mutable absl::Mutex mutex_;
  EpochState now_ ABSL_GUARDED_BY(mutex_);
  int64_t first_revision_ ABSL_GUARDED_BY(mutex_) = 0;
  // Writes of unknown outcome, ever; and how many of them are fenced off.
  uint64_t unknowns_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t fenced_ ABSL_GUARDED_BY(mutex_) = 0;
  bool fencing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Settled> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_EPOCH_H_
