#include "client/src/json_number.h"

#include <algorithm>
#include <cstdint>

namespace idempotency::internal {
namespace {

// ECMAScript writes integers up to 21 digits and fractions from 1e-6 on without exponent.
constexpr int64_t kMaxPlainIntegerDigits = 21;
constexpr int64_t kMaxPlainFractionZeros = 5;
// The largest exponent that can be read, and so the largest that is written.
constexpr int64_t kMaxExponent = 999'999'999;

std::optional<int64_t> ReadExponent(bool negative, std::string_view digits) {
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.size() > kMaxJsonExponentDigits) return std::nullopt;
  int64_t value = 0;
  for (char digit : digits) value = value * 10 + (digit - '0');
  return negative ? -value : value;
}

std::string Zeros(int64_t count) { return std::string(static_cast<size_t>(count), '0'); }

// 0.digits * 10^point, as ECMAScript's Number::toString would write it.
std::string Write(const std::string& digits, int64_t point) {
  const auto count = static_cast<int64_t>(digits.size());
  if (count <= point && point <= kMaxPlainIntegerDigits) return digits + Zeros(point - count);
  if (0 < point && point <= kMaxPlainIntegerDigits) {
    const auto before = static_cast<size_t>(point);
    return digits.substr(0, before) + "." + digits.substr(before);
  }
  if (-kMaxPlainFractionZeros <= point && point <= 0) {
    return std::string("0.").append(Zeros(-point)).append(digits);
  }
  const int64_t exponent = point - 1;
  std::string text = digits.substr(0, 1);
  if (count > 1) text.append(".").append(digits, 1);
  text += exponent < 0 ? "e-" : "e+";
  return text + std::to_string(exponent < 0 ? -exponent : exponent);
}

}  // namespace

std::optional<std::string> CanonicalNumber(const JsonNumberParts& parts) {
  const std::optional<int64_t> exponent = ReadExponent(parts.exponent_negative, parts.exponent);
  if (!exponent) return std::nullopt;
  std::string digits(parts.integer);
  digits += parts.fraction;
  const size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return "0";
  digits.erase(digits.find_last_not_of('0') + 1);
  digits.erase(0, first);
  const int64_t point =
      static_cast<int64_t>(parts.integer.size()) - static_cast<int64_t>(first) + *exponent;
  if (point - 1 > kMaxExponent || point - 1 < -kMaxExponent) return std::nullopt;
  return std::string(parts.negative ? "-" : "").append(Write(digits, point));
}

}  // namespace idempotency::internal
