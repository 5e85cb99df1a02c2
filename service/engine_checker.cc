#include "service/engine_checker.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"

namespace idempotency::service {
namespace {

// Each looks for seconds, and all see the same.
constexpr size_t kMaxQueued = 4;

constexpr keystore::NamedCheck kTrusted(
    "clock.trusted",
    "While the clock is in doubt nothing expires, and no unknown outcome is attempted again.");
constexpr keystore::NamedCheck kSynchronised(
    "clock.synchronised",
    "Leases, retention and what a provider remembers are counted by this machine's clock.");

}  // namespace

std::vector<keystore::Finding> JudgeClock(const core::Now& now, bool synchronised) {
  return {now.in_doubt ? kTrusted.Warning("the clock has jumped, and nobody has confirmed it",
                                          "have the machine's clock synchronised; where it is "
                                          "right, restart with --trust_clock")
                       : kTrusted.Ok("the clock has not jumped"),
          synchronised ? kSynchronised.Ok("the kernel says that its clock is synchronised")
                       : kSynchronised.NotChecked(
                             "the kernel does not say that its clock is synchronised",
                             "see to it that chrony or another NTP client runs on the machine "
                             "(chronyc tracking)")};
}

EngineChecker::EngineChecker(keystore::Engine* engine, keystore::Clock* clock)
    : engine_(engine), clock_(clock), worker_(kMaxQueued) {}

bool EngineChecker::Start(Done done) {
  return worker_.Run([this, done = std::move(done)]() mutable {
    if (stopping_) {
      return std::move(done)(
          absl::CancelledError("the server is stopping; ask again when it is back"));
    }
    std::move(done)(CheckNow());
  });
}

EngineChecker::Result EngineChecker::CheckNow() {
  Result result{.check = engine_->CheckStore()};
  const core::Now now = clock_->Read();
  result.time = now.latest;
  for (keystore::Finding& finding : JudgeClock(now, keystore::KernelSaysSynchronised())) {
    result.check.findings.push_back(std::move(finding));
  }
  return result;
}

}  // namespace idempotency::service
