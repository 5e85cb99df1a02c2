#include "tests/client/lib/reserve_rows.h"

#include <cstdint>
#include <map>

namespace idempotency {

StopReason StopOf(const std::string& name) {
  const std::map<std::string, StopReason> reasons = {
      {"", StopReason::kNone},
      {"IN_PROGRESS", StopReason::kInProgress},
      {"UNRESOLVED", StopReason::kUnresolved},
      {"MISMATCH", StopReason::kMismatch},
      {"ANSWER_GONE", StopReason::kAnswerGone},
      {"ABANDONED", StopReason::kAbandoned},
      {"TOO_OLD", StopReason::kTooOld},
      {"NOTHING_HAPPENED", StopReason::kNothingHappened},
      {"CANCELLED", StopReason::kCancelled},
      {"UNAVAILABLE", StopReason::kUnavailable},
      {"REFUSED", StopReason::kRefused},
      {"INVALID", StopReason::kInvalid}};
  return reasons.at(name);
}

CachedResponse ResponseOf(const VectorRow& row) {
  CachedResponse response;
  if (row.Has("http_status")) {
    response.status = CachedResponse::HttpStatus{static_cast<int>(row.Number("http_status"))};
  }
  if (row.Has("grpc_code")) {
    response.status = CachedResponse::GrpcCode{static_cast<int>(row.Number("grpc_code"))};
  }
  if (row.Has("body")) response.body = row.Text("body");
  return response;
}

ReserveResponse ReserveOf(const VectorRow& row) {
  ReserveResponse response;
  const int64_t outcome = row.Number("outcome", -1);
  response.outcome = outcome >= 0 ? static_cast<ReserveOutcome>(outcome)
                                  : WordOf(row.Text("outcome"), ReserveOutcome::kTooOld);
  const int64_t next_step = row.Number("next_step", -1);
  response.next_step = next_step >= 0 ? static_cast<NextStep>(next_step)
                                      : WordOf(row.Text("next_step"), NextStep::kStop);
  if (row.Has("retry_after_ms")) response.retry_after = Duration{row.Number("retry_after_ms")};
  response.operation.emplace();
  if (row.Has("verdict")) {
    response.operation->verdict = WordOf(row.Text("verdict"), Verdict::kAbandoned);
  }
  if (row.Has("response")) response.operation->response = ResponseOf(row.Row("response"));
  return response;
}

}  // namespace idempotency
