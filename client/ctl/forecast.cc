#include "client/ctl/forecast.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/ctl/duration_text.h"
#include "client/ctl/enum_text.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

using Answer = Forecast::Answer;

Forecast Refuses(std::string reason, std::string message) {
  return {Answer::kRefuses, std::move(reason), std::move(message)};
}

Forecast Unknown(std::string reason, std::string message) {
  return {Answer::kUnknown, std::move(reason), std::move(message)};
}

// The resolve that holds: since it nobody has acquired the operation, and its owner has not
// reported what really happened. Null where there is none.
const v1::Event* SettledBy(const v1::Operation& seen) {
  for (auto event = seen.history().rbegin(); event != seen.history().rend(); ++event) {
    if (event->kind() == v1::EVENT_KIND_RESOLVED) return &*event;
    if (event->kind() == v1::EVENT_KIND_ACQUIRED || event->kind() == v1::EVENT_KIND_COMPLETED) {
      return nullptr;
    }
  }
  return nullptr;
}

// Whether a resolve like this one can have left the operation with this verdict. A freed one has
// none, whatever freed it.
bool MayHaveLeft(const v1::ResolveOperationRequest& request, v1::Verdict verdict) {
  if (request.has_abandoned()) return verdict == v1::VERDICT_ABANDONED;
  if (verdict == v1::VERDICT_UNSPECIFIED) return true;
  return request.has_completed() ? verdict == request.completed().verdict()
                                 : verdict != v1::VERDICT_ABANDONED;
}

Forecast OfSettled(const v1::ResolveOperationRequest& request, const v1::Event& settled,
                   absl::Time now) {
  // Nothing else of it is compared.
  if (request.has_abandoned()) return {};
  return Unknown("WRONG_STATE",
                 absl::StrCat("it was settled ", AgeText(FromProto(settled.time()), now), " by ",
                              settled.actor(), ": a repeat of that is taken, all else refused"));
}

// Since when the outcome is unknown, as far as the history goes back: what was marked after its
// lease had lapsed counts from the lapse.
absl::Time UnknownSince(const v1::Operation& seen) {
  absl::Time since = FromProto(seen.update_time());
  for (auto event = seen.history().rbegin(); event != seen.history().rend(); ++event) {
    // A later attempt that did nothing leaves the earlier one's unknown.
    if (event->attempt() != seen.attempt()) continue;
    if (event->kind() == v1::EVENT_KIND_ACQUIRED) break;
    if (event->kind() == v1::EVENT_KIND_LEASE_LAPSED ||
        event->kind() == v1::EVENT_KIND_MARKED_UNRESOLVED) {
      since = std::min(since, FromProto(event->time()));
    }
  }
  return since;
}

Forecast OfNotExecuted(const v1::Operation& seen, std::optional<absl::Duration> settle,
                       absl::Time now) {
  if (!settle) {
    return Unknown("NOT_SETTLED",
                   "the settle_duration of its namespace is not shown; not-executed is refused "
                   "until it has passed");
  }
  const absl::Time until = UnknownSince(seen) + *settle;
  if (now >= until) return {};
  return Refuses("NOT_SETTLED", absl::StrCat("the owner's call may still arrive; try again ",
                                             AgeText(until, now)));
}

}  // namespace

Forecast ForecastResolve(const v1::ResolveOperationRequest& request, const v1::Operation& seen,
                         std::optional<absl::Duration> settle, absl::Time now) {
  // A repeat has moved the etag itself, and is taken whatever the etag says.
  const v1::Event* const settled = SettledBy(seen);
  if (settled != nullptr && MayHaveLeft(request, seen.verdict())) {
    return OfSettled(request, *settled, now);
  }
  if (!request.etag().empty() && request.etag() != seen.etag()) {
    return Refuses("ETAG_MISMATCH", "it has changed since it was seen");
  }
  if (seen.state() == v1::OPERATION_STATE_PENDING) {
    return Refuses("LEASE_LIVE", absl::StrCat("an owner is at work; its lease ends ",
                                              AgeText(FromProto(seen.lease_expire_time()), now)));
  }
  // What was given up may be known after all.
  if (seen.verdict() == v1::VERDICT_ABANDONED && request.has_completed()) return {};
  if (seen.state() != v1::OPERATION_STATE_UNRESOLVED) {
    return Refuses("WRONG_STATE",
                   absl::StrCat("it is ", EnumText(seen.state()), ", and not UNRESOLVED"));
  }
  return request.has_not_executed() ? OfNotExecuted(seen, settle, now) : Forecast{};
}

}  // namespace idempotency::ctl
