// The bytes of a record. They are a contract: whoever changes them gives the new layout a new
// format byte and goes on reading the old one. Values are written as byte_io.h says.
//
//   stored     := format payload fixed32(crc32 of format and payload, as zlib computes it)
//   format     := 0x01 | 0x11; the low four bits are the version of the layout, the high four how
//                 response and progress are kept: 0 plain, 1 sealed
//   payload    := heads identity times [provider_request_id: bytes] [terms] [unknown] [earlier]
//                 [labels] [progress: bytes] [response: bytes] [resolution_content: digest]
//                 ended history
//                 In format 0x11 `progress` and `response` are left out, and [sealed] stands in
//                 their place: seal.h's of (plain), bound to (bound)
//   sealed     := bytes(key id) salt: 16 bytes, bytes(sealed plain)
//   plain      := [progress: bytes] [response: bytes], at least one of them
//   bound      := format bytes(key id) bytes(stored key) varint(token)
//   heads      := byte(state | verdict << 3 | resolution << 5) flags: varint
//   identity   := varint(token) varint(changes) [varint(attempt)] [attempt_id: digest]
//                 [fingerprint: bytes(algorithm) bytes(digest)]
//                 [worker: bytes] [operation_ref: bytes] [traceparent: bytes]
//   times      := signed(create_time) [acquire] [lease_expire] [complete] [response_expire]
//                 [update] [forget], each as [time] below
//   terms      := byte(unknown_outcome | which << 2) [signed(protection_window)]
//                 [varint(max_attempts)] [signed(initial_backoff)] [signed(max_backoff)]
//                 [signed(settle)] [signed(retention)]
//   unknown, earlier
//              := head: varint [signed(attempt - the record's)] [since: time]
//                 [next_attempt: time]
//   labels     := varint(count) (bytes(name) bytes(value)) * count
//   ended      := varint(count) (head: varint varint(the record's token - token)
//                 [signed(attempt - the record's)] [attempt_id: digest] [content: digest]) * count
//   history    := varint(count) (head: varint [signed(attempt - the one before)] [time]
//                 [actor: bytes] [detail: bytes] [provider_request_id: bytes]) * count
//   digest     := fixed64(high) fixed64(low)
//   time       := signed(the time - the expected one), in milliseconds modulo 2^64
//
// What stands in brackets is there where the flags or the head before it say so. They say it
// where a value is not the usual one: what is usual (a time that follows from others, an actor
// who is the owner) takes no bytes. Every flag and head is a function of the record, so that a
// record has one plain encoding; the decoder computes them again from what it has read and refuses
// bytes whose own differ, which covers unknown bits and values that need not be there.
#include "keystore/codec/record_codec.h"

#include <zlib.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "keystore/codec/byte_io.h"
#include "keystore/core/invariants.h"
#include "keystore/core/limits.h"

namespace idempotency::keystore {
namespace {

using core::Digest;
using core::Duration;
using core::EndedAttempt;
using core::Event;
using core::IsSet;
using core::Record;
using core::State;
using core::Terms;
using core::Time;
using core::Unknown;

constexpr uint8_t kFormatPlain1 = 0x01;
constexpr uint8_t kFormatSealed1 = 0x11;
constexpr size_t kCrcBytes = 4;

// --- What takes no bytes. Frozen with the format: today's defaults, whatever they become. ---
constexpr Terms kUsualTerms{.unknown_outcome = core::UnknownOutcome::kReconcileFirst,
                            .protection_window = Duration(0),
                            .max_attempts = 0,
                            .initial_backoff = std::chrono::seconds(1),
                            .max_backoff = std::chrono::minutes(5),
                            .settle = std::chrono::seconds(60),
                            .retention = std::chrono::hours(24)};
constexpr Duration kUsualLease = std::chrono::seconds(30);
constexpr Duration kUsualRetention = std::chrono::hours(24);
constexpr Duration kUsualExpiredMemory = 30 * std::chrono::hours(24);
constexpr Duration kUsualFreedMemory = std::chrono::minutes(10);
constexpr uint32_t kUsualAttempt = 1;

// --- Times ---------------------------------------------------------------------------------

// Modulo 2^64, so that every time there is has a difference to every other.
constexpr Time Plus(Time time, Duration span) {
  return Time(Duration(static_cast<int64_t>(static_cast<uint64_t>(time.time_since_epoch().count()) +
                                            static_cast<uint64_t>(span.count()))));
}
constexpr int64_t Minus(Time a, Time b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a.time_since_epoch().count()) -
                              static_cast<uint64_t>(b.time_since_epoch().count()));
}

