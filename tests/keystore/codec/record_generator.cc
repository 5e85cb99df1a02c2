#include "tests/keystore/codec/record_generator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <set>
#include <utility>

#include "keystore/core/invariants.h"
#include "keystore/core/limits.h"

namespace idempotency::keystore {
namespace {

using core::Digest;
using core::Duration;
using core::EndedAttempt;
using core::Event;
using core::Record;
using core::State;
using core::Terms;
using core::Time;
using core::Unknown;

constexpr Time kSomeDay{Duration{1'790'000'000'000}};

// Any two times and spans: modulo 2^64 instead of overflowing.
Time Plus(Time time, Duration span) {
  return Time(Duration(static_cast<int64_t>(static_cast<uint64_t>(time.time_since_epoch().count()) +
                                            static_cast<uint64_t>(span.count()))));
}

template <typename Enum>
Enum EnumBetween(RecordGenerator& generator, Enum first, Enum last) {
  const auto low = static_cast<uint64_t>(first);
  return static_cast<Enum>(low + generator.Below(static_cast<uint64_t>(last) - low + 1));
}

}  // namespace

std::string RecordGenerator::Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random_());
  return bytes;
}

std::string RecordGenerator::Text() {
  constexpr std::array<size_t, 10> kSizes = {0, 0, 0, 1, 2, 36, 127, 128, 255, 1024};
  return Bytes(kSizes[Below(kSizes.size())]);
}

std::string RecordGenerator::TextOr(const std::string& other) { return OneIn(2) ? other : Text(); }

Digest RecordGenerator::SomeDigest() {
  if (OneIn(4)) return Digest{};
  if (OneIn(4)) return Digest{0, random_()};
  return Digest{random_(), random_()};
}

Digest RecordGenerator::DigestOr(const Digest& other) { return OneIn(2) ? other : SomeDigest(); }

uint32_t RecordGenerator::Number() {
  constexpr uint32_t kMax = std::numeric_limits<uint32_t>::max();
  constexpr std::array<uint32_t, 9> kNumbers = {0, 1, 1, 2, 127, 128, 16384, kMax - 1, kMax};
  return OneIn(4) ? static_cast<uint32_t>(random_()) : kNumbers[Below(kNumbers.size())];
}

uint64_t RecordGenerator::Token() {
  constexpr std::array<uint64_t, 6> kTokens = {
      1, 127, 128, uint64_t{1} << 32, core::kMaxFencingToken - 1, core::kMaxFencingToken};
  if (OneIn(2)) return kTokens[Below(kTokens.size())];
  return 1 + Below(core::kMaxFencingToken);
}

Duration RecordGenerator::SomeDuration() {
  constexpr std::array<Duration, 10> kDurations = {
      Duration(0),           Duration(1),          std::chrono::seconds(1),
      std::chrono::hours(1), core::kDay,           30 * core::kDay,
      core::kFreedMemory,    std::chrono::days(7), core::kMaxPolicyDuration,
      Duration::max()};
  if (OneIn(16)) return Duration(static_cast<int64_t>(random_()));
  return kDurations[Below(kDurations.size())];
}

