// What is left of an operation where the store has lost what came after the record that it
// still has, and somebody has accepted that.
//
// What was lost altogether is another matter: `Policy::lost_before`.
#ifndef IDEMPOTENCY_KEYSTORE_CORE_LOSS_H_
#define IDEMPOTENCY_KEYSTORE_CORE_LOSS_H_

#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::core {

// PENDING, as stored, becomes UNRESOLVED: the attempt may have been renewed, dispatched, ended
// or followed by another since. It counts as marked, so that no late Release frees it; its owner
// may still complete it. Everything else stays as it is.
Record AfterLoss(Record record, const Now& now);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_LOSS_H_
