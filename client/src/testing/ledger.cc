#include "client/src/testing/ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace idempotency::testing {
namespace {

constexpr Duration kMaxInProgressRetryAfter = std::chrono::seconds(1);

// --- Refusals ------------------------------------------------------------------------------------

absl::StatusCode CodeOf(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kInvalidField:
    case ErrorReason::kUnknownFencingToken:
      return absl::StatusCode::kInvalidArgument;
    case ErrorReason::kNamespaceNotFound:
    case ErrorReason::kOperationNotFound:
      return absl::StatusCode::kNotFound;
    case ErrorReason::kAccessDenied:
      return absl::StatusCode::kPermissionDenied;
    case ErrorReason::kStaleFencingToken:
    case ErrorReason::kLeaseLapsed:
    case ErrorReason::kAlreadyComplete:
    case ErrorReason::kAttemptFinished:
    case ErrorReason::kOutcomeUnknown:
    case ErrorReason::kLeaseLive:
    case ErrorReason::kNotSettled:
    case ErrorReason::kWrongState:
      return absl::StatusCode::kFailedPrecondition;
    case ErrorReason::kEtagMismatch:
      return absl::StatusCode::kAborted;
    case ErrorReason::kQuotaExceeded:
    case ErrorReason::kOverloaded:
    case ErrorReason::kStoreFull:
      return absl::StatusCode::kResourceExhausted;
    case ErrorReason::kStoreUnavailable:
      return absl::StatusCode::kUnavailable;
    case ErrorReason::kRecordUnreadable:
      return absl::StatusCode::kDataLoss;
    case ErrorReason::kUnspecified:
      break;
  }
  return absl::StatusCode::kInternal;
}

absl::Status Refuse(ErrorReason reason, std::string field = {},
                    std::optional<Duration> retry_after = std::nullopt) {
  const std::string message = absl::StrCat("refused: ", std::string(Name(reason)), " ", field);
  return MakeRefused(
      Refusal{.reason = reason, .field = std::move(field), .retry_after = retry_after},
      CodeOf(reason), message);
}

absl::Status Invalid(std::string field) {
  return Refuse(ErrorReason::kInvalidField, std::move(field));
}

absl::Status Stale() { return Refuse(ErrorReason::kStaleFencingToken, "fencing_token"); }

// --- What requests must be -----------------------------------------------------------------------

bool IsNamespace(const std::string& name) {
  constexpr std::string_view kBytes = "abcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= 64 && name[0] >= 'a' && name[0] <= 'z' &&
         name.find_first_not_of(kBytes) == std::string::npos;
}

