// Opens the engine that --engine names, of all that there are: those of open_engine.h, and those
// that keep the store in another system and need its client for that.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_OPEN_ANY_ENGINE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_OPEN_ANY_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/etcd/etcd_options.h"
#include "keystore/engine/open_engine.h"
#include "keystore/engine/postgres/postgres_options.h"

namespace idempotency::keystore {

struct AnyEngineOptions {
  // Its `engine` may also be "etcd" or "postgres", which use its clock, may_reclaim, log, random
  // bytes, the keys of responses, and what concerns bodies that are left out.
  EngineOptions engine;
  EtcdOptions etcd;
  PostgresOptions postgres;
};

// Errors as OpenEngine's, EtcdEngine::Open's and PostgresEngine::Open's.
absl::StatusOr<std::unique_ptr<Engine>> OpenAnyEngine(AnyEngineOptions options);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_OPEN_ANY_ENGINE_H_
