// What answers mean, in one sentence for a log or a person.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_SENTENCES_H_
#define IDEMPOTENCY_SERVICE_SENTENCES_H_

#include <string_view>

#include "keystore/core/outcome.h"
#include "keystore/core/record.h"
#include "keystore/quota.h"

namespace idempotency::service {

// Why Reserve was answered so, and what to do.
std::string_view DescribeReserve(const core::ReserveAnswer& answer);

// Which quota is used up, and what to do.
std::string_view DescribeQuota(const keystore::QuotaExcess& excess);

// What a Reserve of the same request would be told of `record`, and why.
std::string_view DescribeNext(const core::Record& record, core::NextStep next_step);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_SENTENCES_H_