bool HasControlCharacter(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

absl::Status CheckId(const OperationId& id) {
  if (!IsNamespace(id.name_space)) return Invalid("id.namespace");
  if (id.scope.size() > 255 || HasControlCharacter(id.scope)) return Invalid("id.scope");
  if (id.key.empty() || id.key.size() > 255 || HasControlCharacter(id.key)) {
    return Invalid("id.key");
  }
  return absl::OkStatus();
}

absl::Status CheckFingerprint(const Fingerprint& fingerprint) {
  if (fingerprint.algorithm.empty() || fingerprint.algorithm.size() > 64) {
    return Invalid("fingerprint.algorithm");
  }
  const size_t bytes = fingerprint.digest.size();
  return bytes < 16 || bytes > 64 ? Invalid("fingerprint.digest") : absl::OkStatus();
}

bool IsLease(const std::optional<Duration>& lease, const NamespacePolicy& policy) {
  return !lease.has_value() || (*lease > Duration(0) && *lease <= policy.max_lease);
}

bool IsFinalVerdict(Verdict verdict) {
  return verdict == Verdict::kSucceeded || verdict == Verdict::kFailed;
}

// --- What was said, to recognise repeats ---------------------------------------------------------

// Length first, so that no two texts run into each other.
std::string Framed(const std::string& text) { return absl::StrCat(text.size(), ":", text); }

std::string Said(const std::optional<CachedResponse>& response) {
  if (!response.has_value()) return "none";
  const auto* http = std::get_if<CachedResponse::HttpStatus>(&response->status);
  const auto* grpc = std::get_if<CachedResponse::GrpcCode>(&response->status);
  std::string said =
      absl::StrCat(http != nullptr ? http->code : -1, ",", grpc != nullptr ? grpc->code : -1, ",",
                   Framed(response->status_message), Framed(response->content_type));
  for (const auto& [name, value] : response->metadata) {
    absl::StrAppend(&said, Framed(name), Framed(value));
  }
  absl::StrAppend(&said, response->body.has_value() ? Framed(*response->body) : "no body", ",",
                  response->body_omitted ? "omitted" : "", ",", response->body_size);
  return said;
}

std::string Said(const CompleteRequest& request) {
  return absl::StrCat(static_cast<int>(request.verdict), Framed(request.provider_request_id),
                      Said(request.response));
}

std::string Said(const MarkUnresolvedRequest& request) {
  return absl::StrCat(static_cast<int>(request.cause), Framed(request.detail),
                      Framed(request.provider_request_id),
                      request.retry_after.value_or(Duration(0)).count(), ",",
                      request.reconcile_first ? "reconcile" : "");
}

std::string Said(const ResolveRequest& request) {
  if (request.resolution != ResolveRequest::Resolution::kCompleted) return {};
  return absl::StrCat(static_cast<int>(request.verdict), Framed(request.provider_request_id),
                      Said(request.response));
}

// What is kept of an answer: a body over the limit is not.
std::optional<CachedResponse> Stored(std::optional<CachedResponse> response,
                                     const NamespacePolicy& policy) {
  if (!response.has_value()) return response;
  const uint64_t bytes = response->body.has_value() ? response->body->size() : 0;
  const bool left_out =
      response->body_omitted || (!response->body.has_value() && response->body_size > 0);
  response->body_size = std::max(left_out ? response->body_size : 0, bytes);
  response->body_omitted = left_out || bytes > policy.max_response_bytes;
  if (response->body_omitted) response->body.reset();
  return response;
}

UnresolvedCause CauseOf(UnresolvedCause given) {
  const bool callers = given >= UnresolvedCause::kTimeout && given <= UnresolvedCause::kOther;
  return callers ? given : UnresolvedCause::kOther;
}

// --- Lists ---------------------------------------------------------------------------------------

absl::Status CheckList(const ListOperationsRequest& request) {
  if (!IsNamespace(request.name_space)) return Invalid("namespace");
  if (request.scope.size() > 255) return Invalid("scope");
  if (request.key_prefix.size() > 255) return Invalid("key_prefix");
  if (request.operation_ref.size() > 255) return Invalid("operation_ref");
  return request.min_age < Duration(0) ? Invalid("min_age") : absl::OkStatus();
}

bool IsListed(const Entry& entry, const ListOperationsRequest& request, SystemTime now) {
  const Operation& kept = entry.kept;
  const std::vector<OperationState>& states = request.states;
  const bool in_states = states.empty()
                             ? entry.state != OperationState::kFreed
                             : std::find(states.begin(), states.end(), entry.state) != states.end();
  return in_states && kept.id.name_space == request.name_space &&
         (request.scope.empty() || kept.id.scope == request.scope) &&
         kept.id.key.starts_with(request.key_prefix) &&
         (request.operation_ref.empty() || kept.owner.operation_ref == request.operation_ref) &&
         now - kept.update_time.value_or(now) >= request.min_age;
}

// Texts in the order of the list, never empty: also the page tokens.
std::string PlaceInList(const Entry& entry, bool oldest_first) {
  const int64_t since = oldest_first ? entry.unknown->since.time_since_epoch().count() : 0;
  std::string place = absl::StrCat(absl::Dec(since, absl::kZeroPad20), entry.kept.id.scope);
  place += '\0';  // in no scope
  return place + entry.kept.id.key;
}

// --- Rows of Reserve -----------------------------------------------------------------------------

// A missing fingerprint is not compared where the namespace makes it optional.
bool IsSameRequest(const Entry& entry, const std::optional<Fingerprint>& given,
                   const NamespacePolicy& policy) {
  if (policy.fingerprint_optional && (!entry.has_fingerprint() || !given.has_value())) return true;
  return given.has_value() && entry.kept.fingerprint == *given;
}

bool Reveals(const Entry& entry, const std::optional<Fingerprint>& given) {
  return !entry.has_fingerprint() || (given.has_value() && entry.kept.fingerprint == *given);
}

NextStep AdviseMismatch(const Entry& entry, const std::optional<Fingerprint>& given) {
  const bool open =
      entry.state == OperationState::kPending || entry.state == OperationState::kUnresolved;
  const bool comparable = entry.has_fingerprint() && given.has_value() &&
                          entry.kept.fingerprint.algorithm == given->algorithm;
  return open || !comparable ? NextStep::kSettleOtherFirst : NextStep::kUseOwnKey;
}

NextStep AdviseEnded(const Entry& entry, bool reveal) {
  if (entry.kept.verdict == Verdict::kAbandoned) return NextStep::kStop;
  if (entry.state == OperationState::kExpired || !reveal) return NextStep::kLookUpAnswer;
  if (entry.kept.response.has_value()) {
    return entry.kept.response->body_omitted ? NextStep::kLookUpAnswer : NextStep::kUseResponse;
  }
  // Settled by somebody who knew that it had happened, and not what was answered.
  return entry.resolution.has_value() ? NextStep::kLookUpAnswer : NextStep::kUseResponse;
}

// What a Reserve shows to a caller who has shown the request.
Shown ShownTo(const Entry& entry, const std::optional<Fingerprint>& given) {
  const bool reveal = Reveals(entry, given);
  return Shown{.digest = reveal, .response = reveal};
}

Lease LeaseOf(const Entry& entry, SystemTime now) {
  return Lease{.fencing_token = entry.newest().token,
               .expire_time = entry.lease_end,
               .remaining = std::max(Duration(0), entry.lease_end - now),
               .attempt = entry.newest().number,
               .progress = entry.progress};
}

Duration AskAgainIn(const Entry& entry, SystemTime now) {
  return std::min(entry.lease_end - now, kMaxInProgressRetryAfter);
}

}  // namespace

