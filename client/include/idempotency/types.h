// The words of the service as plain C++ values: what a caller of Client::Run sees. No gRPC and
// no Protocol Buffers type is needed to use them.
//
// Thread safety: values; copy them between threads as you like.
#ifndef IDEMPOTENCY_TYPES_H_
#define IDEMPOTENCY_TYPES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace idempotency {

using Duration = std::chrono::milliseconds;
using SystemTime = std::chrono::sys_time<Duration>;

// Names one logical operation. Exact bytes; nothing is trimmed or folded. The key is made and
// saved by the caller before the first try (keys.h), and always the same for the operation.
struct OperationId {
  std::string name_space;  // 1-64 bytes of [a-z0-9._-], starting with a letter
  std::string scope;       // 1-255 bytes: the account or tenant
  std::string key;         // 1-255 bytes

  friend bool operator==(const OperationId&, const OperationId&) = default;
};

// Identifies the request that the key is used for (fingerprint.h makes them).
struct Fingerprint {
  std::string algorithm;  // for example "sha256/jcs-1"
  std::string digest;     // 16-64 bytes

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

struct Owner {
  std::string worker;         // process or pod
  std::string operation_ref;  // the caller's own reference
  std::string traceparent;    // W3C trace context

  friend bool operator==(const Owner&, const Owner&) = default;
};

// Numbers of the enums below are those of idempotency.v1; 0 is never sent by a service that
// knows the caller's version. Treat a number you do not know as the most careful value.
enum class OperationState : uint8_t {
  kUnspecified = 0,
  kPending = 1,
  kComplete = 2,
  kUnresolved = 3,
  kExpired = 4,
  kFreed = 5,
};

enum class Verdict : uint8_t { kUnspecified = 0, kSucceeded = 1, kFailed = 2, kAbandoned = 3 };

enum class UnresolvedCause : uint8_t {
  kUnspecified = 0,
  kTimeout = 1,
  kConnectionLost = 2,
  kServerError = 3,
  kOwnerCancelled = 4,
  kOther = 5,
  kLeaseLapsed = 6,
};

enum class ReserveOutcome : uint8_t {
  kUnspecified = 0,
  kAcquired = 1,
  kAlreadyHeld = 2,
  kInProgress = 3,
  kCompleted = 4,
  kUnresolved = 5,
  kFingerprintMismatch = 6,
  kExpired = 7,
  kTooOld = 8,
};

enum class NextStep : uint8_t {
  kUnspecified = 0,
  kProceed = 1,
  kProceedUnlessStarted = 2,
  kReserveAgain = 3,
  kUseResponse = 4,
  kLookUpAnswer = 5,
  kReconcileFirst = 6,
  kSettleOtherFirst = 7,
  kUseOwnKey = 8,
  kStop = 9,
};

enum class ErrorReason : uint8_t {
  kUnspecified = 0,
  kInvalidField = 1,
  kNamespaceNotFound = 2,
  kOperationNotFound = 3,
  kAccessDenied = 4,
  kStaleFencingToken = 5,
  kUnknownFencingToken = 6,
  kLeaseLapsed = 7,
  kAlreadyComplete = 8,
  kAttemptFinished = 9,
  kOutcomeUnknown = 10,
  kLeaseLive = 11,
  kNotSettled = 12,
  kWrongState = 13,
  kEtagMismatch = 14,
  kQuotaExceeded = 15,
  kOverloaded = 16,
  kStoreFull = 17,
  kStoreUnavailable = 18,
  kRecordUnreadable = 19,
};

// "ACQUIRED", "USE_RESPONSE" ...: as in the API, without the prefix; "UNKNOWN" for others.
std::string_view Name(OperationState state);
std::string_view Name(Verdict verdict);
std::string_view Name(UnresolvedCause cause);
std::string_view Name(ReserveOutcome outcome);
std::string_view Name(NextStep step);
std::string_view Name(ErrorReason reason);

// The answer of the effect, byte for byte as its owner received it.
struct CachedResponse {
  struct HttpStatus {
    int code = 0;
    friend bool operator==(const HttpStatus&, const HttpStatus&) = default;
  };
  struct GrpcCode {
    int code = 0;
    friend bool operator==(const GrpcCode&, const GrpcCode&) = default;
  };

  std::variant<std::monostate, HttpStatus, GrpcCode> status;
  std::string status_message;
  std::string content_type;
  // Headers or trailing metadata worth replaying, in order, repeats allowed; values may be
  // binary. Credential-bearing names are never stored.
  std::vector<std::pair<std::string, std::string>> metadata;
  // Absent is not empty.
  std::optional<std::string> body;
  // The body was not kept, because it was too large.
  bool body_omitted = false;
  uint64_t body_size = 0;
  // Output only: some metadata was not kept.
  bool metadata_omitted = false;

  friend bool operator==(const CachedResponse&, const CachedResponse&) = default;
};

struct Lease {
  uint64_t fencing_token = 0;
  SystemTime expire_time;
  // What was left when the service answered; count it down from before the request was sent.
  Duration remaining{0};
  uint32_t attempt = 0;
  std::optional<std::string> progress;

  friend bool operator==(const Lease&, const Lease&) = default;
};

// What is known of an operation; unset where the service did not say.
struct Operation {
  OperationId id;
  OperationState state = OperationState::kUnspecified;
  Fingerprint fingerprint;
  Owner owner;
  std::vector<std::pair<std::string, std::string>> labels;
  uint32_t attempt = 0;
  bool dispatched = false;
  std::optional<SystemTime> create_time;
  std::optional<SystemTime> update_time;
  std::optional<SystemTime> lease_expire_time;
  std::optional<SystemTime> complete_time;
  std::optional<SystemTime> next_attempt_time;
  std::optional<SystemTime> protection_expire_time;
  Verdict verdict = Verdict::kUnspecified;
  UnresolvedCause unresolved_cause = UnresolvedCause::kUnspecified;
  std::string provider_request_id;
  std::optional<CachedResponse> response;
  std::string etag;

  friend bool operator==(const Operation&, const Operation&) = default;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_TYPES_H_