Time RecordGenerator::TimeNear(Time other) {
  switch (Below(8)) {
    case 0:
      return Time{};
    case 1:
    case 2:
      return other;
    case 3:
      return Plus(other, core::kDay);
    case 4:
      return Plus(other, SomeDuration());
    case 5:
      return Time(Duration(1 + static_cast<int64_t>(Below(10))));
    case 6:
      return OneIn(2) ? core::kMaxTime : Time::max();
    default:
      return OneIn(4) ? Time(Duration(static_cast<int64_t>(random_())))
                      : Plus(other, Duration(static_cast<int64_t>(Below(100'000))));
  }
}

Terms RecordGenerator::SomeTerms() {
  Terms terms;
  if (OneIn(2)) return terms;
  auto& [unknown_outcome, protection_window, max_attempts, initial_backoff, max_backoff, settle,
         retention] = terms;
  unknown_outcome =
      EnumBetween(*this, core::UnknownOutcome::kReconcileFirst, core::UnknownOutcome::kRerun);
  if (OneIn(2)) protection_window = SomeDuration();
  if (OneIn(2)) max_attempts = Number();
  if (OneIn(2)) initial_backoff = SomeDuration();
  if (OneIn(2)) max_backoff = SomeDuration();
  if (OneIn(2)) settle = SomeDuration();
  if (OneIn(2)) retention = SomeDuration();
  return terms;
}

Unknown RecordGenerator::SomeUnknown(const Record& record) {
  Unknown unknown;
  auto& [cause, attempt, since, next_attempt_time, reconcile_first] = unknown;
  cause = EnumBetween(*this, core::UnresolvedCause::kTimeout, core::UnresolvedCause::kLeaseLapsed);
  attempt = std::max(OneIn(2) ? record.attempt : Number(), 1u);
  since = TimeNear(OneIn(2) ? record.lease_expire_time : record.update_time);
  next_attempt_time = OneIn(3) ? Plus(since, std::chrono::seconds(1)) : TimeNear(since);
  reconcile_first = OneIn(2);
  return unknown;
}

EndedAttempt RecordGenerator::SomeEnded(const Record& record, uint64_t its_token) {
  EndedAttempt ended;
  auto& [token, attempt, attempt_id, verb, content, evidence] = ended;
  token = its_token;
  attempt = OneIn(2) ? record.attempt : Number();
  attempt_id = DigestOr(record.attempt_id);
  verb = EnumBetween(*this, core::EndVerb::kLapsed, core::EndVerb::kMarkedUnresolved);
  content = SomeDigest();
  evidence = OneIn(2);
  return ended;
}

Event RecordGenerator::SomeEvent(const Record& record) {
  Event event;
  auto& [kind, time, attempt, actor, detail, provider_request_id] = event;
  const std::array<Time, 3> bases = {record.create_time, record.complete_time, record.update_time};
  kind = EnumBetween(*this, core::EventKind::kAcquired, core::EventKind::kStartedOver);
  time = TimeNear(bases[Below(bases.size())]);
  attempt = OneIn(2) ? record.attempt : Number();
  actor = TextOr(record.owner.worker);
  detail = Text();
  provider_request_id = TextOr(record.provider_request_id);
  return event;
}

void RecordGenerator::FillPast(Record& record) {
  std::set<uint64_t> tokens;
  for (uint64_t n = Below(core::kMaxEndedAttempts); n > 0; --n) {
    if (record.token > 1) tokens.insert(1 + Below(record.token - 1));
  }
  if (record.state != State::kPending) tokens.insert(record.token);
  for (const uint64_t token : tokens) record.ended.push_back(SomeEnded(record, token));
  const uint64_t events = OneIn(4) ? core::kMaxHistoryEvents : Below(4);
  for (uint64_t n = events; n > 0; --n) record.history.push_back(SomeEvent(record));
}

// Takes out what a record in this state must not have, and adds what it must.
void RecordGenerator::Keep(Record& record) {
  const bool complete = record.state == State::kComplete;
  const bool ended = complete || record.state == State::kExpired;
  const bool pending = record.state == State::kPending;
  const bool unresolved = record.state == State::kUnresolved;
  if (!ended) record.verdict = core::Verdict::kNone;
  if (!ended) record.complete_time = Time{};
  if (!complete) record.response = core::Response{};
  if (!complete) record.response_expire_time = Time{};
  if (!unresolved) record.unknown.reset();
  if (!unresolved && !pending) record.earlier.reset();
  if (pending) record.resolution = core::Resolution::kNone;
  if (pending) record.forget_time = Time{};
  record.dispatched = record.dispatched || record.started;
  std::sort(record.labels.begin(), record.labels.end());
}

Record RecordGenerator::Draw() {
  Record record;
  // Every field by name: a new one does not compile until it is drawn here, too.
  auto& [state, token, attempt, attempt_id, changes, fingerprint, owner, labels, progress,
         create_time, update_time, acquire_time, lease_expire_time, started, dispatched, terms,
         unknown, earlier, provider_request_id, verdict, response, complete_time,
         response_expire_time, forget_time, resolution, resolution_content, ended, history] =
      record;
  state = EnumBetween(*this, State::kPending, State::kFreed);
  token = Token();
  attempt = Number();
  attempt_id = SomeDigest();
  changes = Number();
  fingerprint = core::Fingerprint{Text(), Text()};
  owner = core::Owner{Text(), Text(), Text()};
  for (uint64_t n = OneIn(2) ? 0 : Below(4); n > 0; --n) labels.emplace_back(Text(), Text());
  if (OneIn(2)) progress = Text();
  create_time = OneIn(4) ? TimeNear(kSomeDay) : kSomeDay;
  acquire_time = TimeNear(create_time);
  lease_expire_time =
      OneIn(4) ? Plus(acquire_time, std::chrono::seconds(30)) : TimeNear(acquire_time);
  started = OneIn(2);
  dispatched = OneIn(2);
  terms = SomeTerms();
  provider_request_id = Text();
  verdict = EnumBetween(*this, core::Verdict::kSucceeded, core::Verdict::kAbandoned);
  if (OneIn(2)) response.bytes = core::Blob(Text());
  response.body_omitted = OneIn(2);
  complete_time = TimeNear(create_time);
  response_expire_time = TimeNear(complete_time);
  update_time = TimeNear(OneIn(2) ? complete_time : lease_expire_time);
  forget_time = TimeNear(OneIn(2) ? response_expire_time : update_time);
  unknown = SomeUnknown(record);
  if (OneIn(2)) earlier = SomeUnknown(record);
  resolution = EnumBetween(*this, core::Resolution::kNone, core::Resolution::kDeleted);
  resolution_content = SomeDigest();
  Keep(record);
  FillPast(record);
  return record;
}

Record RecordGenerator::Next() {
  Record record = Draw();
  while (!core::BrokenRule(record).empty()) record = Draw();
  return record;
}

}  // namespace idempotency::keystore
