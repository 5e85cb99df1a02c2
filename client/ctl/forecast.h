// What a server would answer to a resolve that is not sent, judged by what it shows. Pure.
#ifndef IDEMPOTENCY_CLIENT_CTL_FORECAST_H_
#define IDEMPOTENCY_CLIENT_CTL_FORECAST_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "idempotency/v1/admin_service.pb.h"

namespace idempotency::ctl {

struct Forecast {
  enum class Answer {
    kSettles,
    kRefuses,
    // The server does not show what it depends on.
    kUnknown,
  };
  Answer answer = Answer::kSettles;
  // kRefuses: the ErrorReason without its prefix. kUnknown: the one that it may be.
  std::string reason;
  // Why, and until when. Empty where it settles.
  std::string message;
};

// What `request` would meet now, in the order in which the server looks. `seen` has its history, as
// InspectOperation gives it. `settle`: the settle_duration of the operation's namespace today;
// unset: not known. An operation that was acquired under a longer one waits for that, which no
// answer shows: see kLongerSettle.
Forecast ForecastResolve(const v1::ResolveOperationRequest& request, const v1::Operation& seen,
                         std::optional<absl::Duration> settle, absl::Time now);

// Holds for every not_executed that is forecast to settle.
inline constexpr char kLongerSettle[] =
    "not-executed is refused for longer (NOT_SETTLED) where settle_duration was longer when the "
    "operation was acquired, which the server does not show, and by up to --clock_skew_ms where "
    "servers share a store";

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_FORECAST_H_
