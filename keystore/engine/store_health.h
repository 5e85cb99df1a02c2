// How RocksDB stands, as it tells itself: whether writes are slowed down or stopped, and
// whether it has given up writing.
//
// Thread safety: all methods may be called from any thread; RocksDB calls the listener's on its
// own, in places where it must not be called back.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_STORE_HEALTH_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_STORE_HEALTH_H_

#include <rocksdb/listener.h>
#include <rocksdb/status.h>

#include <atomic>
#include <string_view>
#include <utility>

#include "keystore/engine/engine_log.h"

namespace idempotency::keystore {

class StoreHealth final : public rocksdb::EventListener {
 public:
  explicit StoreHealth(LogFunction log) : log_(std::move(log)) {}

  bool alive() const { return alive_.load(); }
  // For good. Logs the first time.
  void Die(std::string_view why);

  bool stalled() const { return stalled_.load(); }
  // What RocksDB says when it is asked. Logs a change.
  void SetStalled(bool stalled);
  // Whether it may say something else than before. RocksDB gives its notices late and out of
  // order (of a stopped write only when that goes on), so that they are hints and no more.
  bool TakeStallHint() { return stall_hint_.exchange(false); }
  bool stall_hinted() const { return stall_hint_.load(); }

  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override;
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason, rocksdb::Status error,
                            bool* auto_recovery) override;

 private:
  const LogFunction log_;
  std::atomic<bool> alive_{true};
  std::atomic<bool> stalled_{false};
  std::atomic<bool> stall_hint_{false};
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_STORE_HEALTH_H_
