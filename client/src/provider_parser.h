// Reads a profile from the JSON of client/contracts (its README says what each field means).
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_PROVIDER_PARSER_H_
#define IDEMPOTENCY_CLIENT_SRC_PROVIDER_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "idempotency/providers.h"

namespace idempotency::internal {

// INVALID_ARGUMENT where the text is no profile; the message names the field.
absl::StatusOr<ProviderProfile> ParseProviderProfile(std::string_view json_text);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_PROVIDER_PARSER_H_
