#include "service/conversion.h"

#include <algorithm>
#include <variant>

#include "keystore/core/grant.h"
#include "keystore/core/transition.h"
#include "service/response.h"
#include "service/sentences.h"
#include "service/wire_time.h"

namespace idempotency::service {
namespace {

using core::NextStep;
using core::State;

// The core numbers its enums as the API does.
static_assert(static_cast<int>(State::kFreed) == v1::OPERATION_STATE_FREED);
static_assert(static_cast<int>(core::Verdict::kAbandoned) == v1::VERDICT_ABANDONED);
static_assert(static_cast<int>(core::UnresolvedCause::kLeaseLapsed) ==
              v1::UNRESOLVED_CAUSE_LEASE_LAPSED);
static_assert(static_cast<int>(core::EventKind::kStartedOver) == v1::EVENT_KIND_STARTED_OVER);
static_assert(static_cast<int>(core::ReserveOutcome::kTooOld) == v1::RESERVE_OUTCOME_TOO_OLD);
static_assert(static_cast<int>(NextStep::kStop) == v1::NEXT_STEP_STOP);
static_assert(static_cast<int>(core::Reason::kRecordUnreadable) ==
              v1::ERROR_REASON_RECORD_UNREADABLE);

v1::NextStep ToProto(NextStep next_step) { return static_cast<v1::NextStep>(next_step); }

void SetIfSet(core::Time time, google::protobuf::Timestamp* (v1::Operation::*field)(),
              v1::Operation* out) {
  if (core::IsSet(time)) SetTimestamp(time, (out->*field)());
}

// --- One record ---------------------------------------------------------------------------

void FillId(const core::Key& key, v1::OperationId* out) {
  out->set_namespace_(key.name_space);
  out->set_scope(key.scope);
  out->set_key(key.key);
}

void FillOwner(const core::Owner& owner, v1::Owner* out) {
  out->set_worker(owner.worker);
  out->set_operation_ref(owner.operation_ref);
  out->set_traceparent(owner.traceparent);
}

void FillHistory(const core::Record& record, v1::Operation* out) {
  for (const core::Event& event : record.history) {
    v1::Event* line = out->add_history();
    line->set_kind(static_cast<v1::EventKind>(event.kind));
    SetTimestamp(event.time, line->mutable_time());
    line->set_attempt(event.attempt);
    line->set_actor(event.actor);
    line->set_detail(event.detail);
    line->set_provider_request_id(event.provider_request_id);
  }
}

void FillTimes(const core::Record& record, v1::Operation* out) {
  SetIfSet(record.create_time, &v1::Operation::mutable_create_time, out);
  SetIfSet(record.update_time, &v1::Operation::mutable_update_time, out);
  SetIfSet(core::ProtectionExpireTime(record), &v1::Operation::mutable_protection_expire_time, out);
  switch (record.state) {
    case State::kPending:
      SetIfSet(record.lease_expire_time, &v1::Operation::mutable_lease_expire_time, out);
      break;
    case State::kComplete:
      SetIfSet(record.complete_time, &v1::Operation::mutable_complete_time, out);
      SetIfSet(record.response_expire_time, &v1::Operation::mutable_response_expire_time, out);
      SetIfSet(record.forget_time, &v1::Operation::mutable_forget_time, out);
      break;
    case State::kExpired:
      SetIfSet(record.complete_time, &v1::Operation::mutable_complete_time, out);
      SetIfSet(record.forget_time, &v1::Operation::mutable_forget_time, out);
      break;
    case State::kFreed:
      SetIfSet(record.forget_time, &v1::Operation::mutable_forget_time, out);
      break;
    case State::kUnresolved:
      break;
  }
}

// What is known of the effect.
void FillOutcome(const core::Record& record, v1::Operation* out) {
  out->set_verdict(static_cast<v1::Verdict>(record.verdict));
  out->set_provider_request_id(record.provider_request_id);
  if (!record.unknown) return;
  out->set_unresolved_cause(static_cast<v1::UnresolvedCause>(record.unknown->cause));
}

// All that somebody with another fingerprint may know.
void FillMismatch(const core::Key& key, const core::Record& record, v1::Operation* out) {
  FillId(key, out->mutable_id());
  out->set_state(static_cast<v1::OperationState>(record.state));
  if (record.fingerprint.given()) {
    out->mutable_fingerprint()->set_algorithm(record.fingerprint.algorithm);
  }
  SetIfSet(record.update_time, &v1::Operation::mutable_update_time, out);
}

// When another attempt is granted at the earliest; unset where none is.
core::Time NextAttemptTime(const core::Record& record, const core::Policy& policy, core::Time now) {
  if (record.state != State::kUnresolved || !record.unknown) return {};
  const core::Grant grant = core::AssessGrant(record, policy.terms, core::At(now));
  if (grant.when == core::Grant::When::kNever) return {};
  return std::max(grant.at, record.unknown->since);
}

// An answer that says what comes next is not contradicted, also where it knows of a doubt about
// the clock that the record does not show.
template <typename Answer>
void FillNextAttempt(const Answer& answer, const core::Policy& policy, core::Time now,
                     v1::Operation* out) {
  if (answer.operation == nullptr || answer.next_step == core::NextStep::kReconcileFirst) return;
  core::Time at = NextAttemptTime(*answer.operation, policy, now);
  const core::Duration wait = answer.retry_after.value_or(core::Duration::zero());
  if (core::IsSet(at) && at <= now && wait > core::Duration::zero()) at = core::Add(now, wait);
  SetIfSet(at, &v1::Operation::mutable_next_attempt_time, out);
}

// --- Parts of answers ---------------------------------------------------------------------

void FillLease(const core::Lease& lease, core::Time server_time, v1::Lease* out) {
  out->set_fencing_token(lease.token);
  SetTimestamp(lease.expire_time, out->mutable_expire_time());
  SetDuration(core::Remaining(lease.expire_time, server_time), out->mutable_remaining());
  out->set_attempt(lease.attempt);
  if (lease.progress) out->set_progress(*lease.progress);
}

template <typename Message>
void FillRetryAfter(const std::optional<core::Duration>& retry_after, Message* out) {
  if (retry_after) SetDuration(*retry_after, out->mutable_retry_after());
}

// The answer that the command calls for, or why it is not that. Null with no failure is
// impossible: an answer of another kind would be a bug of ours, and reads as one.
template <typename Answer>
const Answer* Expect(const keystore::Reply& reply, std::optional<Failure>* failure) {
  if (const auto* answer = std::get_if<Answer>(&reply.answer)) return answer;
  const auto* refusal = std::get_if<core::Refusal>(&reply.answer);
  *failure = refusal != nullptr ? ToFailure(*refusal) : Failure{};
  return nullptr;
}

}  // namespace

std::optional<Failure> FillOperation(const core::Key& key, const core::Record& record, Shown shown,
                                     v1::Operation* out) {
  FillId(key, out->mutable_id());
  out->set_state(static_cast<v1::OperationState>(record.state));
  if (record.fingerprint.given()) {
    out->mutable_fingerprint()->set_algorithm(record.fingerprint.algorithm);
    if (shown.digest) out->mutable_fingerprint()->set_digest(record.fingerprint.digest);
  }
  if (record.owner != core::Owner{}) FillOwner(record.owner, out->mutable_owner());
  for (const auto& [name, value] : record.labels) (*out->mutable_labels())[name] = value;
  out->set_attempt(record.attempt);
  out->set_dispatched(record.dispatched);
  FillTimes(record, out);
  FillOutcome(record, out);
  if (shown.history) FillHistory(record, out);
  out->set_etag(core::Etag(record));
  const bool has_response = record.state == State::kComplete && record.response.bytes.present();
  if (shown.response && has_response && !LoadResponse(record.response, out->mutable_response())) {
    return Failure{core::Reason::kRecordUnreadable, {}, {}, std::nullopt};
  }
  return std::nullopt;
}

std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::ReserveResponse* out) {
  std::optional<Failure> failure;
  const auto* answer = Expect<core::ReserveAnswer>(reply, &failure);
  if (answer == nullptr) return failure;
  out->set_outcome(static_cast<v1::ReserveOutcome>(answer->outcome));
  out->set_next_step(ToProto(answer->next_step));
  if (answer->lease) FillLease(*answer->lease, reply.server_time, out->mutable_lease());
  FillRetryAfter(answer->retry_after, out);
  SetTimestamp(reply.server_time, out->mutable_server_time());
  out->mutable_detail()->assign(DescribeReserve(*answer));
  if (answer->operation == nullptr) return std::nullopt;
  if (answer->outcome == core::ReserveOutcome::kFingerprintMismatch) {
    FillMismatch(context.key, *answer->operation, out->mutable_operation());
    return std::nullopt;
  }
  FillNextAttempt(*answer, context.policy, reply.server_time, out->mutable_operation());
  const Shown shown{answer->reveal, answer->reveal, false};
  return FillOperation(context.key, *answer->operation, shown, out->mutable_operation());
}

