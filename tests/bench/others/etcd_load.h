// etcd as an idempotency store: a Txn that puts a key where it is absent, and else returns it.
// Over the same gRPC client as our own service, with the messages written by hand.
#ifndef IDEMPOTENCY_TESTS_BENCH_OTHERS_ETCD_LOAD_H_
#define IDEMPOTENCY_TESTS_BENCH_OTHERS_ETCD_LOAD_H_

#include <string>
#include <string_view>

#include "tests/bench/unary_load.h"

namespace idempotency::bench {

// Thread safety: as Load.
class EtcdLoad final : public UnaryLoad {
 public:
  explicit EtcdLoad(Plan* plan) : UnaryLoad(plan) {}

 private:
  const char* ReserveMethod() const override { return "/etcdserverpb.KV/Txn"; }
  void AppendRequest(const Caller& caller, std::string* out) const override;
  bool ScanAnswer(const Caller& caller, std::string_view bytes, Answer* answer) const override;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_OTHERS_ETCD_LOAD_H_