// --- The book ------------------------------------------------------------------------------------

const NamespacePolicy& Ledger::PolicyOf(const OperationId& id) const {
  const auto found = namespaces_.find(id.name_space);
  return found == namespaces_.end() ? defaults_ : found->second;
}

Entry* Ledger::At(const OperationId& id, SystemTime now) {
  const auto found = entries_.find({id.name_space, id.scope, id.key});
  if (found == entries_.end()) return nullptr;
  if (Observe(found->second, PolicyOf(id), now)) return &found->second;
  entries_.erase(found);
  return nullptr;
}

std::optional<Operation> Ledger::Find(const OperationId& id, SystemTime now) {
  const Entry* entry = At(id, now);
  if (entry == nullptr) return std::nullopt;
  return View(*entry, PolicyOf(id), now, Shown{.digest = true, .response = true});
}

std::vector<OperationId> Ledger::Ids() const {
  std::vector<OperationId> ids;
  for (const auto& [place, entry] : entries_) ids.push_back(entry.kept.id);
  return ids;
}

std::vector<Operation> Ledger::All(SystemTime now) {
  std::vector<Operation> all;
  for (const OperationId& id : Ids()) {
    if (std::optional<Operation> one = Find(id, now)) all.push_back(*std::move(one));
  }
  return all;
}

// --- Reserve -------------------------------------------------------------------------------------

absl::Status Ledger::CheckReserve(const ReserveRequest& request,
                                  const NamespacePolicy& policy) const {
  if (absl::Status id = CheckId(request.id); !id.ok()) return id;
  if (request.wait_duration < Duration(0)) return Invalid("wait_duration");
  if (request.fingerprint.has_value()) {
    if (absl::Status given = CheckFingerprint(*request.fingerprint); !given.ok()) return given;
  } else if (!policy.fingerprint_optional) {
    return Invalid("fingerprint");
  }
  if (request.attempt_id.size() < 16 || request.attempt_id.size() > 64) {
    return Invalid("attempt_id");
  }
  return IsLease(request.lease_duration, policy) ? absl::OkStatus() : Invalid("lease_duration");
}

