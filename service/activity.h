// Feeds the log and the metrics with what the key store and the edge do.
//
// At info: lapses, operations that become unresolved, late completions, mismatches, refusals and
// administrative acts; of refusals for load a few a second (refusal_lines.h). One line a command
// only at debug.
#ifndef IDEMPOTENCY_SERVICE_ACTIVITY_H_
#define IDEMPOTENCY_SERVICE_ACTIVITY_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <string_view>

#include "keystore/core/outcome.h"
#include "keystore/core/record.h"
#include "keystore/key_store.h"
#include "service/error_table.h"
#include "service/identity/authenticator.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/refusal_lines.h"
#include "service/verb.h"

namespace idempotency::service {

// Thread safety: all methods may be called from any thread; none blocks.
class Activity final : public keystore::Observer {
 public:
  // Both must outlive it. `on_engine_dead` is called at most once and must not block.
  Activity(Log* log, Metrics* metrics, std::function<void()> on_engine_dead);
  // Tells what is still untold.
  ~Activity() override;

  void OnAnswer(const keystore::Request& request, const core::Answer& answer) override;
  void OnLapse(const core::Key& key, const core::Record& record) override;
  void OnUnreadable(const core::Key& key) override;
  void OnCommit(size_t commands, size_t writes, std::chrono::nanoseconds took) override;
  void OnEngineDead() override;

  // A call that was refused before it came to the key store. `name_space` as sent, `row` its row.
  void OnRefused(Verb verb, const Failure& failure, std::string_view name_space, uint32_t row = 0,
                 const keystore::TraceId& trace_id = {});
  // A call that does not go to the key store was answered.
  void OnAnswered(Verb verb, uint32_t row);
  void OnTook(Verb verb, std::chrono::nanoseconds took, bool has_waited) {
    metrics_->OnTook(verb, took, has_waited);
  }
  // A call was refused because nobody is known to make it. `peer`: the address that it came from.
  void OnUnauthenticated(Verb verb, const Authentication& who, std::string_view peer,
                         const keystore::TraceId& trace_id = {});
  // The clock has jumped and nobody has confirmed it, or somebody has.
  void OnClockDoubt(bool in_doubt);
  void OnClockMarkFailed(std::string_view why);
  // A new key was refused; the refusal itself is told like any other.
  void OnQuotaExceeded(const keystore::QuotaExcess& excess) { metrics_->OnQuotaExceeded(excess); }

 private:
  void Count(const keystore::Request& request, const core::Answer& answer);
  // Whether a refusal is told by itself; tells how many were not.
  bool IsTold(core::Reason reason);
  void TellUntold(core::Reason reason, uint64_t count);
  // Warns of what a new operation keeps that looks like personal data or a credential.
  void WarnOfSensitive(const keystore::Request& request, const core::Record& record);
  void WarnIfSensitive(std::string_view name_space, std::string_view field, std::string_view text);

  Log* const log_;
  Metrics* const metrics_;
  const std::function<void()> on_engine_dead_;
  RefusalLines refusals_;
  std::atomic<bool> engine_dead_{false};
  std::atomic<bool> clock_mark_failed_{false};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_ACTIVITY_H_