// How a time is given, in two bits of the flags or head before it.
enum TimeCode : uint64_t { kNotSet = 0, kAsExpected = 1, kWritten = 2 };

constexpr uint64_t CodeOf(Time time, Time expected) {
  if (!IsSet(time)) return kNotSet;
  return time == expected ? kAsExpected : kWritten;
}

void PutTime(Time time, Time expected, ByteWriter& out) {
  if (CodeOf(time, expected) == kWritten) out.Signed(Minus(time, expected));
}

Time ReadTime(uint64_t code, Time expected, ByteReader& in) {
  if (code == kAsExpected) return expected;
  if (code == kWritten) return Plus(expected, Duration(in.Signed()));
  if (code != kNotSet) in.Fail();
  return Time{};
}

Time ExpectedLeaseExpire(const Record& record) { return Plus(record.acquire_time, kUsualLease); }

Time ExpectedResponseExpire(const Record& record) {
  return Plus(record.complete_time, kUsualRetention);
}

// Mostly a record has last been changed by what brought it into its state.
Time ExpectedUpdate(const Record& record) {
  switch (record.state) {
    case State::kPending:
      return record.acquire_time;
    case State::kComplete:
      return record.complete_time;
    case State::kUnresolved:
    case State::kFreed:
      return IsSet(record.lease_expire_time) ? record.lease_expire_time : record.create_time;
    case State::kExpired:
      return ExpectedResponseExpire(record);
  }
  return Time{};
}

Time ExpectedForget(const Record& record) {
  if (record.state == State::kFreed) return Plus(record.update_time, kUsualFreedMemory);
  const bool complete = IsSet(record.response_expire_time);
  return Plus(complete ? record.response_expire_time : record.update_time, kUsualExpiredMemory);
}

// --- Flags of a record: two-bit codes of times, and bits. The usual ones are low, so that a
// completed record mostly has two bytes of them. ----------------------------------------------
constexpr int kCompleteTimeAt = 0;
constexpr int kResponseExpireTimeAt = 2;
constexpr int kUpdateTimeAt = 4;
constexpr int kForgetTimeAt = 6;
constexpr uint64_t kFingerprint = 1 << 8;
constexpr uint64_t kWorker = 1 << 9;
constexpr uint64_t kOperationRef = 1 << 10;
constexpr uint64_t kTraceparent = 1 << 11;
constexpr uint64_t kProviderRequestId = 1 << 12;
constexpr uint64_t kResponse = 1 << 13;
constexpr int kAcquireTimeAt = 14;
constexpr int kLeaseExpireTimeAt = 16;
constexpr uint64_t kTerms = 1 << 18;
constexpr uint64_t kLabels = 1 << 19;
constexpr uint64_t kProgress = 1 << 20;
constexpr uint64_t kNotStarted = 1 << 21;
constexpr uint64_t kNotDispatched = 1 << 22;
constexpr uint64_t kUnknown = 1 << 23;
constexpr uint64_t kEarlier = 1 << 24;
constexpr uint64_t kAttempt = 1 << 25;
constexpr uint64_t kNoAttemptId = 1 << 26;
constexpr uint64_t kBodyOmitted = 1 << 27;
constexpr uint64_t kResolutionContent = 1 << 28;

constexpr uint64_t TimeCodeAt(uint64_t flags, int at) { return (flags >> at) & 3; }
constexpr uint64_t If(bool condition, uint64_t bits) { return condition ? bits : 0; }

uint64_t TimeFlagsOf(const Record& r) {
  return CodeOf(r.acquire_time, r.create_time) << kAcquireTimeAt |
         CodeOf(r.lease_expire_time, ExpectedLeaseExpire(r)) << kLeaseExpireTimeAt |
         CodeOf(r.complete_time, r.create_time) << kCompleteTimeAt |
         CodeOf(r.response_expire_time, ExpectedResponseExpire(r)) << kResponseExpireTimeAt |
         CodeOf(r.update_time, ExpectedUpdate(r)) << kUpdateTimeAt |
         CodeOf(r.forget_time, ExpectedForget(r)) << kForgetTimeAt;
}