absl::StatusOr<ReserveResponse> Ledger::Reserve(const ReserveRequest& request, SystemTime now) {
  const NamespacePolicy& policy = PolicyOf(request.id);
  if (absl::Status wrong = CheckReserve(request, policy); !wrong.ok()) return wrong;
  Entry* entry = At(request.id, now);
  if (entry == nullptr) return ReserveAbsent(request, now);
  const bool freed = entry->state == OperationState::kFreed;
  if (!freed && !IsSameRequest(*entry, request.fingerprint, policy)) {
    return Mismatch(*entry, request);
  }
  switch (entry->state) {
    case OperationState::kPending:
      return ReservePending(*entry, request, now);
    case OperationState::kUnresolved:
      return ReserveUnresolved(*entry, request, now);
    case OperationState::kExpired:
      if (request.start_over) return ReserveFreed(*entry, request, now);
      return ReserveEnded(*entry, request, now);
    case OperationState::kComplete:
      return ReserveEnded(*entry, request, now);
    case OperationState::kFreed:
    case OperationState::kUnspecified:
      break;
  }
  return ReserveFreed(*entry, request, now);
}

absl::StatusOr<ReserveResponse> Ledger::ReserveAbsent(const ReserveRequest& request,
                                                      SystemTime now) {
  const NamespacePolicy& policy = PolicyOf(request.id);
  if (request.id.scope.empty() && !policy.scope_optional) return Invalid("id.scope");
  if (request.id.key.size() > policy.max_key_bytes) return Invalid("id.key");
  if (!namespaces_.contains(request.id.name_space)) {
    return Refuse(ErrorReason::kNamespaceNotFound, "id.namespace");
  }
  const Duration memory =
      policy.retention == Duration(0) ? kFreedMemory : policy.retention + policy.expired_memory;
  if (request.operation_age.value_or(Duration(0)) > memory && !request.start_over) {
    return ReserveResponse{
        .outcome = ReserveOutcome::kTooOld,
        .next_step = NextStep::kReconcileFirst,
        .detail = "nothing is recorded, and the operation is older than what is remembered"};
  }
  Entry& entry = entries_[{request.id.name_space, request.id.scope, request.id.key}];
  entry.kept.id = request.id;
  entry.kept.create_time = now;
  return Acquire(entry, request, 1, std::nullopt, now);
}

// FREED, or EXPIRED with start_over. What late messages and the next attempt need goes on.
absl::StatusOr<ReserveResponse> Ledger::ReserveFreed(Entry& entry, const ReserveRequest& request,
                                                     SystemTime now) {
  if (entry.HasEnded(request.attempt_id)) {
    return Refuse(ErrorReason::kAttemptFinished, "attempt_id");
  }
  Entry next;
  next.kept.id = request.id;
  next.kept.create_time = now;
  next.tries = std::move(entry.tries);
  next.changes = entry.changes;
  next.progress = std::move(entry.progress);
  entry = std::move(next);
  return Acquire(entry, request, 1, std::nullopt, now);
}

ReserveResponse Ledger::Acquire(Entry& entry, const ReserveRequest& request, uint32_t number,
                                std::optional<SystemTime> lease_limit, SystemTime now) {
  const NamespacePolicy& policy = PolicyOf(request.id);
  entry.state = OperationState::kPending;
  entry.tries.push_back(Try{.token = ++last_token_, .number = number, .id = request.attempt_id});
  entry.kept.attempt = number;
  entry.kept.owner = request.owner;
  if (!entry.has_fingerprint())
    entry.kept.fingerprint = request.fingerprint.value_or(Fingerprint{});
  if (!request.labels.empty()) {
    entry.kept.labels = request.labels;
    std::sort(entry.kept.labels.begin(), entry.kept.labels.end());
  }
  entry.acquire_time = now;
  entry.lease_end =
      now + std::min(request.lease_duration.value_or(policy.default_lease), policy.max_hold);
  if (lease_limit.has_value()) entry.lease_end = std::min(entry.lease_end, *lease_limit);
  entry.started = !request.dispatch_later;
  entry.kept.dispatched = entry.kept.dispatched || entry.started;
  entry.forget.reset();
  entry.resolution.reset();
  entry.resolution_said.clear();
  entry.Touch(now);
  return ReserveResponse{.outcome = ReserveOutcome::kAcquired,
                         .next_step = NextStep::kProceed,
                         .lease = LeaseOf(entry, now),
                         .operation = View(entry, policy, now, ShownTo(entry, request.fingerprint)),
                         .detail = "acquired"};
}

