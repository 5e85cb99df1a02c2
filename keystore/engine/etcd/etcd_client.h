// Calls to the members of one etcd cluster. What is asked goes to one member; where that one does
// not answer, the next is asked from then on, and what only reads is asked again there at once.
//
// Statuses are etcd's own (the codes of gRPC). NothingWasDone says which of them prove that a
// write has not been done and will not be.
//
// Thread safety: all methods may be called from any thread. Completions run on threads of gRPC's;
// every one has run when the destructor returns, and must not destroy the client.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_CLIENT_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "etcdserverpb/rpc.pb.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/etcd/etcd_options.h"

namespace idempotency::keystore {

// The write that failed so was refused: by what it asked for, for lack of room or permission.
bool NothingWasDone(const absl::Status& status);

// What etcd says of itself; a status where it does not.
struct EtcdView {
  // By endpoint, in the order of the options.
  std::vector<absl::StatusOr<etcdserverpb::StatusResponse>> members;
  // Of one member for all.
  absl::StatusOr<etcdserverpb::MemberListResponse> list = NotAsked();
  absl::StatusOr<etcdserverpb::AlarmResponse> alarms = NotAsked();
  absl::StatusOr<etcdserverpb::AuthStatusResponse> auth = NotAsked();
  // It has told us a token for user and password.
  bool has_token = false;

 private:
  static absl::Status NotAsked() { return absl::UnknownError("not asked"); }
};

class EtcdClient {
 public:
  using TxnDone = absl::AnyInvocable<void(absl::StatusOr<etcdserverpb::TxnResponse>) &&>;
  // Changes of the range that is watched, in order.
  using OnEvents = std::function<void(const etcdserverpb::WatchResponse&)>;

  // Connects when something is asked. INVALID_ARGUMENT for files that cannot be read, or options
  // that contradict each other.
  static absl::StatusOr<std::unique_ptr<EtcdClient>> Open(const EtcdOptions& options,
                                                          LogFunction log);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // Asked up to three times; must write nothing.
  void Read(etcdserverpb::TxnRequest request, TxnDone done);
  // Asked once.
  void Write(etcdserverpb::TxnRequest request, TxnDone done);

  // Each waits for the answer: not on a thread of gRPC's.
  absl::StatusOr<etcdserverpb::TxnResponse> ReadNow(etcdserverpb::TxnRequest request);
  absl::StatusOr<etcdserverpb::TxnResponse> WriteNow(etcdserverpb::TxnRequest request);
  absl::StatusOr<etcdserverpb::StatusResponse> StatusNow();
  // Asks each member how it stands, and one of those that answer about all of them.
  EtcdView Look();

  // Tells of changes under a prefix from now on, until the client is destroyed; where the stream
  // ends it is begun anew a second later, with what happened meanwhile, unless etcd has compacted
  // that away. Once.
  void Watch(std::string prefix, OnEvents on_events);

 private:
  class Impl;
  explicit EtcdClient(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_CLIENT_H_
