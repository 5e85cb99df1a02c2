#include "client/src/testing/ledger_entry.h"

#include <algorithm>
#include <utility>

namespace idempotency::testing {
namespace {

constexpr size_t kMaxEnded = 8;
constexpr Duration kMinProtectedLease = std::chrono::seconds(1);

using UnknownOutcome = NamespacePolicy::UnknownOutcome;

// Under RERUN an unknown outcome is harmless and forgotten, unless its owner asked for a person.
std::optional<SystemTime> ForgetUnknown(const Unknown& unknown, const NamespacePolicy& policy,
                                        SystemTime from) {
  if (policy.unknown_outcome != UnknownOutcome::kRerun || unknown.reconcile_first) {
    return std::nullopt;
  }
  return from + (policy.retention == Duration(0) ? kFreedMemory : policy.retention);
}

// The lease has ended before its owner reported.
void Lapse(Entry& entry, const NamespacePolicy& policy) {
  const SystemTime at = entry.lease_end;
  const uint32_t attempt = entry.newest().number;
  entry.EndNewest(End::kLapsed, {});
  if (entry.started) {
    entry.BecomeUnknown(Unknown{.cause = UnresolvedCause::kLeaseLapsed,
                                .attempt = attempt,
                                .since = at,
                                .not_before = at + Backoff(policy, attempt)},
                        policy, at);
  } else if (entry.earlier.has_value()) {
    entry.ReturnToEarlier(policy, at);
  } else {
    entry.Free(at, kFreedMemory);
  }
  entry.Touch(at);
}

void Expire(Entry& entry) {
  const SystemTime at = *entry.response_end;
  entry.state = OperationState::kExpired;
  entry.kept.response.reset();
  entry.kept.labels.clear();
  entry.progress.reset();
  entry.response_end.reset();
  entry.Touch(at);
}

}  // namespace

const Try* Entry::FindTry(uint64_t token) const {
  for (const Try& one : tries) {
    if (one.token == token) return &one;
  }
  return nullptr;
}

bool Entry::HasEnded(const std::string& attempt_id) const {
  return std::any_of(tries.begin(), tries.end(),
                     [&](const Try& one) { return one.end != End::kNone && one.id == attempt_id; });
}

void Entry::Touch(SystemTime at) {
  kept.update_time = std::max(kept.update_time.value_or(at), at);
  ++changes;
}

void Entry::EndNewest(End end, std::string said) {
  newest().end = end;
  newest().said = std::move(said);
  if (tries.size() > kMaxEnded) tries.erase(tries.begin());
}

void Entry::BecomeUnknown(Unknown what, const NamespacePolicy& policy, SystemTime at) {
  state = OperationState::kUnresolved;
  kept.attempt = what.attempt;
  kept.dispatched = true;
  started = true;
  forget = ForgetUnknown(what, policy, at);
  unknown = what;
}

void Entry::ReturnToEarlier(const NamespacePolicy& policy, SystemTime at) {
  state = OperationState::kUnresolved;
  unknown = earlier;
  kept.attempt = unknown->attempt;
  forget = ForgetUnknown(*unknown, policy, unknown->since);
  if (forget.has_value()) forget = std::max(*forget, at + kFreedMemory);
}

void Entry::Free(SystemTime at, Duration memory) {
  state = OperationState::kFreed;
  unknown.reset();
  earlier.reset();
  forget = at + memory;
}

void Entry::Finish(Verdict verdict, std::optional<CachedResponse> response, Duration retention,
                   const NamespacePolicy& policy, SystemTime at) {
  started = true;
  kept.dispatched = true;
  unknown.reset();
  earlier.reset();
  const Duration kept_for = std::min(retention, policy.max_retention);
  if (kept_for == Duration(0)) {
    progress.reset();
    kept.labels.clear();
    kept.response.reset();
    kept.verdict = Verdict::kUnspecified;
    kept.complete_time.reset();
    response_end.reset();
    return Free(at, kFreedMemory);
  }
  state = OperationState::kComplete;
  kept.verdict = verdict;
  kept.response = std::move(response);
  kept.complete_time = at;
  response_end = at + kept_for;
  forget = *response_end + policy.expired_memory;
}

Duration Backoff(const NamespacePolicy& policy, uint32_t attempt) {
  Duration backoff = policy.initial_backoff;
  for (uint32_t i = 1; i < attempt && backoff < policy.max_backoff; ++i) backoff *= 2;
  return std::min(backoff, policy.max_backoff);
}

bool Observe(Entry& entry, const NamespacePolicy& policy, SystemTime now) {
  if (entry.state == OperationState::kPending && now >= entry.lease_end) Lapse(entry, policy);
  if (entry.state == OperationState::kComplete && now >= *entry.response_end) Expire(entry);
  return !entry.forget.has_value() || now < *entry.forget;
}

std::optional<SystemTime> ProtectionEnd(const Entry& entry, const NamespacePolicy& policy) {
  if (policy.unknown_outcome != UnknownOutcome::kRetrySameKey) return std::nullopt;
  return *entry.kept.create_time + policy.protection_window;
}

Grant AssessGrant(const Entry& entry, const NamespacePolicy& policy, SystemTime now) {
  const Unknown& unknown = *entry.unknown;
  switch (policy.unknown_outcome) {
    case UnknownOutcome::kReconcileFirst:
      return {};
    case UnknownOutcome::kRerun:
      return unknown.reconcile_first ? Grant{} : Grant{.at = unknown.since};
    case UnknownOutcome::kRetrySameKey:
      break;
  }
  if (unknown.reconcile_first || unknown.attempt >= policy.max_attempts) return {};
  const SystemTime at =
      std::max(unknown.not_before, unknown.since + Backoff(policy, unknown.attempt));
  const SystemTime end = *ProtectionEnd(entry, policy);
  if (std::max(now, at) + kMinProtectedLease > end) return {};
  return Grant{.at = at, .lease_limit = end};
}

Operation View(const Entry& entry, const NamespacePolicy& policy, SystemTime now, Shown shown) {
  Operation view = entry.kept;
  view.state = entry.state;
  view.etag = std::to_string(entry.newest().token) + "." + std::to_string(entry.changes);
  const bool open =
      entry.state == OperationState::kPending || entry.state == OperationState::kUnresolved;
  if (open) view.protection_expire_time = ProtectionEnd(entry, policy);
  if (!shown.digest) view.fingerprint.digest.clear();
  if (!shown.response) view.response.reset();
  const bool ended =
      entry.state == OperationState::kComplete || entry.state == OperationState::kExpired;
  if (!ended) view.complete_time.reset();
  if (entry.state == OperationState::kPending) view.lease_expire_time = entry.lease_end;
  if (entry.state == OperationState::kUnresolved) {
    view.unresolved_cause = entry.unknown->cause;
    const Grant grant = AssessGrant(entry, policy, now);
    if (grant.at.has_value()) view.next_attempt_time = std::max(*grant.at, entry.unknown->since);
  }
  return view;
}

}  // namespace idempotency::testing