ReserveResponse Ledger::ReservePending(const Entry& entry, const ReserveRequest& request,
                                       SystemTime now) const {
  const Operation operation =
      View(entry, PolicyOf(request.id), now, ShownTo(entry, request.fingerprint));
  if (entry.newest().id == request.attempt_id) {
    return ReserveResponse{.outcome = ReserveOutcome::kAlreadyHeld,
                           .next_step = NextStep::kProceedUnlessStarted,
                           .lease = LeaseOf(entry, now),
                           .operation = operation,
                           .detail = "this attempt holds the lease already"};
  }
  return ReserveResponse{.outcome = ReserveOutcome::kInProgress,
                         .next_step = NextStep::kReserveAgain,
                         .operation = operation,
                         .retry_after = AskAgainIn(entry, now),
                         .detail = "another attempt holds a live lease"};
}

ReserveResponse Ledger::ReserveEnded(const Entry& entry, const ReserveRequest& request,
                                     SystemTime now) const {
  const bool expired = entry.state == OperationState::kExpired;
  const Shown shown = ShownTo(entry, request.fingerprint);
  return ReserveResponse{
      .outcome = expired ? ReserveOutcome::kExpired : ReserveOutcome::kCompleted,
      .next_step = AdviseEnded(entry, shown.response),
      .operation = View(entry, PolicyOf(request.id), now, shown),
      .detail = expired ? "it ended, and its answer is no longer kept" : "it has ended"};
}

ReserveResponse Ledger::ReserveUnresolved(Entry& entry, const ReserveRequest& request,
                                          SystemTime now) {
  const NamespacePolicy& policy = PolicyOf(request.id);
  const Grant grant = AssessGrant(entry, policy, now);
  if (grant.IsNow(now) && !entry.HasEnded(request.attempt_id)) {
    entry.earlier = std::exchange(entry.unknown, std::nullopt);
    return Acquire(entry, request, entry.earlier->attempt + 1, grant.lease_limit, now);
  }
  ReserveResponse response{
      .outcome = ReserveOutcome::kUnresolved,
      .next_step = NextStep::kReconcileFirst,
      .operation = View(entry, policy, now, ShownTo(entry, request.fingerprint)),
      .detail = "its outcome is unknown"};
  if (grant.at.has_value()) {
    response.next_step = NextStep::kReserveAgain;
    response.retry_after = std::max(Duration(0), *grant.at - now);
  }
  // Its own lease that lapsed, so that it can still report.
  const Try& newest = entry.newest();
  if (newest.end == End::kLapsed && newest.id == request.attempt_id) {
    response.lease = Lease{
        .fencing_token = newest.token, .expire_time = entry.lease_end, .attempt = newest.number};
  }
  return response;
}

ReserveResponse Ledger::Mismatch(const Entry& entry, const ReserveRequest& request) const {
  Operation operation{.id = request.id, .state = entry.state};
  operation.fingerprint.algorithm = entry.kept.fingerprint.algorithm;
  operation.update_time = entry.kept.update_time;
  return ReserveResponse{.outcome = ReserveOutcome::kFingerprintMismatch,
                         .next_step = AdviseMismatch(entry, request.fingerprint),
                         .operation = operation,
                         .detail = "the key belongs to another request"};
}

// --- The owner's verbs ---------------------------------------------------------------------------

absl::StatusOr<std::pair<Entry*, Ledger::Standing>> Ledger::Owned(const OperationId& id,
                                                                  uint64_t token, SystemTime now) {
  if (absl::Status wrong = CheckId(id); !wrong.ok()) return wrong;
  if (token == 0) return Invalid("fencing_token");
  Entry* entry = At(id, now);
  if (entry == nullptr) return Refuse(ErrorReason::kOperationNotFound);
  if (token > entry->newest().token) {
    return Refuse(ErrorReason::kUnknownFencingToken, "fencing_token");
  }
  return std::pair(entry, StandingOf(*entry, token));
}

