// Checks requests at the edge and turns them into core commands.
//
// Everything that depends on the request and its namespace's policy alone is decided here, with
// the limits of core/limits.h; what depends on records is the core's. A refusal names the field
// at fault, as a path from the request message, and says what would be accepted. It never
// repeats what was sent.
//
// Reporting how an attempt ended is another matter: the effect has happened, so only id, fencing
// token and verdict can refuse Complete, Release and MarkUnresolved. What else is over a limit
// is cut, dropped or clamped, and flagged where the API has a flag for it.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_VALIDATION_H_
#define IDEMPOTENCY_SERVICE_VALIDATION_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "google/protobuf/duration.pb.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "idempotency/v1/operation.pb.h"
#include "keystore/core/command.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/key_store.h"

namespace idempotency::service {

// Which field is at fault and what to send instead.
struct FieldError {
  std::string field;    // a path such as "id.key"
  std::string message;  // one sentence

  friend bool operator==(const FieldError&, const FieldError&) = default;
};

// A checked value, or the first fault found.
template <typename T>
class Checked {
 public:
  Checked(T value) : value_(std::move(value)) {}           // NOLINT: reads as `return value`
  Checked(FieldError error) : value_(std::move(error)) {}  // NOLINT: reads as `return error`

  bool ok() const { return std::holds_alternative<T>(value_); }
  // Only where ok().
  T& value() { return std::get<T>(value_); }
  const T& value() const { return std::get<T>(value_); }
  // Only where not ok().
  const FieldError& error() const { return std::get<FieldError>(value_); }

 private:
  std::variant<T, FieldError> value_;
};

// The parts of the id: sizes, characters, and what no policy can make optional. Takes them out of
// the id; one that is refused stays as it is.
Checked<core::Key> CheckId(v1::OperationId* id);

// Whether `name` is 1-64 bytes of [a-z0-9._-] starting with a letter.
std::optional<FieldError> CheckNamespaceName(std::string_view name, std::string_view field);

// Why `policy` would not let a new key be made of this id; nothing where it would. Asked only of
// Reserve, and it counts only where nothing is recorded: a stricter policy never cuts anybody
// off from what exists.
std::optional<FieldError> CheckNewKey(const core::Key& key, const core::Policy& policy);

// Takes fingerprint and owner out of the request.
Checked<core::ReserveCommand> CheckReserve(v1::ReserveRequest* request, const core::Policy& policy);
// Takes progress and owner out of the request.
Checked<core::RenewCommand> CheckRenew(v1::RenewRequest* request, const core::Policy& policy);
Checked<core::CompleteCommand> CheckComplete(const v1::CompleteRequest& request,
                                             const core::Policy& policy);
Checked<core::ReleaseCommand> CheckRelease(const v1::ReleaseRequest& request);
Checked<core::MarkUnresolvedCommand> CheckMarkUnresolved(const v1::MarkUnresolvedRequest& request);
// Takes the fingerprint out of the request.
Checked<core::GetCommand> CheckGet(v1::GetOperationRequest* request);
Checked<core::ResolveCommand> CheckResolve(const v1::ResolveOperationRequest& request,
                                           const core::Policy& policy);
Checked<core::DeleteCommand> CheckDelete(const v1::DeleteOperationRequest& request);

// Who decides, and why, of an administrative act: `reason_field` is where that stands.
std::optional<FieldError> CheckActorAndReason(std::string_view actor, std::string_view reason,
                                              std::string_view reason_field = "reason");

// How long Reserve or Get may wait: what was asked for, at most what the policy allows.
Checked<core::Duration> CheckWait(const google::protobuf::Duration& wait,
                                  const core::Policy& policy);

Checked<keystore::ListFilter> CheckListFilter(const v1::ListOperationsRequest& request);
// Unset: core::kDefaultPageSize; above core::kMaxPageSize: that; negative: refused.
Checked<size_t> CheckPageSize(int32_t page_size);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_VALIDATION_H_
