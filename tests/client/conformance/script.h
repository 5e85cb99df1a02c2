// From the words of tests/vectors/conformance.json to values of the client; its README says what
// the fields mean. What a field is where a step has none, too.
#ifndef IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_SCRIPT_H_
#define IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_SCRIPT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "idempotency/classification.h"
#include "idempotency/client.h"
#include "idempotency/connection.h"
#include "nlohmann/json.hpp"

namespace idempotency::testing {

using Json = nlohmann::json;

std::string FromHex(const std::string& digits);
std::string ToHex(const std::string& bytes);

std::string TextOf(const Json& step, const char* field, const std::string& otherwise = "");
bool FlagOf(const Json& step, const char* field, bool otherwise = false);
// Milliseconds; nullopt where the step has none.
std::optional<Duration> SpanOf(const Json& step, const char* field);
Duration SpanOr(const Json& step, const char* field, int64_t otherwise_ms);

absl::StatusCode CodeOf(const std::string& name);
ErrorReason ReasonOf(const std::string& name);
Verdict VerdictOf(const Json& step);
UnresolvedCause CauseOf(const std::string& name);
OperationState StateOf(const std::string& name);
// nullopt where there is none.
std::optional<CachedResponse> ResponseOf(const Json& step, const char* field);
std::optional<Fingerprint> FingerprintOf(const Json& step);
EffectResult EffectOf(const Json& effect);
LookUp LookUpOf(const Json& look_up);
Classifier ClassifierOf(const Json& step);

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_SCRIPT_H_
