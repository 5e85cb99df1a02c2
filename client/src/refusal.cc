// How a refusal travels in an absl::Status:
//
//   payload = reason ' ' retry_after ' ' field     reason: number; retry_after: ms, or '-'
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "idempotency/connection.h"

namespace idempotency {
namespace {

constexpr char kRefusalType[] = "idempotency.v1/refusal";

std::string_view TakeWord(std::string_view* text) {
  const size_t end = std::min(text->find(' '), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

template <typename Number>
std::optional<Number> ToNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

absl::Status MakeRefused(const Refusal& refusal, absl::StatusCode code, std::string message) {
  absl::Status status(code, message);
  const std::string retry_after =
      refusal.retry_after ? absl::StrCat(refusal.retry_after->count()) : "-";
  status.SetPayload(kRefusalType, absl::Cord(absl::StrCat(static_cast<int>(refusal.reason), " ",
                                                          retry_after, " ", refusal.field)));
  return status;
}

std::optional<Refusal> Refused(const absl::Status& status) {
  const auto payload = status.GetPayload(kRefusalType);
  if (!payload) return std::nullopt;
  const std::string bytes(*payload);
  std::string_view text = bytes;
  const std::optional<uint8_t> reason = ToNumber<uint8_t>(TakeWord(&text));
  if (!reason) return std::nullopt;
  Refusal refusal;
  refusal.reason = static_cast<ErrorReason>(*reason);
  if (const auto milliseconds = ToNumber<int64_t>(TakeWord(&text))) {
    refusal.retry_after = Duration{*milliseconds};
  }
  refusal.field = std::string(text);
  return refusal;
}

}  // namespace idempotency
