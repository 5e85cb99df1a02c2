#include "idempotency/classification.h"

#include <string_view>
#include <utility>
#include <variant>

#include "client/src/classification_table.h"

namespace idempotency {
namespace internal {
namespace {

constexpr Classification kSucceeded{.disposition = Disposition::kSucceeded};
constexpr Classification kFailed{.disposition = Disposition::kFailed};
constexpr Classification kNothingHappened{.disposition = Disposition::kNothingHappened};

constexpr Classification Unknown(UnresolvedCause cause) {
  return Classification{.disposition = Disposition::kUnknown, .cause = cause};
}

struct GrpcRow {
  int code;
  Classification means;
};

// Numbers and names are those of google.rpc.Code.
constexpr GrpcRow kGrpcRows[] = {
    {0 /* OK */, kSucceeded},
    // Usually the caller's own doing, while the call was on its way.
    {1 /* CANCELLED */, Unknown(UnresolvedCause::kOwnerCancelled)},
    {2 /* UNKNOWN */, Unknown(UnresolvedCause::kServerError)},
    {3 /* INVALID_ARGUMENT */, kFailed},
    {4 /* DEADLINE_EXCEEDED */, Unknown(UnresolvedCause::kTimeout)},
    {5 /* NOT_FOUND */, kFailed},
    {6 /* ALREADY_EXISTS */, kFailed},  // on the first attempt
    {7 /* PERMISSION_DENIED */, kNothingHappened},
    {8 /* RESOURCE_EXHAUSTED */, kNothingHappened},  // with a retry_after
    {9 /* FAILED_PRECONDITION */, kFailed},
    // A conflict while it was being worked on: rolled back, or not.
    {10 /* ABORTED */, Unknown(UnresolvedCause::kServerError)},
    {11 /* OUT_OF_RANGE */, kFailed},
    {12 /* UNIMPLEMENTED */, kFailed},
    {13 /* INTERNAL */, Unknown(UnresolvedCause::kServerError)},
    // Also what a connection says that broke after the request was sent.
    {14 /* UNAVAILABLE */, Unknown(UnresolvedCause::kConnectionLost)},
    {15 /* DATA_LOSS */, Unknown(UnresolvedCause::kServerError)},
    {16 /* UNAUTHENTICATED */, kNothingHappened},
};

constexpr int kAlreadyExists = 6;
constexpr int kResourceExhausted = 8;

Classification ByGrpcCode(int code, const EffectResult& result) {
  // What exists may be what an earlier attempt made.
  if (code == kAlreadyExists && result.attempt > 1) return Unknown(UnresolvedCause::kOther);
  // Without a time to come back it need not be a limit that was met before the work began.
  if (code == kResourceExhausted && !result.retry_after) {
    return Unknown(UnresolvedCause::kServerError);
  }
  for (const GrpcRow& row : kGrpcRows) {
    if (row.code == code) return row.means;
  }
  return Unknown(UnresolvedCause::kOther);
}

struct HttpRow {
  int first;
  int last;
  Classification means;
};

// The first row that fits.
constexpr HttpRow kHttpRows[] = {
    {200, 299, kSucceeded},
    // Send the same request elsewhere: it was not done here.
    {307, 308, kFailed},
    // A redirect after a POST usually follows its success.
    {300, 399, Unknown(UnresolvedCause::kOther)},
    {401, 401, kNothingHappened},
    {403, 403, kNothingHappened},
    // Servers find out that they have no acceptable answer after they have done the work.
    {406, 406, Unknown(UnresolvedCause::kServerError)},
    {407, 407, kNothingHappened},
    // Also sent by proxies that waited for the server.
    {408, 408, Unknown(UnresolvedCause::kTimeout)},
    // The same key, or an earlier attempt, may be what it conflicts with.
    {409, 409, Unknown(UnresolvedCause::kServerError)},
    // Meant for another server, which this one is not.
    {421, 421, kNothingHappened},
    {423, 423, Unknown(UnresolvedCause::kServerError)},
    // A part of the work failed; others may be done.
    {424, 424, Unknown(UnresolvedCause::kServerError)},
    {425, 425, kNothingHappened},
    {429, 429, kNothingHappened},
    // What proxies note of a connection that was closed before the answer.
    {499, 499, Unknown(UnresolvedCause::kConnectionLost)},
    {400, 498, kFailed},
    {504, 504, Unknown(UnresolvedCause::kTimeout)},
    {500, 599, Unknown(UnresolvedCause::kServerError)},
};

Classification ByHttpStatus(int status) {
  for (const HttpRow& row : kHttpRows) {
    if (row.first <= status && status <= row.last) return row.means;
  }
  return Unknown(UnresolvedCause::kOther);
}

UnresolvedCause CauseOf(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return UnresolvedCause::kTimeout;
    case absl::StatusCode::kUnavailable:
      return UnresolvedCause::kConnectionLost;
    case absl::StatusCode::kCancelled:
      return UnresolvedCause::kOwnerCancelled;
    default:  // absl keeps the list open
      return UnresolvedCause::kOther;
  }
}

}  // namespace

std::optional<Classification> ByCertainty(const EffectResult& result) {
  switch (result.certainty) {
    case EffectResult::Certainty::kClassify:
      return std::nullopt;
    case EffectResult::Certainty::kNothingHappened:
      return kNothingHappened;
    case EffectResult::Certainty::kUnknown:
      return Unknown(CauseOf(result.error));
  }
  return std::nullopt;
}

std::optional<Classification> ByStatus(const EffectResult& result) {
  if (!result.response) return std::nullopt;
  const auto& status = result.response->status;
  if (const auto* http = std::get_if<CachedResponse::HttpStatus>(&status)) {
    return ByHttpStatus(http->code);
  }
  if (const auto* grpc = std::get_if<CachedResponse::GrpcCode>(&status)) {
    return ByGrpcCode(grpc->code, result);
  }
  return std::nullopt;
}

Classification NoAnswer(const EffectResult& result) { return Unknown(CauseOf(result.error)); }

}  // namespace internal

EffectResult EffectResult::Answered(CachedResponse response) {
  EffectResult result;
  result.response = std::move(response);
  return result;
}

EffectResult EffectResult::Failed(absl::Status error) {
  EffectResult result;
  result.error = std::move(error);
  return result;
}

EffectResult EffectResult::NothingHappened(absl::Status why) {
  EffectResult result = Failed(std::move(why));
  result.certainty = Certainty::kNothingHappened;
  return result;
}

Classification ClassifyGrpc(const EffectResult& result) {
  if (const auto certain = internal::ByCertainty(result)) return *certain;
  if (const auto by_status = internal::ByStatus(result)) return *by_status;
  if (result.response) return internal::kSucceeded;
  if (result.error.ok()) return internal::NoAnswer(result);
  return internal::ByGrpcCode(static_cast<int>(result.error.code()), result);
}

Classification ClassifyHttp(const EffectResult& result) {
  if (const auto certain = internal::ByCertainty(result)) return *certain;
  if (const auto by_status = internal::ByStatus(result)) return *by_status;
  return internal::NoAnswer(result);
}

}  // namespace idempotency
