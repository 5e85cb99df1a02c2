// What can be asked of one operation: plain values made at the edge, where everything that
// depends on the request alone (sizes, ranges, required fields) has been checked.
#ifndef IDEMPOTENCY_KEYSTORE_CORE_COMMAND_H_
#define IDEMPOTENCY_KEYSTORE_CORE_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "keystore/core/outcome.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::core {

struct ReserveCommand {
  Fingerprint fingerprint;
  Digest attempt_id;
  Duration lease{0};  // above zero, at most the policy's maximum
  Owner owner;
  Labels labels;
  std::optional<Duration> operation_age;
  bool dispatch_later = false;
  bool start_over = false;
  // Why a key that is not known yet must be refused (space, quota, key check, a namespace
  // taken out of the configuration), or kNone. Looked at only where nothing is recorded.
  Reason refuse_new = Reason::kNone;
};

struct RenewCommand {
  uint64_t token = 0;
  Duration lease{0};
  std::optional<std::string> progress;
  bool dispatched = false;
  std::optional<Owner> owner;
};

struct CompleteCommand {
  uint64_t token = 0;
  Verdict verdict = Verdict::kSucceeded;  // never kAbandoned
  Response response;
  std::string provider_request_id;
  std::optional<Duration> retention;
  // Of verdict, provider_request_id and the response as reported, before anything was cut.
  Digest content;
};

struct ReleaseCommand {
  uint64_t token = 0;
  std::string detail;
  Digest content;
};

struct MarkUnresolvedCommand {
  uint64_t token = 0;
  UnresolvedCause cause = UnresolvedCause::kOther;  // never kLeaseLapsed
  std::string detail;
  std::string provider_request_id;
  Duration retry_after{0};
  bool reconcile_first = false;
  Digest content;
};

struct GetCommand {
  Fingerprint fingerprint;
};

struct InspectCommand {};

struct ResolveCommand {
  Resolution resolution = Resolution::kCompleted;  // kCompleted, kNotExecuted or kAbandoned
  Verdict verdict = Verdict::kSucceeded;           // kCompleted: SUCCEEDED or FAILED
  Response response;                               // kCompleted
  std::string actor;
  std::string reason;
  std::string provider_request_id;
  std::string etag;  // empty: whatever is there
  // Of resolution, verdict, response and provider_request_id.
  Digest content;
};

struct DeleteCommand {
  bool force = false;
  std::string actor;
  std::string reason;
  std::string etag;
};

// From the sweeper: give back the space of a record that time has made absent.
struct ReclaimCommand {};

using Command = std::variant<ReserveCommand, RenewCommand, CompleteCommand, ReleaseCommand,
                             MarkUnresolvedCommand, GetCommand, InspectCommand, ResolveCommand,
                             DeleteCommand, ReclaimCommand>;

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_COMMAND_H_
