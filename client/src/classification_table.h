// The steps of which classifiers are made; each says nothing (nullopt) where it does not apply.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_CLASSIFICATION_TABLE_H_
#define IDEMPOTENCY_CLIENT_SRC_CLASSIFICATION_TABLE_H_

#include <optional>

#include "idempotency/classification.h"

namespace idempotency::internal {

// What the caller is certain of.
std::optional<Classification> ByCertainty(const EffectResult& result);

// By the HTTP status or the gRPC code of the answer.
std::optional<Classification> ByStatus(const EffectResult& result);

// The call ended without an answer: unknown, with the cause that its error shows.
Classification NoAnswer(const EffectResult& result);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_CLASSIFICATION_TABLE_H_
