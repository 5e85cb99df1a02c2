#include "service/sentences.h"

namespace idempotency::service {
namespace {

using core::NextStep;
using core::ReserveOutcome;
using core::State;
using core::Verdict;

std::string_view DescribeEnded(Verdict verdict, NextStep next_step) {
  if (verdict == Verdict::kAbandoned) {
    return "An operator closed it without knowing its outcome; do not repeat it.";
  }
  if (next_step == NextStep::kLookUpAnswer) {
    return "It has ended and must not be repeated; its answer is not kept here, so read it from "
           "the provider or your own records.";
  }
  return verdict == Verdict::kFailed ? "It has failed for good; the response is its answer."
                                     : "It has succeeded; the response is its answer.";
}

std::string_view DescribeExpired(Verdict verdict) {
  return verdict == Verdict::kAbandoned
             ? "An operator closed it without knowing its outcome; do not repeat it."
             : "It ended, and its answer is no longer kept; read it from the provider or your own "
               "records.";
}

std::string_view DescribeUnresolved(NextStep next_step) {
  return next_step == NextStep::kReserveAgain || next_step == NextStep::kProceed
             ? "Its outcome is unknown; a new attempt with the same key will be granted, so "
               "reserve again with a new attempt_id."
             : "Its outcome is unknown; find out whether the effect happened, then resolve it.";
}

std::string_view DescribeMismatch(NextStep next_step) {
  return next_step == NextStep::kSettleOtherFirst
             ? "The key belongs to another request, or its fingerprint was made in another way; "
               "settle that one first."
             : "The key belongs to another request, which has ended; use a key of your own.";
}

std::string_view DescribeAcquired(const core::ReserveAnswer& answer) {
  return answer.lease && answer.lease->attempt > 1
             ? "Acquired for another attempt, as the outcome of an earlier one is unknown; use the "
               "same key with the provider."
             : "Acquired; start the effect, and report its end before the lease ends.";
}

}  // namespace

std::string_view DescribeReserve(const core::ReserveAnswer& answer) {
  const Verdict verdict = answer.operation ? answer.operation->verdict : Verdict::kNone;
  switch (answer.outcome) {
    case ReserveOutcome::kAcquired:
      return DescribeAcquired(answer);
    case ReserveOutcome::kAlreadyHeld:
      return "This attempt holds the lease already; start only if this process knows that it has "
             "not started.";
    case ReserveOutcome::kInProgress:
      return "Another attempt holds a live lease; reserve again later.";
    case ReserveOutcome::kCompleted:
      return DescribeEnded(verdict, answer.next_step);
    case ReserveOutcome::kUnresolved:
      return DescribeUnresolved(answer.next_step);
    case ReserveOutcome::kFingerprintMismatch:
      return DescribeMismatch(answer.next_step);
    case ReserveOutcome::kExpired:
      return DescribeExpired(verdict);
    case ReserveOutcome::kTooOld:
      return "Nothing is recorded, and the operation is older than what is remembered; find out "
             "whether the effect happened, and start over only if it did not.";
  }
  return {};
}

std::string_view DescribeNext(const core::Record& record, NextStep next_step) {
  switch (record.state) {
    case State::kPending:
      return "An attempt holds a live lease; a Reserve would be told to come back.";
    case State::kComplete:
      return DescribeEnded(record.verdict, next_step);
    case State::kUnresolved:
      return DescribeUnresolved(next_step);
    case State::kExpired:
      return DescribeExpired(record.verdict);
    case State::kFreed:
      return "Nobody holds the key; the next Reserve acquires it.";
  }
  return {};
}

std::string_view DescribeQuota(const keystore::QuotaExcess& excess) {
  switch (excess.kind) {
    case keystore::QuotaKind::kReserves:
      return excess.of_scope
                 ? "This scope sends more Reserves a second than its quota allows for new keys; "
                   "send the same call again later."
                 : "This namespace gets more Reserves a second than its quota allows for new keys; "
                   "send the same call again later.";
    case keystore::QuotaKind::kOpenOperations:
      return excess.of_scope
                 ? "This scope has as many open operations as its quota allows; complete, release "
                   "or resolve some, and send the same call again."
                 : "This namespace has as many open operations as its quota allows; complete, "
                   "release or resolve some, and send the same call again.";
    case keystore::QuotaKind::kStoredBytes:
      return excess.of_scope
                 ? "This scope stores as many bytes as its quota allows; send the same call again "
                   "when some have expired."
                 : "This namespace stores as many bytes as its quota allows; send the same call "
                   "again when some have expired.";
  }
  return "A quota is used up; send the same call again later.";
}

}  // namespace idempotency::service
