#include "idempotency/http_edge.h"

#include <algorithm>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/src/json.h"

namespace idempotency {
namespace {

// --- Problem documents --------------------------------------------------------------------

enum class Case : uint8_t {
  kKeyMissing,
  kKeyInvalid,
  kInProgress,
  kKeyReused,
  kUnresolved,
  kAnswerGone,
  kClosed,
  kTooOld,
  kFailed,
  kNothingHappened,
  kUnavailable,
  kQuotaExceeded,
  kForbidden,
  kInternal,
};

enum class RetryAfter : uint8_t { kNever, kIfKnown, kAlways };

struct Row {
  Case problem;
  int status;
  RetryAfter retry_after;
  const char* name;
  const char* title;
  const char* detail;
};

constexpr Row kRows[] = {
    {Case::kKeyMissing, 400, RetryAfter::kNever, "key-missing", "Idempotency-Key is missing",
     "Send one key for each operation in the Idempotency-Key field, and the same one with every "
     "retry."},
    {Case::kKeyInvalid, 400, RetryAfter::kNever, "key-invalid", "Idempotency-Key is not valid",
     "Send one key in the Idempotency-Key field, as a string in quotes or as plain characters, "
     "within the length that is allowed."},
    {Case::kInProgress, 409, RetryAfter::kAlways, "in-progress",
     "A request with this Idempotency-Key is in progress",
     "Send the same request with the same key again after the time in Retry-After."},
    {Case::kKeyReused, 422, RetryAfter::kNever, "key-reused",
     "Idempotency-Key was used for another request",
     "Send the request that the key was first used for, or a key of its own for this one."},
    {Case::kUnresolved, 409, RetryAfter::kIfKnown, "unresolved",
     "The outcome of this operation is not known",
     "It may have happened. Do not send it with another key; ask what became of it, or send the "
     "same request with the same key later."},
    {Case::kAnswerGone, 409, RetryAfter::kNever, "answer-gone",
     "This operation has ended, and its answer is no longer kept",
     "Do not send it with another key; look up what it did."},
    {Case::kClosed, 409, RetryAfter::kNever, "closed",
     "This operation was closed without a known outcome",
     "It will not be attempted again under this key."},
    {Case::kTooOld, 409, RetryAfter::kNever, "too-old", "Nothing is known of an operation this old",
     "Look up whether it happened before sending it anew."},
    {Case::kFailed, 409, RetryAfter::kNever, "failed", "This operation has failed",
     "It ended without the wanted effect; a new try is a new operation with its own key."},
    {Case::kNothingHappened, 503, RetryAfter::kAlways, "nothing-happened",
     "This operation could not be done now, and had no effect",
     "Send the same request with the same key again after the time in Retry-After."},
    {Case::kUnavailable, 503, RetryAfter::kAlways, "unavailable",
     "This operation could not be started",
     "Send the same request with the same key again after the time in Retry-After."},
    {Case::kQuotaExceeded, 429, RetryAfter::kAlways, "quota-exceeded",
     "There are too many new operations",
     "Send the same request with the same key again after the time in Retry-After."},
    {Case::kForbidden, 403, RetryAfter::kNever, "forbidden", "This operation is not allowed",
     "Ask for access to it."},
    {Case::kInternal, 500, RetryAfter::kNever, "internal",
     "This operation could not be checked for repetition",
     "Nothing was started. Report this with the time it happened."},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].problem) != i) return false;
  }
  return std::size(kRows) == static_cast<size_t>(Case::kInternal) + 1;
}
static_assert(InOrder(), "one row a problem, in the order of the enum");

internal::JsonMember Text(const char* name, std::string text) {
  return {name, {.kind = internal::JsonValue::Kind::kString, .text = std::move(text)}};
}

// Whole seconds, at least 1; nullopt: waiting does not help.
std::optional<int64_t> RetrySeconds(const Row& row, std::optional<Duration> retry_after) {
  if (row.retry_after == RetryAfter::kNever) return std::nullopt;
  if (row.retry_after == RetryAfter::kIfKnown && !retry_after) return std::nullopt;
  const Duration span = retry_after.value_or(Duration{0});
  return std::max<int64_t>(std::chrono::ceil<std::chrono::seconds>(span).count(), 1);
}

