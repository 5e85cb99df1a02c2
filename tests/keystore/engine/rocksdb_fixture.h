// RocksDB engines for tests: small, on a clock that the test moves, in a directory of their own;
// and their store opened behind the engine's back.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_ROCKSDB_FIXTURE_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_ROCKSDB_FIXTURE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/time.h"
#include "keystore/engine/rocksdb_engine.h"
#include "keystore/engine/rocksdb_store.h"
#include "keystore/engine/stored_value.h"
#include "tests/support/temp_directory.h"

namespace idempotency::keystore {

// What engines log and what time it is, for any thread.
class Surroundings {
 public:
  core::Now now() const;
  void SetNow(const core::Now& now);
  void Log(int level, std::string_view line);
  // Whether a line at or above `level` holds `text`.
  bool Logged(int level, std::string_view text) const;
  size_t lines() const;
  // Waits until there is one; false where none comes in half a minute.
  bool WaitForLog(int level, std::string_view text) const;

 private:
  bool LoggedLocked(int level, std::string_view text) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  core::Now now_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<int, std::string>> lines_ ABSL_GUARDED_BY(mutex_);
};

class RocksDbFixture {
 public:
  RocksDbFixture();

  // What the next Open uses; a test may change it.
  RocksDbOptions options;
  Surroundings& surroundings() { return *surroundings_; }
  const TempDirectory& directory() const { return directory_; }
  std::string data_dir() const { return options.engine.data_dir; }

  // Keys that responses are sealed with, as files; from the next Open on. The same id always
  // names the same key.
  void AddKey(const std::string& id);
  void RemoveKey(const std::string& id);
  // Empty: none is current.
  void MakeCurrent(const std::string& id);

  // Opens the engine, closing the one that is open; null and a failed test where that fails.
  RocksDbEngine* Open();
  // The status that opening gives; nothing stays open.
  absl::Status TryOpen();
  void Close() { engine_.reset(); }
  bool has_engine() const { return engine_ != nullptr; }
  RocksDbEngine& engine() { return *engine_; }

  // The store without its engine, which must be closed. No compaction filter is set.
  std::unique_ptr<RocksDbStore> OpenStore();
  // What a family holds under a key, behind the engine's back; nullopt: nothing.
  std::optional<std::string> Stored(Family family, const core::Key& key);
  // Puts bytes there; the engine is closed for it and opened again.
  void Plant(Family family, const core::Key& key, const std::string& bytes);

 private:
  TempDirectory directory_;
  std::shared_ptr<Surroundings> surroundings_;
  std::unique_ptr<RocksDbEngine> engine_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_ROCKSDB_FIXTURE_H_
