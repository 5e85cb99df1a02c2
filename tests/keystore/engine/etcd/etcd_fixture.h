// One etcd for all tests of a program, in which each test has a prefix of its own; engines on it,
// on a clock that the test moves.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_ETCD_ETCD_FIXTURE_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_ETCD_ETCD_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/etcd/etcd_client.h"
#include "keystore/engine/etcd/etcd_engine.h"
#include "keystore/engine/etcd/etcd_layout.h"
#include "tests/keystore/engine/rocksdb_fixture.h"
#include "tests/support/etcd_process.h"

namespace idempotency::keystore {

// Started when it is first asked for.
EtcdCluster& SharedEtcd();

class EtcdFixture {
 public:
  explicit EtcdFixture(EtcdCluster* cluster = &SharedEtcd());

  // What the next Open uses; a test may change it.
  EtcdOptions etcd;
  EngineOptions options;
  Surroundings& surroundings() { return *surroundings_; }

  // Another engine on the same store; tries for a while, since etcd takes some time to begin.
  std::unique_ptr<EtcdEngine> Open();

  // Behind the engines' backs.
  EtcdClient& client();
  EtcdLayout layout() const { return EtcdLayout(etcd.prefix); }
  void Put(const std::string& key, const std::string& value);
  void Remove(const std::string& key);
  // As `etcdctl del --prefix` does.
  void RemoveAll();
  // Under the prefix, without it, in order.
  std::vector<std::string> Keys();

 private:
  const std::shared_ptr<Surroundings> surroundings_;
  std::unique_ptr<EtcdClient> client_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_ETCD_ETCD_FIXTURE_H_
