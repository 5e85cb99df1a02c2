// What the process ends with. deploy/README.md and the units there go by these.
#ifndef IDEMPOTENCY_SERVICE_PROCESS_EXIT_CODES_H_
#define IDEMPOTENCY_SERVICE_PROCESS_EXIT_CODES_H_

namespace idempotency::service {

inline constexpr int kExitStopped = 0;
inline constexpr int kExitCannotStart = 1;
inline constexpr int kExitWrongUsage = 2;
inline constexpr int kExitEngineDead = 70;
// Accepted commands were still running when the drain had to end. All that was acknowledged is
// durable; the rest is unknown to its callers, who send it again.
inline constexpr int kExitNotDrained = 71;

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_PROCESS_EXIT_CODES_H_