uint64_t FlagsOf(const Record& r) {
  return TimeFlagsOf(r) | If(r.fingerprint.given(), kFingerprint) |
         If(!r.owner.worker.empty(), kWorker) | If(!r.owner.operation_ref.empty(), kOperationRef) |
         If(!r.owner.traceparent.empty(), kTraceparent) |
         If(!r.provider_request_id.empty(), kProviderRequestId) |
         If(r.response.bytes.present(), kResponse) | If(r.terms != kUsualTerms, kTerms) |
         If(!r.labels.empty(), kLabels) | If(r.progress.has_value(), kProgress) |
         If(!r.started, kNotStarted) | If(!r.dispatched, kNotDispatched) |
         If(r.unknown.has_value(), kUnknown) | If(r.earlier.has_value(), kEarlier) |
         If(r.attempt != kUsualAttempt, kAttempt) | If(r.attempt_id == Digest{}, kNoAttemptId) |
         If(r.response.body_omitted, kBodyOmitted) |
         If(r.resolution_content != Digest{}, kResolutionContent);
}

// --- Small parts -----------------------------------------------------------------------------

template <typename Enum>
Enum ToEnum(uint64_t number, Enum first, Enum last, ByteReader& in) {
  if (number >= static_cast<uint64_t>(first) && number <= static_cast<uint64_t>(last)) {
    return static_cast<Enum>(number);
  }
  in.Fail();
  return first;
}

void PutDigest(const Digest& digest, ByteWriter& out) {
  out.Fixed64(digest.high);
  out.Fixed64(digest.low);
}

Digest ReadDigest(ByteReader& in) {
  const uint64_t high = in.Fixed64();
  return Digest{high, in.Fixed64()};
}

std::string ReadString(ByteReader& in) { return std::string(in.Bytes()); }

void PutAttempt(uint32_t attempt, uint32_t base, ByteWriter& out) {
  out.Signed(int64_t{attempt} - int64_t{base});
}

uint32_t ReadAttempt(uint32_t base, ByteReader& in) {
  const int64_t difference = in.Signed();
  if (difference < -int64_t{base} ||
      difference > int64_t{std::numeric_limits<uint32_t>::max()} - int64_t{base}) {
    in.Fail();
    return 0;
  }
  return static_cast<uint32_t>(base + difference);
}

// How many elements follow, at most `limit`, so that nothing is made for a count that cannot be.
size_t ReadCount(size_t limit, ByteReader& in) {
  const uint64_t count = in.Varint();
  if (count > limit) {
    in.Fail();
    return 0;
  }
  return static_cast<size_t>(count);
}

// --- A text that is mostly empty or the same as another one: two bits in the head before it ---
enum TextCode : uint64_t { kTextEmpty = 0, kTextSame = 1, kTextWritten = 2 };

uint64_t CodeOf(std::string_view text, std::string_view other) {
  if (text.empty()) return kTextEmpty;
  return text == other ? kTextSame : kTextWritten;
}

void PutText(std::string_view text, std::string_view other, ByteWriter& out) {
  if (CodeOf(text, other) == kTextWritten) out.Bytes(text);
}

std::string ReadText(uint64_t code, std::string_view other, ByteReader& in) {
  if (code == kTextSame) return std::string(other);
  if (code == kTextWritten) return ReadString(in);
  if (code != kTextEmpty) in.Fail();
  return {};
}

// --- Terms -------------------------------------------------------------------------------------
constexpr uint64_t kUnknownOutcomeMask = 3;
constexpr uint64_t kProtectionWindow = 1 << 2;
constexpr uint64_t kMaxAttempts = 1 << 3;
constexpr uint64_t kInitialBackoff = 1 << 4;
constexpr uint64_t kMaxBackoff = 1 << 5;
constexpr uint64_t kSettle = 1 << 6;
constexpr uint64_t kRetention = 1 << 7;

uint64_t HeadOf(const Terms& t) {
  return (static_cast<uint64_t>(t.unknown_outcome) & kUnknownOutcomeMask) |
         If(t.protection_window != kUsualTerms.protection_window, kProtectionWindow) |
         If(t.max_attempts != kUsualTerms.max_attempts, kMaxAttempts) |
         If(t.initial_backoff != kUsualTerms.initial_backoff, kInitialBackoff) |
         If(t.max_backoff != kUsualTerms.max_backoff, kMaxBackoff) |
         If(t.settle != kUsualTerms.settle, kSettle) |
         If(t.retention != kUsualTerms.retention, kRetention);
}

void PutTerms(const Terms& terms, ByteWriter& out) {
  const uint64_t head = HeadOf(terms);
  out.Byte(static_cast<uint8_t>(head));
  if (head & kProtectionWindow) out.Signed(terms.protection_window.count());
  if (head & kMaxAttempts) out.Varint(terms.max_attempts);
  if (head & kInitialBackoff) out.Signed(terms.initial_backoff.count());
  if (head & kMaxBackoff) out.Signed(terms.max_backoff.count());
  if (head & kSettle) out.Signed(terms.settle.count());
  if (head & kRetention) out.Signed(terms.retention.count());
}

