// An engine that keeps everything in memory and nothing across a restart: for tests, and for
// --engine=memory. It behaves as the durable ones do, checks every guard, and answers before
// the call returns.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_MEMORY_ENGINE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_MEMORY_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/engine_log.h"

namespace idempotency::keystore {

class MemoryEngine final : public Engine {
 public:
  MemoryEngine() : MemoryEngine([](int, std::string_view) {}) {}
  explicit MemoryEngine(LogFunction log) : log_(std::move(log)) {}

  void Read(std::vector<core::Key> keys, ReadDone done) override ABSL_LOCKS_EXCLUDED(mutex_);
  // A record that breaks a rule of core/invariants.h is a bug: it is not written, and the
  // engine dies.
  void Commit(std::vector<GuardedWrite> writes, CommitDone done) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnForeignChange(std::function<void(const core::Key&)>) override {}
  Traits traits() const override { return Traits{}; }
  Pressure pressure() const override ABSL_LOCKS_EXCLUDED(mutex_);
  // Of keys and records, encoded: exact, and it looks at all of them.
  std::optional<uint64_t> StoredBytes(std::string_view name_space,
                                      std::optional<std::string_view> scope) const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  EngineCheck CheckStore() override;

 private:
  struct Entry {
    core::RecordPtr record;
    Version version = 0;
  };
  // By stored key (codec/key_codec.h), in the same order as in the durable engines.
  using Entries = std::map<std::string, Entry, std::less<>>;
  class Source;

  std::vector<WriteOutcome> Apply(const std::vector<GuardedWrite>& writes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  WriteOutcome ApplyOne(const GuardedWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LogFunction log_;
  mutable absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  Version last_version_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t token_floor_ ABSL_GUARDED_BY(mutex_) = 1;
  bool alive_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_MEMORY_ENGINE_H_
