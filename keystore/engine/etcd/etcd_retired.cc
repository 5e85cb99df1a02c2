#include "keystore/engine/etcd/etcd_retired.h"

#include "keystore/codec/key_codec.h"
#include "keystore/engine/etcd/etcd_requests.h"
#include "keystore/engine/stored_value.h"
#include "keystore/engine/transfer/retirement.h"

namespace idempotency::keystore {

// A mark is a record that is FREED, and so among those that are finished.
EtcdRetired::EtcdRetired(const EtcdLayout& layout)
    : key_(layout.RecordKey(Family::kFinished, EncodeKey(RetirementKey()))) {}

RetiredState EtcdRetired::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

void EtcdRetired::Note(const etcdserverpb::ResponseHeader& header,
                       const etcdserverpb::KeyValue* mark) {
  absl::MutexLock lock(&mutex_);
  if (header.revision() < seen_at_) return;
  seen_at_ = header.revision();
  state_ = {};
  if (mark == nullptr) return;
  // Without bytes it is what an erased key has left.
  state_ = {.retired = !mark->value().empty(), .revision = mark->mod_revision()};
}

void EtcdRetired::Guard(const RetiredState& state, etcdserverpb::TxnRequest* commit) const {
  CompareModRevision(key_, state.revision, commit);
  commit->add_failure()->mutable_request_range()->set_key(key_);
}

}  // namespace idempotency::keystore
