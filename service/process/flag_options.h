// The command line as the options of the parts that it is about: units and defaults of theirs.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_PROCESS_FLAG_OPTIONS_H_
#define IDEMPOTENCY_SERVICE_PROCESS_FLAG_OPTIONS_H_

#include <cstddef>

#include "keystore/engine/open_any_engine.h"
#include "service/flags.h"
#include "service/server.h"

namespace idempotency::service {

inline constexpr size_t kMebibyte = size_t{1024} * 1024;

ConnectionLimits ConnectionLimitsOf(const Flags& flags);
TransportLimits TransportLimitsOf(const Flags& flags);
keystore::EtcdOptions EtcdOptionsOf(const Flags& flags);
keystore::PostgresOptions PostgresOptionsOf(const Flags& flags);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_PROCESS_FLAG_OPTIONS_H_
