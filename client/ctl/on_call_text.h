// What the person on call is shown: what is unresolved, what an operation has been through, what
// the policy allows next. Pure: what time it is, is an argument.
#ifndef IDEMPOTENCY_CLIENT_CTL_ON_CALL_TEXT_H_
#define IDEMPOTENCY_CLIENT_CTL_ON_CALL_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "idempotency/v1/admin_service.pb.h"

namespace idempotency::ctl {

// What may become of an UNRESOLVED operation without a person, in a few words: "reserve, in 3m12s
// (until 5h)", or "a person: look up and resolve".
std::string AllowedNext(const v1::Operation& operation, absl::Time now);

// A row an operation, which must all be UNRESOLVED.
std::string FormatUnresolved(const std::vector<v1::Operation>& operations, absl::Time now);

// State and cause in a sentence; the history as a timeline; what a Reserve of the same request
// would be answered now.
std::string Explain(const v1::InspectOperationResponse& response, absl::Time now);

// A line for `watch`.
std::string WatchLine(const v1::Operation& operation, absl::Time now);

// What has been agreed for a namespace, as a reviewer reads it: the provider's rules beside what
// the service does about each.
std::string FormatContract(const v1::Namespace& policy);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_ON_CALL_TEXT_H_