Ledger::Standing Ledger::StandingOf(const Entry& entry, uint64_t token) {
  if (token < entry.newest().token) return Standing::kOlder;
  const End end = entry.newest().end;
  if (end == End::kNone) return Standing::kLive;
  if (end == End::kCompleted) return Standing::kCompleted;
  if (entry.resolution.has_value()) {
    return *entry.resolution == ResolveRequest::Resolution::kNotExecuted ? Standing::kNotExecuted
                                                                         : Standing::kSettled;
  }
  if (end == End::kMarked) return Standing::kMarked;
  return end == End::kLapsed ? Standing::kLapsed : Standing::kReleased;
}

absl::StatusOr<RenewResponse> Ledger::Renew(const RenewRequest& request, SystemTime now) {
  const NamespacePolicy& policy = PolicyOf(request.id);
  if (!IsLease(request.lease_duration, policy)) return Invalid("lease_duration");
  if (request.progress.has_value() && request.progress->size() > 4096) return Invalid("progress");
  const auto owned = Owned(request.id, request.fencing_token, now);
  if (!owned.ok()) return owned.status();
  const auto& [entry, standing] = *owned;
  switch (standing) {
    case Standing::kLive:
      break;
    case Standing::kLapsed:
    case Standing::kMarked:
    case Standing::kNotExecuted:
    case Standing::kReleased:
      return Refuse(ErrorReason::kLeaseLapsed);
    case Standing::kCompleted:
      return Refuse(ErrorReason::kAlreadyComplete);
    case Standing::kSettled:
    case Standing::kOlder:
      return Stale();
  }
  const bool started = entry->started || request.dispatched;
  SystemTime until = std::min(now + request.lease_duration.value_or(policy.default_lease),
                              entry->acquire_time + policy.max_hold);
  // A retried attempt must not start after the provider's protection has ended.
  if (entry->earlier.has_value() && !started) {
    until = std::min(until, ProtectionEnd(*entry, policy).value_or(until));
  }
  const bool news = started != entry->started || until > entry->lease_end ||
                    (request.owner.has_value() && *request.owner != entry->kept.owner) ||
                    (request.progress.has_value() && request.progress != entry->progress);
  if (news) {
    entry->kept.owner = request.owner.value_or(entry->kept.owner);
    if (request.progress.has_value()) entry->progress = request.progress;
    entry->started = started;
    entry->kept.dispatched = entry->kept.dispatched || started;
    entry->lease_end = std::max(entry->lease_end, until);
    entry->Touch(now);
  }
  return RenewResponse{.lease = LeaseOf(*entry, now)};
}

absl::StatusOr<CompleteResponse> Ledger::Complete(const CompleteRequest& request, SystemTime now) {
  const NamespacePolicy& policy = PolicyOf(request.id);
  const auto owned = Owned(request.id, request.fencing_token, now);
  if (!IsFinalVerdict(request.verdict)) return Invalid("verdict");
  if (!owned.ok()) return owned.status();
  const auto& [entry, standing] = *owned;
  const std::string said = Said(request);
  const Try* one = entry->FindTry(request.fencing_token);
  if (one != nullptr && one->end == End::kCompleted && one->said == said) {
    return CompleteResponse{.operation = View(*entry, policy, now, {}), .already_complete = true};
  }
  switch (standing) {
    case Standing::kLive:
    case Standing::kLapsed:
    case Standing::kMarked:
    case Standing::kNotExecuted:
      break;
    case Standing::kCompleted:
      return Refuse(ErrorReason::kAlreadyComplete);
    case Standing::kReleased:
      return Refuse(ErrorReason::kAttemptFinished);
    case Standing::kSettled:
    case Standing::kOlder:
      return Stale();
  }
  entry->EndNewest(End::kCompleted, said);
  entry->kept.attempt = entry->newest().number;
  entry->resolution.reset();
  entry->resolution_said.clear();
  if (!request.provider_request_id.empty()) {
    entry->kept.provider_request_id = request.provider_request_id;
  }
  entry->Finish(request.verdict, Stored(request.response, policy),
                std::max(policy.retention, request.retention.value_or(Duration(0))), policy, now);
  entry->Touch(now);
  return CompleteResponse{.operation = View(*entry, policy, now, {})};
}

