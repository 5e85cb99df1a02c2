// Requests of the engine as etcd's messages, and what their answers say. No I/O.
//
// One commit is one transaction: it compares the epoch, and holds a transaction for each write,
// which compares its key's mod_revision. etcd (3.4 to 3.6) does not count what is written in a
// nested transaction against its quota, nor refuse it while it has raised its alarm: what has begun
// can be ended then. That new keys are refused before is the engine's affair.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_REQUESTS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "etcdserverpb/rpc.pb.h"
#include "keystore/core/time.h"
#include "keystore/engine/etcd/etcd_layout.h"
#include "keystore/engine/stored_value.h"

namespace idempotency::keystore {

// What a write, nested in its commit, takes of etcd's limit of operations a transaction: on each
// of its two levels the most that it may do.
inline constexpr size_t kNestedOps = 6;

void AddRangeOne(std::string key, etcdserverpb::TxnRequest* txn);
void AddPut(std::string key, std::string value,
            google::protobuf::RepeatedPtrField<etcdserverpb::RequestOp>* ops);
void AddDelete(std::string key, google::protobuf::RepeatedPtrField<etcdserverpb::RequestOp>* ops);
void CompareModRevision(std::string key, int64_t revision, etcdserverpb::TxnRequest* txn);
// That the key is there and was made before `revision`.
void CompareCreatedBefore(std::string key, int64_t revision, etcdserverpb::TxnRequest* txn);

// The key that was read by the operation of this place, or null.
const etcdserverpb::KeyValue* KeyAt(const etcdserverpb::TxnResponse& response, int place);

// One write of a commit.
struct EtcdWrite {
  std::string_view stored_key;
  VersionParts expected;
  // The family that the record goes to; unset: the key is erased.
  std::optional<Family> family;
  std::string value;
  // Of the family `finished`: when to look at it. Of what is erased: now.
  core::Time due;
};

// Appends the write as one operation. `epoch_revision` is what the commit compares the epoch
// with. What is erased leaves a tombstone, unless the key was made before that epoch: then
// nothing is left.
void AddWrite(const EtcdLayout& layout, const EtcdWrite& write, int64_t epoch_revision,
              etcdserverpb::TxnRequest* commit);

// A request of about so many bytes that changes nothing: its condition never holds. What it would
// write is nested, so that etcd looks at its size alone and not whether there is room for it.
etcdserverpb::TxnRequest IdleRequest(const EtcdLayout& layout, size_t bytes);

// Whether the write at this place of a commit that went through was done.
bool WasWritten(const etcdserverpb::TxnResponse& response, int place);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_REQUESTS_H_
