// One durable record per operation key: everything the service knows about an operation.
//
// A record is a plain value. It changes only through `Step` (transition.h), and is read
// only through `Observe`, which applies what time alone has changed since it was written.
// What must hold between the fields is in invariants.h; the bytes are in codec/record_codec.h.
#ifndef IDEMPOTENCY_KEYSTORE_CORE_RECORD_H_
#define IDEMPOTENCY_KEYSTORE_CORE_RECORD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keystore/core/policy.h"
#include "keystore/core/time.h"

namespace idempotency::core {

// Names one operation: exact bytes, three separate parts, compared without folding.
struct Key {
  std::string name_space;
  std::string scope;
  std::string key;

  friend bool operator==(const Key&, const Key&) = default;
  friend auto operator<=>(const Key&, const Key&) = default;
};

// 128 bits of a cryptographic digest, made at the edge; the core only compares them.
// All zero means "none".
struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  friend bool operator==(const Digest&, const Digest&) = default;
};

// Identifies the request that the key was first used for. Both empty: none was given.
struct Fingerprint {
  std::string algorithm;
  std::string digest;

  bool given() const { return !algorithm.empty() || !digest.empty(); }
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// Who is working on the operation.
struct Owner {
  std::string worker;
  std::string operation_ref;
  std::string traceparent;

  friend bool operator==(const Owner&, const Owner&) = default;
};

// Immutable bytes that many answers share without copying. Compared by content.
class Blob {
 public:
  Blob() = default;
  explicit Blob(std::string bytes)
      : bytes_(std::make_shared<const std::string>(std::move(bytes))) {}

  // False where nothing is stored, which is not the same as storing no bytes.
  bool present() const { return bytes_ != nullptr; }
  std::string_view view() const { return bytes_ == nullptr ? std::string_view() : *bytes_; }

  friend bool operator==(const Blob& a, const Blob& b) {
    return a.present() == b.present() && a.view() == b.view();
  }

 private:
  std::shared_ptr<const std::string> bytes_;
};

// The answer to replay: a serialized idempotency.v1.CachedResponse, opaque here.
struct Response {
  Blob bytes;
  // The body was too large and is not in `bytes`: replaying needs a look-up elsewhere.
  bool body_omitted = false;

  friend bool operator==(const Response&, const Response&) = default;
};

// Numbers as in idempotency.v1.OperationState and on disk.
enum class State : uint8_t {
  kPending = 1,
  kComplete = 2,
  kUnresolved = 3,
  kExpired = 4,
  kFreed = 5,
};

// Numbers as in idempotency.v1.Verdict and on disk; kNone until it has ended.
enum class Verdict : uint8_t { kNone = 0, kSucceeded = 1, kFailed = 2, kAbandoned = 3 };

// Numbers as in idempotency.v1.UnresolvedCause and on disk.
enum class UnresolvedCause : uint8_t {
  kNone = 0,
  kTimeout = 1,
  kConnectionLost = 2,
  kServerError = 3,
  kOwnerCancelled = 4,
  kOther = 5,
  kLeaseLapsed = 6,
};

// How an attempt ended. Numbers are stored.
enum class EndVerb : uint8_t {
  kLapsed = 1,
  kCompleted = 2,
  kReleased = 3,
  // Released by a retried attempt: the earlier attempt's unknown outcome stands.
  kReleasedUnknown = 4,
  kMarkedUnresolved = 5,
};

// What settled the operation over its owner's head, since its newest acquisition. Stored.
enum class Resolution : uint8_t {
  kNone = 0,
  kCompleted = 1,
  kNotExecuted = 2,
  kAbandoned = 3,
  // An operator deleted it: only what late messages need is left.
  kDeleted = 4,
};

// What answers late and repeated messages of an attempt that has ended.
struct EndedAttempt {
  uint64_t token = 0;
  uint32_t attempt = 0;
  Digest attempt_id;
  EndVerb verb = EndVerb::kLapsed;
  // Of what the verb reported; none for kLapsed.
  Digest content;
  // A LATE_COMPLETION of this token is in the history already.
  bool evidence = false;

  friend bool operator==(const EndedAttempt&, const EndedAttempt&) = default;
};

// Numbers as in idempotency.v1.EventKind and on disk.
enum class EventKind : uint8_t {
  kAcquired = 1,
  kDispatched = 2,
  kLeaseLapsed = 3,
  kMarkedUnresolved = 4,
  kCompleted = 5,
  kReleased = 6,
  kResolved = 7,
  kLateCompletion = 8,
  kStartedOver = 9,
};

struct Event {
  EventKind kind = EventKind::kAcquired;
  Time time;
  uint32_t attempt = 0;
  std::string actor;
  std::string detail;
  std::string provider_request_id;

  friend bool operator==(const Event&, const Event&) = default;
};

// What is not known, and what counts from when.
struct Unknown {
  UnresolvedCause cause = UnresolvedCause::kNone;
  uint32_t attempt = 0;
  // The earlier of when it was marked and when its lease ended: settle time and backoff count
  // from here, and (under RERUN) forgetting, where no later mark came.
  Time since;
  // Not before this is another attempt granted, whatever the policy's backoff.
  Time next_attempt_time;
  // No further attempt under any policy: somebody has to resolve it.
  bool reconcile_first = false;

  friend bool operator==(const Unknown&, const Unknown&) = default;
};

using Labels = std::vector<std::pair<std::string, std::string>>;  // sorted by name

struct Record {
  State state = State::kPending;
  // The newest token given for this key; never lower, whatever happens to the record.
  uint64_t token = 0;
  // Which attempt of the operation the newest counted one is, from 1.
  uint32_t attempt = 0;
  // Digest of the attempt_id that acquired last.
  Digest attempt_id;
  // Rises with every change, also with those that time alone makes. With `token` it is the etag.
  uint64_t changes = 0;

  Fingerprint fingerprint;
  Owner owner;
  Labels labels;
  std::optional<std::string> progress;

  // Acquisition of the first attempt of this operation.
  Time create_time;
  Time update_time;

  // PENDING ------------------------------------------------------------------------------
  Time acquire_time;
  // Kept after the lease ended, as the answer to an owner that still has to report.
  Time lease_expire_time;
  // Whether the call of the newest attempt may have started: false only under dispatch_later.
  bool started = false;
  // Whether the call of any attempt of this operation may have started.
  bool dispatched = false;

  // PENDING, UNRESOLVED, FREED by a lapse --------------------------------------------------
  Terms terms;
  // UNRESOLVED, and only then: what is not known.
  std::optional<Unknown> unknown;
  // What an earlier attempt had left unknown when the newest one was granted: the operation
  // comes back to it if the newest did nothing. PENDING and UNRESOLVED only.
  std::optional<Unknown> earlier;

  // The provider's own id of what it did, as reported last, in any state.
  std::string provider_request_id;

  // COMPLETE, EXPIRED ------------------------------------------------------------------------
  Verdict verdict = Verdict::kNone;
  Response response;
  Time complete_time;
  Time response_expire_time;

  // When the key is forgotten: COMPLETE, EXPIRED and FREED always, UNRESOLVED under RERUN.
  Time forget_time;

  Resolution resolution = Resolution::kNone;
  // Of what the resolution said.
  Digest resolution_content;

  // Oldest first; the newest kMaxEndedAttempts.
  std::vector<EndedAttempt> ended;
  // Oldest first; the first and the newest kMaxHistoryEvents - 1.
  std::vector<Event> history;

  friend bool operator==(const Record&, const Record&) = default;
};

using RecordPtr = std::shared_ptr<const Record>;

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_RECORD_H_