absl::StatusOr<ReleaseResponse> Ledger::Release(const ReleaseRequest& request, SystemTime now) {
  const auto owned = Owned(request.id, request.fencing_token, now);
  if (!owned.ok()) return owned.status();
  const auto& [entry, standing] = *owned;
  const Try* one = entry->FindTry(request.fencing_token);
  // All that it says is that nothing happened: any repeat is the same.
  if (one != nullptr && one->end == End::kReleased) return ReleaseResponse{OperationState::kFreed};
  if (one != nullptr && one->end == End::kReleasedToUnknown) {
    return ReleaseResponse{OperationState::kUnresolved};
  }
  switch (standing) {
    case Standing::kLive:
    case Standing::kLapsed:
      break;
    case Standing::kMarked:
      return Refuse(ErrorReason::kOutcomeUnknown);
    case Standing::kCompleted:
      return Refuse(ErrorReason::kAlreadyComplete);
    case Standing::kReleased:
      return ReleaseResponse{entry->state};
    case Standing::kSettled:
    case Standing::kNotExecuted:
    case Standing::kOlder:
      return Stale();
  }
  if (entry->earlier.has_value()) {
    entry->EndNewest(End::kReleasedToUnknown, {});
    entry->ReturnToEarlier(PolicyOf(request.id), now);
  } else {
    entry->EndNewest(End::kReleased, {});
    entry->Free(now, kFreedMemory);
  }
  entry->Touch(now);
  return ReleaseResponse{entry->state};
}

absl::StatusOr<MarkUnresolvedResponse> Ledger::MarkUnresolved(const MarkUnresolvedRequest& request,
                                                              SystemTime now) {
  const NamespacePolicy& policy = PolicyOf(request.id);
  const auto owned = Owned(request.id, request.fencing_token, now);
  if (!owned.ok()) return owned.status();
  const auto& [entry, standing] = *owned;
  const Try* one = entry->FindTry(request.fencing_token);
  const std::string said = Said(request);
  const bool repeated = one != nullptr && one->end == End::kMarked && one->said == said;
  const bool newly = standing == Standing::kLive || standing == Standing::kLapsed;
  if (!repeated && !newly) {
    if (standing == Standing::kCompleted) return Refuse(ErrorReason::kAlreadyComplete);
    if (standing == Standing::kReleased) return Refuse(ErrorReason::kAttemptFinished);
    if (standing != Standing::kMarked) return Stale();
  }
  if (newly) {
    const SystemTime since = std::min(now, entry->lease_end);
    const uint32_t attempt = entry->newest().number;
    entry->EndNewest(End::kMarked, said);
    entry->BecomeUnknown(
        Unknown{.cause = CauseOf(request.cause),
                .attempt = attempt,
                .since = since,
                .not_before = std::max(since + Backoff(policy, attempt),
                                       now + request.retry_after.value_or(Duration(0))),
                .reconcile_first = request.reconcile_first},
        policy, now);
    if (!request.provider_request_id.empty()) {
      entry->kept.provider_request_id = request.provider_request_id;
    }
    entry->Touch(now);
  }
  Advice advice = Advise(*entry, false, policy, now);
  // Where an attempt is granted at once it takes a Reserve of its own.
  if (entry->state == OperationState::kUnresolved && advice.next_step == NextStep::kProceed) {
    advice = Advice{NextStep::kReserveAgain, Duration(0)};
  }
  return MarkUnresolvedResponse{.operation = View(*entry, policy, now, {}),
                                .next_step = advice.next_step,
                                .retry_after = advice.retry_after};
}

// --- Reading and settling ------------------------------------------------------------------------

Ledger::Advice Ledger::Advise(const Entry& entry, bool reveal, const NamespacePolicy& policy,
                              SystemTime now) {
  switch (entry.state) {
    case OperationState::kPending:
      return {NextStep::kReserveAgain, AskAgainIn(entry, now)};
    case OperationState::kUnresolved: {
      const Grant grant = AssessGrant(entry, policy, now);
      if (!grant.at.has_value()) return {};
      if (grant.IsNow(now)) return {NextStep::kProceed, std::nullopt};
      return {NextStep::kReserveAgain, *grant.at - now};
    }
    case OperationState::kComplete:
    case OperationState::kExpired:
      return {AdviseEnded(entry, reveal), std::nullopt};
    case OperationState::kFreed:
    case OperationState::kUnspecified:
      break;
  }
  return {NextStep::kProceed, std::nullopt};
}

