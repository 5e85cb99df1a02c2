// Keys, commands and records as a payment service would send them, each made from a number, so
// that every run measures the same bytes.
#ifndef IDEMPOTENCY_TESTS_BENCH_MICRO_INGREDIENTS_H_
#define IDEMPOTENCY_TESTS_BENCH_MICRO_INGREDIENTS_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "keystore/core/command.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::bench {

inline constexpr core::Time kNow{core::Duration{1'700'000'000'000}};

// A UUID in namespace "payments", scope "tenant-7".
core::Key KeyOf(uint64_t number);
// With a SHA-256 fingerprint, an owner and a traceparent.
core::ReserveCommand ReserveOf(uint64_t number);
// With a JSON body of 100 bytes.
core::CompleteCommand CompleteOf(uint64_t number, uint64_t token);
std::shared_ptr<const core::Policy> DefaultPolicy();

// What Step makes of these.
core::RecordPtr PendingRecord(uint64_t number, uint64_t token);
core::RecordPtr CompleteRecord(uint64_t number, uint64_t token);

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_MICRO_INGREDIENTS_H_
