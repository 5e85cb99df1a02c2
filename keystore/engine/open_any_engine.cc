#include "keystore/engine/open_any_engine.h"

#include <utility>

#include "keystore/engine/etcd/etcd_engine.h"
#include "keystore/engine/postgres/postgres_engine.h"

namespace idempotency::keystore {

absl::StatusOr<std::unique_ptr<Engine>> OpenAnyEngine(AnyEngineOptions options) {
  if (options.engine.engine == "etcd") {
    auto engine = EtcdEngine::Open(std::move(options.engine), std::move(options.etcd));
    if (!engine.ok()) return engine.status();
    return std::unique_ptr<Engine>(*std::move(engine));
  }
  if (options.engine.engine == "postgres") {
    auto engine = PostgresEngine::Open(std::move(options.engine), std::move(options.postgres));
    if (!engine.ok()) return engine.status();
    return std::unique_ptr<Engine>(*std::move(engine));
  }
  return OpenEngine(std::move(options.engine));
}

}  // namespace idempotency::keystore
