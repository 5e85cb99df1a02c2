// Tells other instances which operations have ended, and learns it from them: by LISTEN and NOTIFY
// where the server has them, and behind that by looking at what was found pending. For speed only:
// whatever is lost here costs a waiter the end of a lease.
//
// NOTIFY goes out after the commit, in a transaction of its own: as a part of the commit it would
// let no two of them commit at once.
//
// Thread safety: all methods may be called from any thread; a thread of its own does the work.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_FOREIGN_CHANGES_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_FOREIGN_CHANGES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/record.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/postgres/pg_connection.h"
#include "keystore/engine/postgres/postgres_schema.h"
#include "keystore/engine/postgres/postgres_session.h"

namespace idempotency::keystore {

// What is watched or still to be told beyond this is forgotten.
inline constexpr size_t kMaxForeignKeys = 4096;

class ForeignChanges {
 public:
  using Hint = std::function<void(const core::Key&)>;

  // `sessions` must outlive it: what is asked is where they are, or as new.
  ForeignChanges(std::string uri, PgOptions options, SessionShared* sessions);
  ~ForeignChanges();

  void Start(int64_t instance);
  void SetHint(Hint hint) ABSL_LOCKS_EXCLUDED(mutex_);
  // How many other instances there are; where there are none, nothing is told or watched.
  void SetOthers(size_t others);
  bool has_others() const { return others_.load() != 0; }

  // Stored keys of operations that this instance has ended.
  void Tell(std::vector<std::string> keys) ABSL_LOCKS_EXCLUDED(mutex_);
  // The operation was found pending in this version: somebody may want to know of its end.
  void Watch(std::string_view key, Version version) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  bool Connect();
  // To the server alone that `options` name.
  absl::Status ConnectTo(const PgOptions& options);
  void TellAll() ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeTold() ABSL_LOCKS_EXCLUDED(mutex_);
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveHint(std::string_view key) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string uri_;
  const PgOptions options_;
  SessionShared* const sessions_;
  int64_t instance_ = 0;
  std::atomic<size_t> others_{0};
  std::atomic<bool> stop_{false};
  PgWaker waker_;

  absl::Mutex mutex_;
  std::shared_ptr<const Hint> hint_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> to_tell_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Version> watched_ ABSL_GUARDED_BY(mutex_);

  // Of the thread.
  std::unique_ptr<PgConnection> connection_;
  PostgresPlace place_;
  std::string schema_;
  bool listens_ = false;
  std::thread thread_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_FOREIGN_CHANGES_H_
