// What a fuzz target holds to be true: where it is not, libFuzzer keeps the input.
#ifndef IDEMPOTENCY_TESTS_FUZZ_REQUIRE_H_
#define IDEMPOTENCY_TESTS_FUZZ_REQUIRE_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace idempotency::fuzz {

inline void Require(bool holds, std::string_view rule, std::string_view found = {}) {
  if (holds) return;
  std::fprintf(stderr, "BROKEN: %s\n%s\n", std::string(rule).c_str(), std::string(found).c_str());
  std::abort();
}

inline std::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace idempotency::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_REQUIRE_H_