Terms ReadTerms(ByteReader& in) {
  Terms terms = kUsualTerms;
  const uint64_t head = in.Byte();
  terms.unknown_outcome = ToEnum(head & kUnknownOutcomeMask, core::UnknownOutcome::kReconcileFirst,
                                 core::UnknownOutcome::kRerun, in);
  if (head & kProtectionWindow) terms.protection_window = Duration(in.Signed());
  if (head & kMaxAttempts) terms.max_attempts = in.Varint32();
  if (head & kInitialBackoff) terms.initial_backoff = Duration(in.Signed());
  if (head & kMaxBackoff) terms.max_backoff = Duration(in.Signed());
  if (head & kSettle) terms.settle = Duration(in.Signed());
  if (head & kRetention) terms.retention = Duration(in.Signed());
  if (HeadOf(terms) != head) in.Fail();
  return terms;
}

// --- Unknown -------------------------------------------------------------------------------------
constexpr uint64_t kCauseMask = 7;
constexpr int kSinceAt = 3;
constexpr int kNextAttemptTimeAt = 5;
constexpr uint64_t kUnknownReconcileFirst = 1 << 7;
constexpr uint64_t kUnknownAttempt = 1 << 8;

// `record` is what the unknown belongs to; everything before `unknown` in it must be set.
uint64_t HeadOf(const Unknown& u, const Record& record) {
  const Time next = Plus(u.since, kUsualTerms.initial_backoff);
  return (static_cast<uint64_t>(u.cause) & kCauseMask) |
         CodeOf(u.since, record.lease_expire_time) << kSinceAt |
         CodeOf(u.next_attempt_time, next) << kNextAttemptTimeAt |
         If(u.reconcile_first, kUnknownReconcileFirst) |
         If(u.attempt != record.attempt, kUnknownAttempt);
}

void PutUnknown(const Unknown& unknown, const Record& record, ByteWriter& out) {
  const uint64_t head = HeadOf(unknown, record);
  out.Varint(head);
  if (head & kUnknownAttempt) PutAttempt(unknown.attempt, record.attempt, out);
  PutTime(unknown.since, record.lease_expire_time, out);
  PutTime(unknown.next_attempt_time, Plus(unknown.since, kUsualTerms.initial_backoff), out);
}

Unknown ReadUnknown(const Record& record, ByteReader& in) {
  const uint64_t head = in.Varint();
  Unknown unknown;
  unknown.cause = ToEnum(head & kCauseMask, core::UnresolvedCause::kNone,
                         core::UnresolvedCause::kLeaseLapsed, in);
  unknown.reconcile_first = (head & kUnknownReconcileFirst) != 0;
  unknown.attempt =
      (head & kUnknownAttempt) != 0 ? ReadAttempt(record.attempt, in) : record.attempt;
  unknown.since = ReadTime(TimeCodeAt(head, kSinceAt), record.lease_expire_time, in);
  unknown.next_attempt_time = ReadTime(TimeCodeAt(head, kNextAttemptTimeAt),
                                       Plus(unknown.since, kUsualTerms.initial_backoff), in);
  if (HeadOf(unknown, record) != head) in.Fail();
  return unknown;
}

// --- Ended attempts ------------------------------------------------------------------------------
constexpr uint64_t kEndVerbMask = 7;
constexpr uint64_t kEvidence = 1 << 3;
constexpr uint64_t kEndedAttempt = 1 << 4;
constexpr uint64_t kEndedAttemptId = 1 << 5;
constexpr uint64_t kEndedContent = 1 << 6;

uint64_t HeadOf(const EndedAttempt& ended, const Record& record) {
  return (static_cast<uint64_t>(ended.verb) & kEndVerbMask) | If(ended.evidence, kEvidence) |
         If(ended.attempt != record.attempt, kEndedAttempt) |
         If(ended.attempt_id != record.attempt_id, kEndedAttemptId) |
         If(ended.content != Digest{}, kEndedContent);
}

void PutEnded(const EndedAttempt& ended, const Record& record, ByteWriter& out) {
  const uint64_t head = HeadOf(ended, record);
  out.Varint(head);
  out.Varint(record.token - ended.token);
  if (head & kEndedAttempt) PutAttempt(ended.attempt, record.attempt, out);
  if (head & kEndedAttemptId) PutDigest(ended.attempt_id, out);
  if (head & kEndedContent) PutDigest(ended.content, out);
}

