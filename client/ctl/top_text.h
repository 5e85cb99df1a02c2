// The screen of `top`. Pure.
#ifndef IDEMPOTENCY_CLIENT_CTL_TOP_TEXT_H_
#define IDEMPOTENCY_CLIENT_CTL_TOP_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "client/ctl/metrics.h"

namespace idempotency::ctl {

// How the server stands at `now`, and what it did in the `span` since `before`. Empty `before`:
// since it started.
std::string TopText(const Metrics& before, const Metrics& now, absl::Duration span);

// The value below which a share of what a histogram has gathered between the two lies, in the
// histogram's unit: the bound of its bucket, so that it is at most as precise as those. Negative:
// nothing was gathered. Only of samples with this label.
double Quantile(const Metrics& before, const Metrics& now, const std::string& histogram,
                const std::string& label, const std::string& value, double share);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_TOP_TEXT_H_
