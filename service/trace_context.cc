#include "service/trace_context.h"

#include <algorithm>

#include "keystore/core/limits.h"

namespace idempotency::service {
namespace {

// version "-" trace-id "-" parent-id "-" flags
constexpr size_t kVersionDigits = 2;
constexpr size_t kTraceIdAt = 3;
constexpr size_t kTraceIdDigits = 32;
constexpr size_t kParentIdAt = 36;
constexpr size_t kParentIdDigits = 16;
constexpr size_t kFlagsAt = 53;
constexpr size_t kFlagsDigits = 2;
constexpr size_t kBytes = 55;

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsId(std::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

// A later version may say more behind the flags.
bool HasItsLength(std::string_view text, std::string_view version) {
  if (text.size() == kBytes) return true;
  return text.size() > kBytes && text.size() <= core::kMaxShortTextBytes && version != "00" &&
         text[kBytes] == '-';
}

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

bool IsTraceparent(std::string_view text) {
  const std::string_view version = text.substr(0, kVersionDigits);
  if (!HasItsLength(text, version) || !IsHex(version) || version == "ff") return false;
  if (text[kTraceIdAt - 1] != '-' || text[kParentIdAt - 1] != '-' || text[kFlagsAt - 1] != '-') {
    return false;
  }
  return IsId(text.substr(kTraceIdAt, kTraceIdDigits)) &&
         IsId(text.substr(kParentIdAt, kParentIdDigits)) &&
         IsHex(text.substr(kFlagsAt, kFlagsDigits)) && IsPrintable(text.substr(kBytes));
}

keystore::TraceId TraceContext::id() const {
  keystore::TraceId id{};
  if (traceparent.empty()) return id;
  static_assert(id.size() == kTraceIdDigits);
  std::copy_n(traceparent.data() + kTraceIdAt, kTraceIdDigits, id.begin());
  return id;
}

}  // namespace idempotency::service