std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& /*context*/,
                                    v1::RenewResponse* out) {
  std::optional<Failure> failure;
  const auto* answer = Expect<core::RenewAnswer>(reply, &failure);
  if (answer == nullptr) return failure;
  FillLease(answer->lease, reply.server_time, out->mutable_lease());
  SetTimestamp(reply.server_time, out->mutable_server_time());
  return std::nullopt;
}

std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::CompleteResponse* out) {
  std::optional<Failure> failure;
  const auto* answer = Expect<core::CompleteAnswer>(reply, &failure);
  if (answer == nullptr) return failure;
  out->set_already_complete(answer->already_complete);
  if (answer->operation == nullptr) return std::nullopt;
  return FillOperation(context.key, *answer->operation, Shown{}, out->mutable_operation());
}

std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& /*context*/,
                                    v1::ReleaseResponse* out) {
  std::optional<Failure> failure;
  const auto* answer = Expect<core::ReleaseAnswer>(reply, &failure);
  if (answer == nullptr) return failure;
  out->set_state(static_cast<v1::OperationState>(answer->state));
  return std::nullopt;
}

std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::MarkUnresolvedResponse* out) {
  std::optional<Failure> failure;
  const auto* answer = Expect<core::MarkUnresolvedAnswer>(reply, &failure);
  if (answer == nullptr) return failure;
  out->set_next_step(ToProto(answer->next_step));
  FillRetryAfter(answer->retry_after, out);
  if (answer->operation == nullptr) return std::nullopt;
  FillNextAttempt(*answer, context.policy, reply.server_time, out->mutable_operation());
  return FillOperation(context.key, *answer->operation, Shown{}, out->mutable_operation());
}

