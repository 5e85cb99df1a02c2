// PostgreSQL as an idempotency store: INSERT .. ON CONFLICT DO NOTHING, prepared, each its own
// transaction; or, with several commands, a pipeline of them in one transaction.
#ifndef IDEMPOTENCY_TESTS_BENCH_OTHERS_POSTGRES_LOAD_H_
#define IDEMPOTENCY_TESTS_BENCH_OTHERS_POSTGRES_LOAD_H_

#include <memory>
#include <string>

#include "tests/bench/others/socket_load.h"

namespace idempotency::bench {

// Makes the table where it is missing.
//
// Thread safety: as Load.
class PostgresLoad final : public SocketLoad {
 public:
  explicit PostgresLoad(Plan* plan) : SocketLoad(plan) {}

 private:
  struct Connection;

  std::unique_ptr<Peer> NewPeer() override;
  void OnReadable(Peer* peer) override;
  void Send(Slot* slot) override;

  bool is_pipelined() const { return options().commands > 1; }

  bool has_table_ = false;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_OTHERS_POSTGRES_LOAD_H_
