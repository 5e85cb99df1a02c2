// What an answer of the effect means for its operation: the one judgement that decides whether
// a caller is charged twice. Classifiers are values; the default tables are written out in
// classification.cc and in client/contracts/*.json, and can be replaced.
#ifndef IDEMPOTENCY_CLASSIFICATION_H_
#define IDEMPOTENCY_CLASSIFICATION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "idempotency/types.h"

namespace idempotency {

// What the caller's function saw of the effect.
struct EffectResult {
  // The provider answered; otherwise `error` says how the call ended.
  std::optional<CachedResponse> response;
  absl::Status error;
  std::string provider_request_id;
  // The provider's own code inside the answer, where a profile (providers.h) asks for one, for
  // example the code of the first of Shopify's userErrors. Empty: looked for, there is none;
  // unset: not looked for.
  std::optional<std::string> provider_code;
  // What the provider asked for.
  std::optional<Duration> retry_after;
  // Of the operation, from 1; set by Client::Run before it asks the classifier. Above 1 an
  // earlier attempt may have had its effect.
  uint32_t attempt = 1;
  // Set by a caller that knows better than any table.
  enum class Certainty : uint8_t { kClassify, kNothingHappened, kUnknown };
  Certainty certainty = Certainty::kClassify;

  static EffectResult Answered(CachedResponse response);
  static EffectResult Failed(absl::Status error);
  // The caller is certain that the effect did not happen, for example: never sent.
  static EffectResult NothingHappened(absl::Status why);
};

enum class Disposition : uint8_t {
  kSucceeded,        // complete, verdict SUCCEEDED: replay it
  kFailed,           // complete, verdict FAILED: final, the failure is the answer
  kNothingHappened,  // release: another attempt may be made
  kUnknown,          // mark unresolved: nobody knows
};

struct Classification {
  Disposition disposition = Disposition::kUnknown;
  UnresolvedCause cause = UnresolvedCause::kOther;  // kUnknown
  // kUnknown: no further attempt under any policy.
  bool reconcile_first = false;

  friend bool operator==(const Classification&, const Classification&) = default;
};

using Classifier = std::function<Classification(const EffectResult&)>;

// Both defaults take `certainty` first, judge an answer by the kind of its status (HTTP or
// gRPC), and call a result with neither an answer nor an error unknown. A landed effect that is
// taken for "nothing happened" is done twice, so what may hide one is unknown. That includes
// every call that ended without an answer: that a connection was refused before anything was
// sent is certain only to whoever made it, who says so with EffectResult::NothingHappened.
//
// By google.rpc.Code of the answer or the error (a stub's status tells no difference between the
// two); an answer without a status succeeded.
//
//   succeeded         OK
//   failed            INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, OUT_OF_RANGE,
//                     UNIMPLEMENTED; ALREADY_EXISTS on the first attempt (on a later one what
//                     exists may be the work of an earlier one: unknown)
//   nothing happened  UNAUTHENTICATED, PERMISSION_DENIED; RESOURCE_EXHAUSTED with a retry_after
//                     (without one it is also what gRPC says of an answer that was too large to
//                     receive: unknown)
//   unknown           CANCELLED (OWNER_CANCELLED), DEADLINE_EXCEEDED (TIMEOUT), UNAVAILABLE
//                     (CONNECTION_LOST), UNKNOWN, INTERNAL, ABORTED, DATA_LOSS (SERVER_ERROR),
//                     any other number (OTHER)
Classification ClassifyGrpc(const EffectResult& result);

// By HTTP status; without an answer unknown, with the cause that the error's code has above.
//
//   succeeded         2xx
//   failed            307, 308 (not done here) and 4xx, but for
//   nothing happened  401, 403, 407, 421, 425, 429
//   unknown           408 and 504 (TIMEOUT); 406, 409, 423, 424 and 5xx (SERVER_ERROR); 499
//                     (CONNECTION_LOST); other 3xx, as a redirect after a POST usually follows
//                     its success, and any other number (OTHER)
Classification ClassifyHttp(const EffectResult& result);

}  // namespace idempotency

#endif  // IDEMPOTENCY_CLASSIFICATION_H_