HttpAnswer Problem(Case problem, NextStep next_step, std::optional<Duration> retry_after,
                   const ProblemOptions& options) {
  const Row& row = kRows[static_cast<size_t>(problem)];
  HttpAnswer answer;
  answer.status = row.status;
  answer.headers = {{"Content-Type", "application/problem+json"}, {"Cache-Control", "no-store"}};
  internal::JsonValue document{.kind = internal::JsonValue::Kind::kObject};
  document.members = {
      Text("type", absl::StrCat(options.type_prefix, row.name)),
      Text("title", row.title),
      {"status", {.kind = internal::JsonValue::Kind::kNumber, .text = absl::StrCat(row.status)}},
      Text("detail", row.detail)};
  if (next_step != NextStep::kUnspecified) {
    document.members.push_back(Text("next_step", std::string(Name(next_step))));
  }
  if (const std::optional<int64_t> seconds = RetrySeconds(row, retry_after)) {
    answer.headers.emplace_back("Retry-After", absl::StrCat(*seconds));
  }
  answer.body = internal::WriteCanonicalJson(document);
  return answer;
}

// --- Stored answers -----------------------------------------------------------------------

// The HTTP status that google/rpc/code.proto gives each code, by number.
constexpr int kStatusOfGrpcCode[] = {200, 499, 500, 400, 504, 404, 409, 403, 429,
                                     400, 409, 400, 501, 500, 503, 500, 401};

int StatusOfGrpcCode(int code) {
  const bool known = code >= 0 && static_cast<size_t>(code) < std::size(kStatusOfGrpcCode);
  return known ? kStatusOfGrpcCode[code] : 500;
}

// What frames a message or belongs to one connection is for the server to write, and the
// marker is this answer's own.
constexpr absl::string_view kOwnFields[] = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "content-type",
    "idempotency-replayed",
    "set-cookie",
};

bool MayBeReplayed(const std::string& name, const std::string& value) {
  constexpr std::string_view kTokenMarks = "!#$%&'*+-.^_`|~";
  const bool token = !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kTokenMarks.find(c) != std::string_view::npos;
  });
  // A line break would begin another field.
  const bool one_line = value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos;
  return token && one_line &&
         std::none_of(std::begin(kOwnFields), std::end(kOwnFields),
                      [&](absl::string_view own) { return absl::EqualsIgnoreCase(own, name); });
}

int StatusOf(const CachedResponse& response) {
  if (const auto* http = std::get_if<CachedResponse::HttpStatus>(&response.status)) {
    // An interim status or none at all can end no exchange.
    return http->code >= 200 && http->code <= 599 ? http->code : 500;
  }
  if (const auto* grpc = std::get_if<CachedResponse::GrpcCode>(&response.status)) {
    return StatusOfGrpcCode(grpc->code);
  }
  return response.body ? 200 : 204;
}

HttpAnswer Stored(const CachedResponse& response, bool replayed) {
  HttpAnswer answer;
  answer.status = StatusOf(response);
  if (!response.content_type.empty() && MayBeReplayed("Any-Name", response.content_type)) {
    answer.headers.emplace_back("Content-Type", response.content_type);
  }
  for (const auto& [name, value] : response.metadata) {
    if (MayBeReplayed(name, value)) answer.headers.emplace_back(name, value);
  }
  if (replayed) answer.headers.emplace_back(std::string(kReplayedFieldName), "true");
  answer.body = response.body;
  return answer;
}

// What has ended: with an answer, without one, or with one that is not here any more.
HttpAnswer Ended(Verdict verdict, const std::optional<CachedResponse>& response, bool replayed,
                 const ProblemOptions& options) {
  if (verdict == Verdict::kAbandoned) {
    return Problem(Case::kClosed, NextStep::kStop, std::nullopt, options);
  }
  if (response && response->body_omitted && !response->body) {
    return Problem(Case::kAnswerGone, NextStep::kLookUpAnswer, std::nullopt, options);
  }
  const bool has_status = response && !std::holds_alternative<std::monostate>(response->status);
  // A failure without a status of its own must not look like a success.
  if (has_status || verdict != Verdict::kFailed) {
    return Stored(response.value_or(CachedResponse{}), replayed);
  }
  HttpAnswer answer = Problem(Case::kFailed, NextStep::kUnspecified, std::nullopt, options);
  if (replayed) answer.headers.emplace_back(std::string(kReplayedFieldName), "true");
  return answer;
}

// --- Refusals -----------------------------------------------------------------------------

Case CaseOfField(const std::string& field) {
  // What the HTTP client decides: its key.
  return field == "id.key" ? Case::kKeyInvalid : Case::kInternal;
}