EndedAttempt ReadEnded(const Record& record, ByteReader& in) {
  const uint64_t head = in.Varint();
  EndedAttempt ended;
  ended.verb =
      ToEnum(head & kEndVerbMask, core::EndVerb::kLapsed, core::EndVerb::kMarkedUnresolved, in);
  ended.evidence = (head & kEvidence) != 0;
  ended.token = record.token - in.Varint();
  ended.attempt = (head & kEndedAttempt) != 0 ? ReadAttempt(record.attempt, in) : record.attempt;
  ended.attempt_id = (head & kEndedAttemptId) != 0 ? ReadDigest(in) : record.attempt_id;
  if (head & kEndedContent) ended.content = ReadDigest(in);
  if (HeadOf(ended, record) != head) in.Fail();
  return ended;
}

// --- Events
// ---------------------------------------------------------------------------------------- The
// usual ones are low: an acquisition takes one byte, a completion two.
constexpr uint64_t kEventKindMask = 15;
constexpr int kEventTimeAt = 4;
constexpr uint64_t kActorNotWorker = 1 << 6;
constexpr int kEventProviderRequestIdAt = 7;
constexpr uint64_t kDetail = 1 << 9;
constexpr uint64_t kEventAttempt = 1 << 10;

// The time of an event, in two bits of its head; the first that fits.
enum EventTimeCode : uint64_t {
  kTimeOfPrevious = 0,
  kTimeOfCompletion = 1,
  kTimeOfUpdate = 2,
  kTimeWritten = 3,
};

// What an event is told apart from: the one before it, or the beginning of the operation.
struct EventBase {
  Time time;
  uint32_t attempt = kUsualAttempt;
};

uint64_t TimeCodeOf(const Event& event, const EventBase& base, const Record& record) {
  if (event.time == base.time) return kTimeOfPrevious;
  if (event.time == record.complete_time) return kTimeOfCompletion;
  return event.time == record.update_time ? kTimeOfUpdate : kTimeWritten;
}

uint64_t HeadOf(const Event& event, const EventBase& base, const Record& record) {
  return (static_cast<uint64_t>(event.kind) & kEventKindMask) |
         TimeCodeOf(event, base, record) << kEventTimeAt |
         If(event.actor != record.owner.worker, kActorNotWorker) |
         CodeOf(event.provider_request_id, record.provider_request_id)
             << kEventProviderRequestIdAt |
         If(!event.detail.empty(), kDetail) | If(event.attempt != base.attempt, kEventAttempt);
}

void PutEvent(const Event& event, const EventBase& base, const Record& record, ByteWriter& out) {
  const uint64_t head = HeadOf(event, base, record);
  out.Varint(head);
  if (head & kEventAttempt) PutAttempt(event.attempt, base.attempt, out);
  if (TimeCodeAt(head, kEventTimeAt) == kTimeWritten) out.Signed(Minus(event.time, base.time));
  if (head & kActorNotWorker) out.Bytes(event.actor);
  if (head & kDetail) out.Bytes(event.detail);
  PutText(event.provider_request_id, record.provider_request_id, out);
}

Time ReadEventTime(uint64_t code, const EventBase& base, const Record& record, ByteReader& in) {
  if (code == kTimeOfPrevious) return base.time;
  if (code == kTimeOfCompletion) return record.complete_time;
  if (code == kTimeOfUpdate) return record.update_time;
  return Plus(base.time, Duration(in.Signed()));
}

Event ReadEvent(const EventBase& base, const Record& record, ByteReader& in) {
  const uint64_t head = in.Varint();
  Event event;
  event.kind =
      ToEnum(head & kEventKindMask, core::EventKind::kAcquired, core::EventKind::kStartedOver, in);
  event.attempt = (head & kEventAttempt) != 0 ? ReadAttempt(base.attempt, in) : base.attempt;
  event.time = ReadEventTime(TimeCodeAt(head, kEventTimeAt), base, record, in);
  event.actor = (head & kActorNotWorker) != 0 ? ReadString(in) : record.owner.worker;
  if (head & kDetail) event.detail = ReadString(in);
  event.provider_request_id =
      ReadText((head >> kEventProviderRequestIdAt) & 3, record.provider_request_id, in);
  if (HeadOf(event, base, record) != head) in.Fail();
  return event;
}

// --- The parts of the payload, in their order
// --------------------------------------------------------

void PutHeads(const Record& record, uint64_t flags, ByteWriter& out) {
  out.Byte(static_cast<uint8_t>(static_cast<uint8_t>(record.state) |
                                static_cast<uint8_t>(record.verdict) << 3 |
                                static_cast<uint8_t>(record.resolution) << 5));
  out.Varint(flags);
}

