// One Run: the protocol around one call of fn. See idempotency/client.h for what it promises.
#ifndef IDEMPOTENCY_CLIENT_SRC_RUN_H_
#define IDEMPOTENCY_CLIENT_SRC_RUN_H_

#include "client/src/run_context.h"
#include "idempotency/client.h"

namespace idempotency::internal {

// On the calling thread. The context must outlive the call, and may go after it.
RunResult RunOnce(const RunContext& context);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_RUN_H_
