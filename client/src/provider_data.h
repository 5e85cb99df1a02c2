// The texts of client/contracts/*.json, compiled in (library.cmake makes the source).
#ifndef IDEMPOTENCY_CLIENT_SRC_PROVIDER_DATA_H_
#define IDEMPOTENCY_CLIENT_SRC_PROVIDER_DATA_H_

#include <string_view>
#include <vector>

namespace idempotency::internal {

std::vector<std::string_view> ProviderTexts();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_PROVIDER_DATA_H_