// Returns the flags.
uint64_t ReadHeads(Record& record, ByteReader& in) {
  const uint8_t head = in.Byte();
  record.state = ToEnum(head & 7, State::kPending, State::kFreed, in);
  record.verdict = ToEnum((head >> 3) & 3, core::Verdict::kNone, core::Verdict::kAbandoned, in);
  record.resolution = ToEnum(head >> 5, core::Resolution::kNone, core::Resolution::kDeleted, in);
  const uint64_t flags = in.Varint();
  record.started = (flags & kNotStarted) == 0;
  record.dispatched = (flags & kNotDispatched) == 0;
  record.response.body_omitted = (flags & kBodyOmitted) != 0;
  return flags;
}

void PutIdentity(const Record& record, uint64_t flags, ByteWriter& out) {
  out.Varint(record.token);
  out.Varint(record.changes);
  if (flags & kAttempt) out.Varint(record.attempt);
  if (!(flags & kNoAttemptId)) PutDigest(record.attempt_id, out);
  if (flags & kFingerprint) {
    out.Bytes(record.fingerprint.algorithm);
    out.Bytes(record.fingerprint.digest);
  }
  if (flags & kWorker) out.Bytes(record.owner.worker);
  if (flags & kOperationRef) out.Bytes(record.owner.operation_ref);
  if (flags & kTraceparent) out.Bytes(record.owner.traceparent);
}

void ReadIdentity(Record& record, uint64_t flags, ByteReader& in) {
  record.token = in.Varint();
  record.changes = in.Varint();
  record.attempt = (flags & kAttempt) != 0 ? in.Varint32() : kUsualAttempt;
  if (!(flags & kNoAttemptId)) record.attempt_id = ReadDigest(in);
  if (flags & kFingerprint) {
    record.fingerprint.algorithm = ReadString(in);
    record.fingerprint.digest = ReadString(in);
  }
  if (flags & kWorker) record.owner.worker = ReadString(in);
  if (flags & kOperationRef) record.owner.operation_ref = ReadString(in);
  if (flags & kTraceparent) record.owner.traceparent = ReadString(in);
}

void PutTimes(const Record& record, ByteWriter& out) {
  out.Signed(Minus(record.create_time, Time{}));
  PutTime(record.acquire_time, record.create_time, out);
  PutTime(record.lease_expire_time, ExpectedLeaseExpire(record), out);
  PutTime(record.complete_time, record.create_time, out);
  PutTime(record.response_expire_time, ExpectedResponseExpire(record), out);
  PutTime(record.update_time, ExpectedUpdate(record), out);
  PutTime(record.forget_time, ExpectedForget(record), out);
}

// In the order of writing: what a time is expected to be depends on those before it.
void ReadTimes(Record& record, uint64_t flags, ByteReader& in) {
  record.create_time = Plus(Time{}, Duration(in.Signed()));
  record.acquire_time = ReadTime(TimeCodeAt(flags, kAcquireTimeAt), record.create_time, in);
  record.lease_expire_time =
      ReadTime(TimeCodeAt(flags, kLeaseExpireTimeAt), ExpectedLeaseExpire(record), in);
  record.complete_time = ReadTime(TimeCodeAt(flags, kCompleteTimeAt), record.create_time, in);
  record.response_expire_time =
      ReadTime(TimeCodeAt(flags, kResponseExpireTimeAt), ExpectedResponseExpire(record), in);
  record.update_time = ReadTime(TimeCodeAt(flags, kUpdateTimeAt), ExpectedUpdate(record), in);
  record.forget_time = ReadTime(TimeCodeAt(flags, kForgetTimeAt), ExpectedForget(record), in);
}

void PutLabels(const core::Labels& labels, ByteWriter& out) {
  out.Varint(labels.size());
  for (const auto& [name, value] : labels) {
    out.Bytes(name);
    out.Bytes(value);
  }
}

core::Labels ReadLabels(ByteReader& in) {
  core::Labels labels;
  const size_t count = ReadCount(in.left(), in);
  for (size_t i = 0; i < count && in.ok(); ++i) {
    std::string name = ReadString(in);
    labels.emplace_back(std::move(name), ReadString(in));
  }
  return labels;
}

// --- What is sealed ------------------------------------------------------------------------------

constexpr uint64_t kSealable = kProgress | kResponse;

