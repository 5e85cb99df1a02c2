// How a command or call ended, as one of a few: for metrics.
#ifndef IDEMPOTENCY_SERVICE_CALL_OUTCOME_H_
#define IDEMPOTENCY_SERVICE_CALL_OUTCOME_H_

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

#include "keystore/core/names.h"
#include "keystore/core/outcome.h"

namespace idempotency::service {

// Reserve has an outcome of its own for each answer, every other method "ok"; a refusal has its
// reason.
class CallOutcome {
 public:
  static constexpr size_t kReserveOutcomes = 8;
  static constexpr size_t kReasons = 19;
  static constexpr size_t kCount = 1 + kReserveOutcomes + kReasons;

  constexpr CallOutcome() = default;
  constexpr explicit CallOutcome(core::ReserveOutcome outcome)
      : number_(static_cast<size_t>(outcome)) {}
  constexpr explicit CallOutcome(core::Reason reason)
      : number_(kReserveOutcomes + static_cast<size_t>(reason)) {}

  // Below kCount.
  constexpr size_t number() const { return number_; }

  // For example "ok", "acquired", "stale_fencing_token".
  static std::string NameOf(size_t number) {
    if (number == 0) return "ok";
    const std::string_view upper =
        number <= kReserveOutcomes
            ? core::Name(static_cast<core::ReserveOutcome>(number))
            : core::Name(static_cast<core::Reason>(number - kReserveOutcomes));
    std::string name;
    for (const char c : upper) {
      name.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
    return name;
  }

 private:
  size_t number_ = 0;
};
static_assert(CallOutcome(core::ReserveOutcome::kTooOld).number() == CallOutcome::kReserveOutcomes);
static_assert(CallOutcome(core::Reason::kRecordUnreadable).number() + 1 == CallOutcome::kCount);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_CALL_OUTCOME_H_
