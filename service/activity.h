// Feeds the log and the metrics with what the key store and the edge do.
//
// At info: lapses, operations that become unresolved, late completions, mismatches, refusals and
// administrative acts. One line a command only at debug.
#ifndef IDEMPOTENCY_SERVICE_ACTIVITY_H_
#define IDEMPOTENCY_SERVICE_ACTIVITY_H_

#include <atomic>
#include <functional>
#include <string_view>

#include "keystore/core/outcome.h"
#include "keystore/core/record.h"
#include "keystore/key_store.h"
#include "service/error_table.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/verb.h"

namespace idempotency::service {

// Thread safety: all methods may be called from any thread; none blocks.
class Activity final : public keystore::Observer {
 public:
  // Both must outlive it. `on_engine_dead` is called at most once and must not block.
  Activity(Log* log, Metrics* metrics, std::function<void()> on_engine_dead);

  void OnAnswer(const keystore::Request& request, const core::Answer& answer) override;
  void OnLapse(const core::Key& key, const core::Record& record) override;
  void OnUnreadable(const core::Key& key) override;
  void OnCommit(size_t commands, size_t writes) override;
  void OnEngineDead() override;

  // A call that was refused before it came to the key store. `name_space` as sent.
  void OnRefused(Verb verb, const Failure& failure, std::string_view name_space);
  // A new key that looks like something that should not be a key, and is let through.
  void OnSensitiveKey(std::string_view name_space, std::string_view looks_like);
  // The clock has jumped and nobody has confirmed it, or somebody has.
  void OnClockDoubt(bool in_doubt);
  void OnClockMarkFailed(std::string_view why);

 private:
  Log* const log_;
  Metrics* const metrics_;
  const std::function<void()> on_engine_dead_;
  std::atomic<bool> engine_dead_{false};
  std::atomic<bool> clock_mark_failed_{false};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_ACTIVITY_H_
