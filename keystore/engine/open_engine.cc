#include "keystore/engine/open_engine.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "keystore/engine/memory_engine.h"
#include "keystore/engine/rocksdb_engine.h"

namespace idempotency::keystore {

absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(EngineOptions options) {
  if (options.engine == "memory") {
    if (!options.log) return std::make_unique<MemoryEngine>();
    return std::make_unique<MemoryEngine>(std::move(options.log));
  }
  if (options.engine != "rocksdb") {
    return absl::InvalidArgumentError(
        absl::StrCat("engine \"", options.engine, "\" is unknown; use rocksdb or memory"));
  }
  absl::StatusOr<std::unique_ptr<RocksDbEngine>> engine =
      RocksDbEngine::Open(RocksDbOptions{.engine = std::move(options)});
  if (!engine.ok()) return engine.status();
  return std::unique_ptr<Engine>(*std::move(engine));
}

}  // namespace idempotency::keystore
