// How many operations are UNRESOLVED, and since when: what an operator has to be told of. In memory
// only, kept by the lanes: for metrics, never for truth.
//
// Thread safety: all methods may be called from any thread; each key belongs to one lane, which
// tells of it in order. Where nothing is unresolved, Erase and Contains take no lock.
#ifndef IDEMPOTENCY_KEYSTORE_UNRESOLVED_H_
#define IDEMPOTENCY_KEYSTORE_UNRESOLVED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::keystore {

struct UnresolvedCount {
  std::string name_space;
  size_t operations = 0;  // at least one
  core::Time oldest;      // since when the oldest of them is unknown

  friend bool operator==(const UnresolvedCount&, const UnresolvedCount&) = default;
};

class UnresolvedOperations {
 public:
  // The operation is unresolved, and has been since then; replaces what was known of it.
  void Set(const core::Key& key, core::Time since) ABSL_LOCKS_EXCLUDED(mutex_);
  // It is not, or not any more.
  void Erase(const core::Key& key) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Contains(const core::Key& key) const ABSL_LOCKS_EXCLUDED(mutex_);

  // By namespace, in no order. Takes a few nanoseconds an operation.
  std::vector<UnresolvedCount> Count() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    int64_t since_ms = 0;
    uint32_t name = 0;  // its place in names_
  };

  std::atomic<size_t> size_{0};
  mutable absl::Mutex mutex_;
  // By the hash of the key: the keys would take ten times the space, and two of one hash would be
  // counted as one.
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // Namespaces that have had unresolved operations.
  absl::flat_hash_map<std::string, uint32_t> number_of_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_UNRESOLVED_H_