Case CaseOf(const Refusal& refusal) {
  switch (refusal.reason) {
    case ErrorReason::kInvalidField:
      return CaseOfField(refusal.field);
    case ErrorReason::kAccessDenied:
      return Case::kForbidden;
    case ErrorReason::kQuotaExceeded:
      return Case::kQuotaExceeded;
    case ErrorReason::kOverloaded:
    case ErrorReason::kStoreFull:
    case ErrorReason::kStoreUnavailable:
      return Case::kUnavailable;
    case ErrorReason::kRecordUnreadable:
      return Case::kUnresolved;
    case ErrorReason::kUnspecified:
    case ErrorReason::kNamespaceNotFound:
    case ErrorReason::kOperationNotFound:
    case ErrorReason::kStaleFencingToken:
    case ErrorReason::kUnknownFencingToken:
    case ErrorReason::kLeaseLapsed:
    case ErrorReason::kAlreadyComplete:
    case ErrorReason::kAttemptFinished:
    case ErrorReason::kOutcomeUnknown:
    case ErrorReason::kLeaseLive:
    case ErrorReason::kNotSettled:
    case ErrorReason::kWrongState:
    case ErrorReason::kEtagMismatch:
      return Case::kInternal;
  }
  return Case::kInternal;
}

HttpAnswer Refuse(const Refusal& refusal, const ProblemOptions& options) {
  return Problem(CaseOf(refusal), NextStep::kUnspecified, refusal.retry_after, options);
}

}  // namespace

HttpAnswer AnswerKeyProblem(KeyProblem problem, const ProblemOptions& options) {
  const Case which = problem == KeyProblem::kMissing ? Case::kKeyMissing : Case::kKeyInvalid;
  return Problem(which, NextStep::kUnspecified, std::nullopt, options);
}

HttpAnswer AnswerRun(const RunResult& result, const ProblemOptions& options) {
  const auto problem = [&](Case which) {
    return Problem(which, result.next_step, result.retry_after, options);
  };
  switch (result.stop) {
    case StopReason::kNone:
      return Ended(result.verdict, result.response, result.replayed, options);
    case StopReason::kInProgress:
      return problem(Case::kInProgress);
    case StopReason::kUnresolved:
      return problem(Case::kUnresolved);
    case StopReason::kMismatch:
      return problem(Case::kKeyReused);
    case StopReason::kAnswerGone:
      return problem(Case::kAnswerGone);
    case StopReason::kAbandoned:
      return problem(Case::kClosed);
    case StopReason::kTooOld:
      return problem(Case::kTooOld);
    case StopReason::kNothingHappened:
    case StopReason::kCancelled:
      return problem(Case::kNothingHappened);
    case StopReason::kUnavailable:
      return problem(Case::kUnavailable);
    case StopReason::kRefused:
      return Refuse(result.refusal.value_or(Refusal{}), options);
    case StopReason::kInvalid:
      return problem(Case::kInternal);
  }
  return problem(Case::kInternal);
}

std::optional<HttpAnswer> AnswerReserve(const ReserveResponse& response,
                                        const ProblemOptions& options) {
  const auto problem = [&](Case which) {
    return Problem(which, response.next_step, response.retry_after, options);
  };
  const Operation operation = response.operation.value_or(Operation{});
  switch (response.next_step) {
    case NextStep::kProceed:
    case NextStep::kProceedUnlessStarted:
      return std::nullopt;
    case NextStep::kReserveAgain:
      return problem(response.outcome == ReserveOutcome::kUnresolved ? Case::kUnresolved
                                                                     : Case::kInProgress);
    case NextStep::kUseResponse:
      return Ended(operation.verdict, operation.response, true, options);
    case NextStep::kLookUpAnswer:
      return problem(Case::kAnswerGone);
    case NextStep::kReconcileFirst:
      return problem(response.outcome == ReserveOutcome::kTooOld ? Case::kTooOld
                                                                 : Case::kUnresolved);
    case NextStep::kSettleOtherFirst:
    case NextStep::kUseOwnKey:
      return problem(Case::kKeyReused);
    case NextStep::kStop:
    case NextStep::kUnspecified:
      return problem(Case::kClosed);
  }
  // A step that this library does not know is to be taken as STOP.
  return problem(Case::kClosed);
}

HttpAnswer AnswerReserveError(const absl::Status& status, const ProblemOptions& options) {
  if (const std::optional<Refusal> refusal = Refused(status)) return Refuse(*refusal, options);
  return Problem(Case::kUnavailable, NextStep::kUnspecified, std::nullopt, options);
}

}  // namespace idempotency