void PutSealable(const Record& record, uint64_t flags, ByteWriter& out) {
  if (flags & kProgress) out.Bytes(*record.progress);
  if (flags & kResponse) out.Bytes(record.response.bytes.view());
}

void ReadSealable(Record& record, uint64_t flags, ByteReader& in) {
  if (flags & kProgress) record.progress = ReadString(in);
  if (flags & kResponse) record.response.bytes = core::Blob(ReadString(in));
}

std::string BoundTo(std::string_view key_id, std::string_view stored_key, uint64_t token) {
  std::string bound;
  ByteWriter out(&bound);
  out.Byte(kFormatSealed1);
  out.Bytes(key_id);
  out.Bytes(stored_key);
  out.Varint(token);
  return bound;
}

[[nodiscard]] bool PutSealed(const Record& record, uint64_t flags, const Sealing& sealing,
                             ByteWriter& out) {
  std::string plain;
  ByteWriter sealable(&plain);
  PutSealable(record, flags, sealable);
  std::string sealed;
  const std::string bound = BoundTo(sealing.key.id, sealing.stored_key, record.token);
  if (!Seal(sealing.key, sealing.salt, bound, plain, &sealed)) return false;
  out.Bytes(sealing.key.id);
  out.Raw(sealing.salt);
  out.Bytes(sealed);
  return true;
}

// What a reader of records brings, and what it is told.
struct Opening {
  uint8_t format = kFormatPlain1;
  std::string_view stored_key;
  const SealKeys* keys = nullptr;
  std::string_view key_id;
  bool key_missing = false;
};

void ReadSealed(Record& record, uint64_t flags, Opening& opening, ByteReader& in) {
  opening.key_id = in.Bytes();
  const std::string_view salt = in.Raw(kSealSaltBytes);
  const std::string_view sealed = in.Bytes();
  if (!in.ok() || opening.key_id.empty() || opening.key_id.size() > kMaxSealKeyIdBytes ||
      (flags & kSealable) == 0) {
    return in.Fail();
  }
  const std::optional<SealKey> key = opening.keys->Find(opening.key_id);
  opening.key_missing = !key.has_value();
  if (opening.key_missing) {
    // So that the flags are those of the record until they have been compared.
    if (flags & kProgress) record.progress.emplace();
    if (flags & kResponse) record.response.bytes = core::Blob(std::string());
    return;
  }
  const std::optional<std::string> plain =
      Unseal(*key, salt, BoundTo(opening.key_id, opening.stored_key, record.token), sealed);
  if (!plain.has_value()) return in.Fail();
  ByteReader sealable(*plain);
  ReadSealable(record, flags, sealable);
  if (!sealable.ok() || !sealable.AtEnd()) in.Fail();
}

void GiveUpSealed(uint64_t flags, Record& record) {
  record.progress.reset();
  if ((flags & kResponse) == 0) return;
  record.response = core::Response{.bytes = core::Blob(), .body_omitted = true};
}

// --- The rest ------------------------------------------------------------------------------------

[[nodiscard]] bool PutContent(const Record& record, uint64_t flags, const Sealing* sealing,
                              ByteWriter& out) {
  if (flags & kProviderRequestId) out.Bytes(record.provider_request_id);
  if (flags & kTerms) PutTerms(record.terms, out);
  if (flags & kUnknown) PutUnknown(*record.unknown, record, out);
  if (flags & kEarlier) PutUnknown(*record.earlier, record, out);
  if (flags & kLabels) PutLabels(record.labels, out);
  if (sealing == nullptr) {
    PutSealable(record, flags, out);
  } else if (!PutSealed(record, flags, *sealing, out)) {
    return false;
  }
  if (flags & kResolutionContent) PutDigest(record.resolution_content, out);
  return true;
}

void ReadContent(Record& record, uint64_t flags, Opening& opening, ByteReader& in) {
  if (flags & kProviderRequestId) record.provider_request_id = ReadString(in);
  record.terms = (flags & kTerms) != 0 ? ReadTerms(in) : kUsualTerms;
  if (flags & kUnknown) record.unknown = ReadUnknown(record, in);
  if (flags & kEarlier) record.earlier = ReadUnknown(record, in);
  if (flags & kLabels) record.labels = ReadLabels(in);
  if (opening.format == kFormatSealed1) {
    ReadSealed(record, flags, opening, in);
  } else {
    ReadSealable(record, flags, in);
  }
  if (flags & kResolutionContent) record.resolution_content = ReadDigest(in);
}

