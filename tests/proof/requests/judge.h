// Whether a refusal is what the contract says.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_TESTS_PROOF_REQUESTS_JUDGE_H_
#define IDEMPOTENCY_TESTS_PROOF_REQUESTS_JUDGE_H_

#include <string>
#include <vector>

#include "idempotency/v1/idempotency_service.pb.h"
#include "tests/proof/requests/spoiler.h"
#include "tests/proof/requests/wire.h"

namespace idempotency::proof {

// Each gives "" or what is wrong. `secrets`: what the caller sent, none of which may be repeated.

// Of a call that the service refused.
std::string JudgeRefusal(const Answer& answer, const Expected& expected,
                         const std::vector<std::string>& secrets);
// Of one command of several.
std::string JudgeError(const v1::Error& error, const Expected& expected,
                       const std::vector<std::string>& secrets);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_REQUESTS_JUDGE_H_
