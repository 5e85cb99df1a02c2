// What a command is answered with. Expected answers are outcomes; a refusal says why the
// command had no effect (but for evidence of a late completion, which is written down).
#ifndef IDEMPOTENCY_KEYSTORE_CORE_OUTCOME_H_
#define IDEMPOTENCY_KEYSTORE_CORE_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::core {

// Numbers as in idempotency.v1.ErrorReason; kNone where nothing is wrong.
enum class Reason : uint8_t {
  kNone = 0,
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

// Numbers as in idempotency.v1.ReserveOutcome.
enum class ReserveOutcome : uint8_t {
  kAcquired = 1,
  kAlreadyHeld = 2,
  kInProgress = 3,
  kCompleted = 4,
  kUnresolved = 5,
  kFingerprintMismatch = 6,
  kExpired = 7,
  kTooOld = 8,
};

// Numbers as in idempotency.v1.NextStep.
enum class NextStep : uint8_t {
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

// For logs only: what is known of the operation that the command met, as it was before. Empty
// where nothing is stored. No part of what is answered, so any two are equal.
struct Met {
  std::string operation_ref;
  std::string traceparent;
  std::string provider_request_id;

  friend bool operator==(const Met&, const Met&) { return true; }
};

struct Refusal {
  Reason reason = Reason::kNone;
  // The field at fault as a path in the API, where one is ("fencing_token").
  std::string_view field;
  std::optional<Duration> retry_after;
  // A superseded owner reported a completion: to be counted and logged.
  bool late_completion = false;
  // Where the command is an owner's (but for Reserve) or an operator's.
  Met met = {};

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// What the acquirer holds. `remaining` is made when the answer is sent, from expire_time.
struct Lease {
  uint64_t token = 0;
  Time expire_time;
  uint32_t attempt = 0;
  std::optional<std::string> progress;

  friend bool operator==(const Lease&, const Lease&) = default;
};

struct ReserveAnswer {
  ReserveOutcome outcome = ReserveOutcome::kAcquired;
  NextStep next_step = NextStep::kProceed;
  std::optional<Lease> lease;
  // Null on kTooOld.
  RecordPtr operation;
  // Whether the caller may see response and digest.
  bool reveal = false;
  std::optional<Duration> retry_after;
};

struct RenewAnswer {
  Lease lease;
  Met met = {};
};

struct CompleteAnswer {
  RecordPtr operation;
  bool already_complete = false;
};

struct ReleaseAnswer {
  State state = State::kFreed;  // kFreed, or kUnresolved again
  Met met = {};
};

struct MarkUnresolvedAnswer {
  RecordPtr operation;
  NextStep next_step = NextStep::kReconcileFirst;
  std::optional<Duration> retry_after;
};

struct GetAnswer {
  RecordPtr operation;
  NextStep next_step = NextStep::kReconcileFirst;
  std::optional<Duration> retry_after;
  bool reveal = false;
};

struct InspectAnswer {
  RecordPtr operation;
  NextStep next_step = NextStep::kReconcileFirst;
  std::optional<Duration> retry_after;
};

struct ResolveAnswer {
  RecordPtr operation;
};

struct DeleteAnswer {
  Met met = {};
};

struct ReclaimAnswer {};

using Answer = std::variant<Refusal, ReserveAnswer, RenewAnswer, CompleteAnswer, ReleaseAnswer,
                            MarkUnresolvedAnswer, GetAnswer, InspectAnswer, ResolveAnswer,
                            DeleteAnswer, ReclaimAnswer>;

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_OUTCOME_H_
