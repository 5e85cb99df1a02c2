// What must hold of every record, and between a record and the one that replaces it. Engines
// check a record after reading its bytes (else it is unreadable) and before writing them.
#ifndef IDEMPOTENCY_KEYSTORE_CORE_INVARIANTS_H_
#define IDEMPOTENCY_KEYSTORE_CORE_INVARIANTS_H_

#include <string_view>

#include "keystore/core/record.h"

namespace idempotency::core {

// The first rule that `record` breaks, as a sentence; empty where it keeps them all.
std::string_view BrokenRule(const Record& record);

// The first rule that replacing `before` by `after` breaks; empty where it keeps them all.
std::string_view BrokenRule(const Record& before, const Record& after);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_INVARIANTS_H_