void PutPast(const Record& record, ByteWriter& out) {
  out.Varint(record.ended.size());
  for (const EndedAttempt& ended : record.ended) PutEnded(ended, record, out);
  out.Varint(record.history.size());
  EventBase base{record.create_time, kUsualAttempt};
  for (const Event& event : record.history) {
    PutEvent(event, base, record, out);
    base = EventBase{event.time, event.attempt};
  }
}

void ReadPast(Record& record, ByteReader& in) {
  const size_t ended = ReadCount(core::kMaxEndedAttempts, in);
  record.ended.reserve(ended);
  for (size_t i = 0; i < ended && in.ok(); ++i) record.ended.push_back(ReadEnded(record, in));
  const size_t events = ReadCount(core::kMaxHistoryEvents, in);
  record.history.reserve(events);
  EventBase base{record.create_time, kUsualAttempt};
  for (size_t i = 0; i < events && in.ok(); ++i) {
    record.history.push_back(ReadEvent(base, record, in));
    base = EventBase{record.history.back().time, record.history.back().attempt};
  }
}

uint32_t Crc(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

// From the format byte up to the checksum, or nullopt where that is wrong.
std::optional<std::string_view> Unwrap(std::string_view bytes) {
  if (bytes.size() < 1 + kCrcBytes) return std::nullopt;
  const std::string_view covered = bytes.substr(0, bytes.size() - kCrcBytes);
  ByteReader crc(bytes.substr(covered.size()));
  if (crc.Fixed32() != Crc(covered)) return std::nullopt;
  return covered;
}

// `sealing` may be null.
[[nodiscard]] bool Encode(const Record& record, const Sealing* sealing, std::string* out) {
  const size_t start = out->size();
  // Enough for most records, so that they are not copied while they grow.
  out->reserve(start + 256 + record.response.bytes.view().size());
  const uint64_t flags = FlagsOf(record);
  if ((flags & kSealable) == 0) sealing = nullptr;
  ByteWriter writer(out);
  writer.Byte(sealing == nullptr ? kFormatPlain1 : kFormatSealed1);
  PutHeads(record, flags, writer);
  PutIdentity(record, flags, writer);
  PutTimes(record, writer);
  if (!PutContent(record, flags, sealing, writer)) {
    out->resize(start);
    return false;
  }
  PutPast(record, writer);
  writer.Fixed32(Crc(std::string_view(*out).substr(start)));
  return true;
}

// `payload` is what is behind the format byte; `record` is new.
[[nodiscard]] bool Decode(std::string_view payload, Opening& opening, Record& record) {
  ByteReader reader(payload);
  const uint64_t flags = ReadHeads(record, reader);
  ReadIdentity(record, flags, reader);
  ReadTimes(record, flags, reader);
  ReadContent(record, flags, opening, reader);
  ReadPast(record, reader);
  if (!reader.ok() || !reader.AtEnd() || FlagsOf(record) != flags) return false;
  if (!core::BrokenRule(record).empty()) return false;
  if (opening.key_missing) GiveUpSealed(flags, record);
  return true;
}

}  // namespace

void EncodeRecord(const Record& record, std::string* out) {
  // Only sealing can fail.
  static_cast<void>(Encode(record, nullptr, out));
}

bool IsSealable(const Record& record) {
  return record.progress.has_value() || record.response.bytes.present();
}

bool SealRecord(const Record& record, const Sealing& sealing, std::string* out) {
  return Encode(record, &sealing, out);
}

std::optional<Record> DecodeRecord(std::string_view bytes) noexcept {
  const std::optional<std::string_view> covered = Unwrap(bytes);
  if (!covered.has_value()) return std::nullopt;
  if (static_cast<uint8_t>(covered->front()) != kFormatPlain1) return std::nullopt;
  Opening opening;
  std::optional<Record> record(std::in_place);
  if (!Decode(covered->substr(1), opening, *record)) record.reset();
  return record;
}

std::optional<OpenedRecord> OpenRecord(std::string_view bytes, std::string_view stored_key,
                                       const SealKeys& keys) noexcept {
  const std::optional<std::string_view> covered = Unwrap(bytes);
  if (!covered.has_value()) return std::nullopt;
  Opening opening{
      .format = static_cast<uint8_t>(covered->front()), .stored_key = stored_key, .keys = &keys};
  if (opening.format != kFormatPlain1 && opening.format != kFormatSealed1) return std::nullopt;
  std::optional<OpenedRecord> opened(std::in_place);
  if (!Decode(covered->substr(1), opening, opened->record)) return std::nullopt;
  opened->key_id = opening.key_id;
  opened->key_missing = opening.key_missing;
  return opened;
}

}  // namespace idempotency::keystore
