// The API's messages as text for people. Pure: what time it is, is an argument.
#ifndef IDEMPOTENCY_CLIENT_CTL_FORMAT_H_
#define IDEMPOTENCY_CLIENT_CTL_FORMAT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/ctl/call_error.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::ctl {

// "payments acct-1 order-7": the words that name it on a command line, quoted.
std::string FormatId(const v1::OperationId& id);

// One field a line; only what is set. With the history below it, where there is one.
std::string FormatOperation(const v1::Operation& operation, absl::Time now);

// One row an operation.
std::string FormatOperationList(const std::vector<v1::Operation>& operations, absl::Time now);

// Token, end, attempt, progress.
std::string FormatLease(const v1::Lease& lease, absl::Time now);

// "COMPLETED: it has ended", and the fields that matter for this outcome.
std::string FormatReserve(const v1::ReserveResponse& response, const v1::OperationId& id,
                          const std::string& attempt_id, absl::Time now);

std::string FormatNamespaceList(const std::vector<v1::Namespace>& namespaces);
// All that is set, the provider's contract included.
std::string FormatNamespace(const v1::Namespace& policy);

// What went wrong, in the words of the server; ends with a newline.
std::string FormatError(const CallError& error, const std::string& verb, const std::string& server);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_FORMAT_H_
