// Exact decimal numbers in the notation of RFC 8785.
//
// RFC 8785 writes a number as ECMAScript prints the nearest double, which loses digits: two
// different amounts could look the same. Here every digit counts and nothing is rounded:
//
//   the same value gets the same text      1, 1.0, 1e0 and 10e-1 are all 1; 0, -0 and 0.0e7 are 0
//   different values get different texts   9007199254740993 is not 9007199254740992
//
// The notation (no superfluous zeros, where the point stands, when an exponent is used) is
// ECMAScript's, so that the text is that of RFC 8785 for every number that RFC 8785 keeps exact.
#ifndef IDEMPOTENCY_CLIENT_SRC_JSON_NUMBER_H_
#define IDEMPOTENCY_CLIENT_SRC_JSON_NUMBER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::internal {

// Digits of an exponent, leading zeros not counted: of the one that is read, and of the one that
// is written.
inline constexpr size_t kMaxJsonExponentDigits = 9;

struct JsonNumberParts {
  bool negative = false;
  std::string_view integer;   // digits
  std::string_view fraction;  // digits; may be empty
  bool exponent_negative = false;
  std::string_view exponent;  // digits; may be empty
};

// nullopt where either exponent has too many digits.
std::optional<std::string> CanonicalNumber(const JsonNumberParts& parts);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_JSON_NUMBER_H_