absl::StatusOr<GetOperationResponse> Ledger::Get(const GetOperationRequest& request,
                                                 SystemTime now) {
  if (absl::Status wrong = CheckId(request.id); !wrong.ok()) return wrong;
  if (request.wait_duration < Duration(0)) return Invalid("wait_duration");
  const NamespacePolicy& policy = PolicyOf(request.id);
  const Entry* entry = At(request.id, now);
  if (entry == nullptr) return Refuse(ErrorReason::kOperationNotFound);
  // What a Reserve would be told that shows the request.
  Advice advice = Advise(*entry, true, policy, now);
  const bool compared = request.fingerprint.has_value() && entry->state != OperationState::kFreed;
  if (compared && !IsSameRequest(*entry, request.fingerprint, policy)) {
    advice = Advice{AdviseMismatch(*entry, request.fingerprint), std::nullopt};
  }
  return GetOperationResponse{
      .operation = View(*entry, policy, now, ShownTo(*entry, request.fingerprint)),
      .next_step = advice.next_step,
      .retry_after = advice.retry_after};
}

absl::StatusOr<Operation> Ledger::Resolve(const ResolveRequest& request, SystemTime now) {
  if (absl::Status wrong = CheckId(request.id); !wrong.ok()) return wrong;
  if (request.actor.empty()) return Invalid("actor");
  if (request.reason.empty()) return Invalid("reason");
  const bool completed = request.resolution == ResolveRequest::Resolution::kCompleted;
  if (completed && !IsFinalVerdict(request.verdict)) return Invalid("completed.verdict");
  const NamespacePolicy& policy = PolicyOf(request.id);
  Entry* entry = At(request.id, now);
  if (entry == nullptr) return Refuse(ErrorReason::kOperationNotFound);
  const auto view = [&] { return View(*entry, policy, now, Shown{.digest = true}); };
  if (entry->resolution == request.resolution && entry->resolution_said == Said(request)) {
    return view();
  }
  if (!request.etag.empty() && request.etag != view().etag) {
    return Refuse(ErrorReason::kEtagMismatch);
  }
  if (entry->state == OperationState::kPending) {
    return Refuse(ErrorReason::kLeaseLive, {}, entry->lease_end - now);
  }
  const bool better_known = entry->kept.verdict == Verdict::kAbandoned && completed;
  if (entry->state != OperationState::kUnresolved && !better_known) {
    return Refuse(ErrorReason::kWrongState);
  }
  const bool not_executed = request.resolution == ResolveRequest::Resolution::kNotExecuted;
  if (not_executed && now < entry->unknown->since + policy.settle) {
    return Refuse(ErrorReason::kNotSettled, {}, entry->unknown->since + policy.settle - now);
  }
  entry->resolution = request.resolution;
  entry->resolution_said = Said(request);
  if (not_executed) {
    entry->Free(now, std::max(policy.expired_memory, kFreedMemory));
  } else {
    if (!request.provider_request_id.empty()) {
      entry->kept.provider_request_id = request.provider_request_id;
    }
    entry->Finish(completed ? request.verdict : Verdict::kAbandoned,
                  completed ? Stored(request.response, policy) : std::nullopt, policy.retention,
                  policy, now);
  }
  entry->Touch(now);
  return view();
}

absl::StatusOr<ListOperationsResponse> Ledger::List(const ListOperationsRequest& request,
                                                    SystemTime now) {
  if (absl::Status wrong = CheckList(request); !wrong.ok()) return wrong;
  const bool oldest_first = request.states == std::vector{OperationState::kUnresolved};
  std::map<std::string, Operation> found;
  for (const OperationId& id : Ids()) {
    const Entry* entry = At(id, now);
    if (entry == nullptr || !IsListed(*entry, request, now)) continue;
    const std::string place = PlaceInList(*entry, oldest_first);
    if (place > request.page_token) found.emplace(place, View(*entry, PolicyOf(id), now, Shown{}));
  }
  ListOperationsResponse page;
  const size_t size = request.page_size == 0 ? 100 : std::min<size_t>(request.page_size, 1000);
  std::string last;
  for (auto& [place, operation] : found) {
    if (page.operations.size() == size) {
      page.next_page_token = last;
      break;
    }
    page.operations.push_back(std::move(operation));
    last = place;
  }
  return page;
}

}  // namespace idempotency::testing