std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::GetOperationResponse* out) {
  std::optional<Failure> failure;
  const auto* answer = Expect<core::GetAnswer>(reply, &failure);
  if (answer == nullptr) return failure;
  out->set_next_step(ToProto(answer->next_step));
  FillRetryAfter(answer->retry_after, out);
  SetTimestamp(reply.server_time, out->mutable_server_time());
  FillNextAttempt(*answer, context.policy, reply.server_time, out->mutable_operation());
  const Shown shown{answer->reveal, answer->reveal, true};
  return FillOperation(context.key, *answer->operation, shown, out->mutable_operation());
}

std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::InspectOperationResponse* out) {
  std::optional<Failure> failure;
  const auto* answer = Expect<core::InspectAnswer>(reply, &failure);
  if (answer == nullptr) return failure;
  out->set_fencing_token(answer->operation->token);
  out->set_next_step(ToProto(answer->next_step));
  SetTimestamp(reply.server_time, out->mutable_server_time());
  out->mutable_detail()->assign(DescribeNext(*answer->operation, answer->next_step));
  FillNextAttempt(*answer, context.policy, reply.server_time, out->mutable_operation());
  return FillOperation(context.key, *answer->operation, Shown{true, true, true},
                       out->mutable_operation());
}

std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::ResolveOperationResponse* out) {
  std::optional<Failure> failure;
  const auto* answer = Expect<core::ResolveAnswer>(reply, &failure);
  if (answer == nullptr) return failure;
  const Shown shown{true, false, false};
  return FillOperation(context.key, *answer->operation, shown, out->mutable_operation());
}

std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& /*context*/,
                                    v1::DeleteOperationResponse* /*out*/) {
  std::optional<Failure> failure;
  Expect<core::DeleteAnswer>(reply, &failure);
  return failure;
}

v1::Operation ToListed(const keystore::ListEntry& entry, const core::Policy& policy,
                       core::Time now) {
  v1::Operation operation;
  if (entry.record == nullptr) {
    FillId(entry.key, operation.mutable_id());
    return operation;
  }
  SetIfSet(NextAttemptTime(*entry.record, policy, now), &v1::Operation::mutable_next_attempt_time,
           &operation);
  // Nothing that can be unreadable is shown.
  (void)FillOperation(entry.key, *entry.record, Shown{}, &operation);
  return operation;
}

}  // namespace idempotency::service
