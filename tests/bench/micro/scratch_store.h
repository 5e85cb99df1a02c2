// A RocksDB store of ours in a directory of its own, as the service opens it, removed at the end.
#ifndef IDEMPOTENCY_TESTS_BENCH_MICRO_SCRATCH_STORE_H_
#define IDEMPOTENCY_TESTS_BENCH_MICRO_SCRATCH_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keystore/engine/rocksdb_engine.h"
#include "tests/bench/micro/ingredients.h"
#include "tests/bench/micro/scenario.h"

namespace idempotency::bench {

class ScratchStore {
 public:
  explicit ScratchStore(const Settings& settings);
  ~ScratchStore();
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;

  keystore::RocksDbEngine& engine() { return *engine_; }

  std::vector<keystore::ReadEntry> Read(std::vector<core::Key> keys);
  void Commit(std::vector<keystore::GuardedWrite> writes);
  // Stores keys `0 .. count - 1`, complete.
  void Load(uint64_t count);

 private:
  std::string directory_;
  std::unique_ptr<keystore::RocksDbEngine> engine_;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_MICRO_SCRATCH_STORE_H_
