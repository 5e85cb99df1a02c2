// Whether the store is retired (transfer/retirement.h), as every commit has to know: it compares
// the mark's key, so that none goes through that was made without having seen the mark, wherever it
// was kept up.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_RETIRED_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_RETIRED_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "etcdserverpb/rpc.pb.h"
#include "keystore/engine/etcd/etcd_layout.h"

namespace idempotency::keystore {

// As it was in some answer.
struct RetiredState {
  bool retired = false;
  // mod_revision of the mark's key; 0: it is not there.
  int64_t revision = 0;
};

class EtcdRetired {
 public:
  explicit EtcdRetired(const EtcdLayout& layout);

  // Of the mark.
  const std::string& key() const { return key_; }

  RetiredState state() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes up what an answer says of the key; null: it is not there. Of two answers the newer
  // counts.
  void Note(const etcdserverpb::ResponseHeader& header, const etcdserverpb::KeyValue* mark)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes the request fail where the mark is not as in `state`, and tell then how it is: Note takes
  // what the answer has in the first place.
  void Guard(const RetiredState& state, etcdserverpb::TxnRequest* commit) const;

 private:
  const std::string key_;

  mutable absl::Mutex mutex_;
  RetiredState state_ ABSL_GUARDED_BY(mutex_);
  // Of the store, in the answer that it is from.
  int64_t seen_at_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_RETIRED_H_
