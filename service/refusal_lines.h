// Which refusals that the service itself is the reason of (load, a full store, one that has died)
// are told one by one: so many a second. A flood of them says nothing that the first ones have not
// said, and would push everything else out of the log. Those in between are counted, and the
// count is told with the next line; metrics have all of them.
#ifndef IDEMPOTENCY_SERVICE_REFUSAL_LINES_H_
#define IDEMPOTENCY_SERVICE_REFUSAL_LINES_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "keystore/core/outcome.h"
#include "keystore/core/time.h"

namespace idempotency::service {

// Thread safety: all methods may be called from any thread; none blocks.
class RefusalLines {
 public:
  // Of each reason.
  static constexpr uint64_t kMostPerSecond = 10;

  // Whether it is the service's doing, and not the call's.
  static bool IsBounded(core::Reason reason) {
    return reason == core::Reason::kOverloaded || reason == core::Reason::kStoreFull ||
           reason == core::Reason::kStoreUnavailable;
  }

  // nullopt: it is not told by itself. Else how many were not since the last that was. `now` is
  // time that only rises, of any origin; where several threads meet at the end of a second a few
  // more are told.
  std::optional<uint64_t> Admit(core::Reason reason, core::Duration now) {
    if (!IsBounded(reason)) return 0;
    Told& told = told_[static_cast<size_t>(reason)];
    const int64_t second = std::chrono::floor<std::chrono::seconds>(now).count();
    if (told.second.exchange(second) != second) told.in_second = 0;
    if (told.in_second.fetch_add(1) < kMostPerSecond) return told.untold.exchange(0);
    ++told.untold;
    return std::nullopt;
  }

  // How many of the reason have not been told of, once; for the end.
  uint64_t TakeUntold(core::Reason reason) {
    return told_[static_cast<size_t>(reason)].untold.exchange(0);
  }

 private:
  struct Told {
    std::atomic<int64_t> second{-1};
    std::atomic<uint64_t> in_second{0};
    std::atomic<uint64_t> untold{0};
  };
  std::array<Told, static_cast<size_t>(core::Reason::kRecordUnreadable) + 1> told_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_REFUSAL_LINES_H_
