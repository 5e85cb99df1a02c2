#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "client/src/grpc/metadata.h"
#include "client/src/grpc/status_details.h"
#include "idempotency/fingerprint_proto.h"
#include "idempotency/grpc.h"

namespace idempotency::internal {
namespace {

UnaryResult Invalid(std::string detail) {
  UnaryResult result;
  result.run.stop = StopReason::kInvalid;
  result.run.next_step = NextStep::kStop;
  result.run.detail = std::move(detail);
  result.status = grpc::Status(grpc::StatusCode::INTERNAL, result.run.detail);
  return result;
}

std::optional<std::string> WhatIsWrong(const UnaryOptions& options,
                                       const google::protobuf::Message& message,
                                       const google::protobuf::Message& response) {
  if (auto wrong = WhatIsWrongWithMethod(options.method, message, response)) return wrong;
  if (!IsLegal(options.key_metadata, options.key.value_or(""))) {
    return "key_metadata, key: not what metadata can carry; names are lower case, and keys "
           "printable "
           "ASCII";
  }
  if (options.key.has_value() && options.key->empty()) {
    return "key: empty; leave it unset for the provider key";
  }
  return std::nullopt;
}

// A call that ends by its deadline this soon is not cancelled: it timed out.
constexpr Duration kNearDeadline = std::chrono::milliseconds(100);

gpr_timespec After(Duration span) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(span.count(), GPR_TIMESPAN));
}

// The earlier of the two: what `setup` has asked for, and `limit` from now.
void LimitDeadline(Duration limit, grpc::ClientContext& context) {
  const gpr_timespec asked = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  const gpr_timespec end = After(limit);
  if (gpr_time_cmp(end, asked) < 0) context.set_deadline(end);
}

void CancelUnlessAtItsDeadline(grpc::ClientContext& context) {
  const gpr_timespec end = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(After(kNearDeadline), end) < 0) context.TryCancel();
}

// The one call of a Run.
class OneCall {
 public:
  OneCall(const RunRequest& request, const UnaryOptions& options,
          google::protobuf::Message* response, const UnaryCall& call)
      : request_(request), options_(options), response_(response), call_(call) {}

  EffectResult Make(Attempt& attempt) {
    if (attempt.should_stop()) {
      return EffectResult::NothingHappened(absl::CancelledError("stopped before the call"));
    }
    if (absl::Status may = attempt.Dispatch(); !may.ok()) {
      return EffectResult::NothingHappened(std::move(may));
    }
    grpc::ClientContext context;
    Prepare(attempt, context);
    const std::stop_callback on_stop(attempt.stop_token(),
                                     [&context] { CancelUnlessAtItsDeadline(context); });
    return ToEffect(call_(&context), context);
  }

 private:
  void Prepare(Attempt& attempt, grpc::ClientContext& context) const {
    if (options_.setup) options_.setup(context);
    context.AddMetadata(options_.key_metadata, options_.key.value_or(attempt.provider_key()));
    std::optional<Duration> limit = request_.call_timeout;
    if (!options_.run.renew) limit = std::min(limit.value_or(Duration::max()), attempt.remaining());
    if (limit.has_value()) LimitDeadline(*limit, context);
  }

  EffectResult ToEffect(const grpc::Status& status, const grpc::ClientContext& context) const {
    EffectResult effect = EffectResult::Answered(
        ToCachedResponse(status, *response_, ToMetadata(context.GetServerTrailingMetadata())));
    if (!status.ok()) {
      effect.error =
          absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
    }
    effect.retry_after = RetryAfterOf(status);
    const std::string& name = options_.request_id_metadata;
    if (name.empty()) return effect;
    effect.provider_request_id = FindValue(context.GetServerTrailingMetadata(), name);
    // A call that failed at once has none, and must not be asked for it.
    if (effect.provider_request_id.empty() && status.ok()) {
      effect.provider_request_id = FindValue(context.GetServerInitialMetadata(), name);
    }
    return effect;
  }

  const RunRequest& request_;
  const UnaryOptions& options_;
  google::protobuf::Message* const response_;
  const UnaryCall& call_;
};

}  // namespace

UnaryResult RunUnaryCall(const Client& client, const RunRequest& request,
                         const UnaryOptions& options, const google::protobuf::Message& message,
                         google::protobuf::Message* response, const UnaryCall& call) {
  response->Clear();
  if (auto wrong = WhatIsWrong(options, message, *response)) return Invalid(*std::move(wrong));
  RunRequest run = request;
  if (!run.fingerprint.has_value()) {
    auto fingerprint = FingerprintMessage(options.method, "", message, options.fingerprint);
    if (!fingerprint.ok()) return Invalid(std::string(fingerprint.status().message()));
    run.fingerprint = *std::move(fingerprint);
  }
  OneCall one(run, options, response, call);
  UnaryResult result;
  result.run = client.Run(
      run, [&one](Attempt& attempt) { return one.Make(attempt); }, options.run);
  if (result.run.stop == StopReason::kInvalid) return Invalid(result.run.detail);
  result.status = StatusOfRun(result.run);
  const bool readable = result.run.has_answer() && result.status.ok();
  if (!readable) response->Clear();
  if (result.run.response.has_value()) {
    const grpc::Status read = FromCachedResponse(
        *result.run.response, readable ? response : nullptr, &result.trailing_metadata);
    if (readable) result.status = read;
  }
  return result;
}

}  // namespace idempotency::internal
