#include "client/src/run.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/src/acquire.h"
#include "client/src/held_attempt.h"
#include "client/src/report.h"
#include "client/src/unprotected_attempt.h"

namespace idempotency::internal {
namespace {

constexpr char kTimeoutTooLong[] =
    "call_timeout: longer than the lease, and renewal is off; shorten it, ask for a longer "
    "lease_duration, or leave renewal on";

std::optional<std::string> WhatIsWrong(const RunContext& context) {
  const RunRequest& request = context.request;
  const RunOptions& options = context.options;
  if (request.id.name_space.empty()) return "id.name_space: empty; name the namespace";
  if (request.id.key.empty()) {
    return "id.key: empty; make the operation's key before its first try, and save it";
  }
  if (!context.fn) return "fn: empty; give the function that calls the provider";
  if (!options.classify) return "classify: empty; leave the default, or give a classifier";
  if (request.wait < Duration(0)) return "wait: negative; zero does not wait at all";
  if (request.lease_duration.has_value() && *request.lease_duration <= Duration(0)) {
    return "lease_duration: not above zero; leave it unset for the namespace's default";
  }
  if (!request.call_timeout.has_value()) return std::nullopt;
  if (*request.call_timeout <= Duration(0)) {
    return "call_timeout: not above zero; leave it unset for no limit but the lease";
  }
  if (!options.renew && request.lease_duration.has_value() &&
      *request.call_timeout > *request.lease_duration) {
    return kTimeoutTooLong;
  }
  return std::nullopt;
}

RunResult Invalid(const std::string& why) {
  return Stopped(StopReason::kInvalid, NextStep::kStop, why);
}

RunResult RunUnprotected(const RunContext& context) {
  UnprotectedAttempt attempt(context);
  EffectResult effect = context.fn(attempt);
  RunResult result = Unrecorded(JudgeEffect(std::move(effect), attempt.number(),
                                            attempt.may_have_started(), context.options));
  result.unprotected = true;
  result.detail = absl::StrCat("ran without protection, as the service could not be reached",
                               result.detail.empty() ? "" : "; ", result.detail);
  return result;
}

// nullopt: fn may be called.
std::optional<RunResult> FreeInstead(const RunContext& context, const HeldAttempt& held) {
  const Reporter reporter(context, held);
  if (context.IsCancelled()) {
    return reporter.Free(Stopped(StopReason::kCancelled, NextStep::kReserveAgain,
                                 "cancelled by the caller before the effect was started"),
                         "cancelled before the effect was started");
  }
  // The namespace's default lease is not known before.
  const std::optional<Duration> timeout = context.request.call_timeout;
  if (!context.options.renew && timeout.has_value() && *timeout > held.granted()) {
    return reporter.Free(Invalid(kTimeoutTooLong), "the call would outlast the lease");
  }
  return std::nullopt;
}

RunResult CallAndReport(const RunContext& context, HeldAttempt& held) {
  const Reporter reporter(context, held);
  held.Start();
  const absl::Cleanup stop_renewing = [&held] { held.StopRenewing(); };
  Judgement judgement;
  {
    // What fn did before it threw is not known. The exception goes on to the caller by itself.
    absl::Cleanup on_exception = [&] {
      held.LetGoOfFn();
      reporter.ReportException();
    };
    EffectResult effect = context.fn(held);
    held.LetGoOfFn();
    judgement = reporter.Judge(std::move(effect));
    std::move(on_exception).Cancel();
  }
  return reporter.Report(std::move(judgement));
}

}  // namespace

RunResult RunOnce(const RunContext& context) {
  if (const std::optional<std::string> wrong = WhatIsWrong(context)) return Invalid(*wrong);
  Acquisition acquisition = Acquirer(context).Acquire();
  if (acquisition.ended.has_value()) return *std::move(acquisition.ended);
  if (acquisition.unprotected) return RunUnprotected(context);
  HeldAttempt& held = *acquisition.held;
  if (std::optional<RunResult> freed = FreeInstead(context, held)) return *std::move(freed);
  return CallAndReport(context, held);
}

}  // namespace idempotency::internal
