// The names of states, outcomes and reasons, as in the API without their prefixes: for logs,
// messages and tests. Never empty; an unknown number is "UNKNOWN".
#ifndef IDEMPOTENCY_KEYSTORE_CORE_NAMES_H_
#define IDEMPOTENCY_KEYSTORE_CORE_NAMES_H_

#include <string_view>

#include "keystore/core/outcome.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"

namespace idempotency::core {

std::string_view Name(State state);
std::string_view Name(Verdict verdict);
std::string_view Name(UnresolvedCause cause);
std::string_view Name(EndVerb verb);
std::string_view Name(Resolution resolution);
std::string_view Name(EventKind kind);
std::string_view Name(ReserveOutcome outcome);
std::string_view Name(NextStep step);
std::string_view Name(Reason reason);
std::string_view Name(UnknownOutcome policy);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_NAMES_H_
