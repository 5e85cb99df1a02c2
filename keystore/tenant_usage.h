// What each namespace and each scope uses, for quotas: which of their operations are open, how many
// Reserves a second they have sent, how many bytes they take in the engine.
//
// Open operations are exact, as far as this process writes them: lanes tell of every record that
// is open when the store is loaded, and of every decision from then on, the moment it is made, so
// that a batch of Reserves cannot overtake its own count. (A batch that cannot be committed ends an
// exclusive engine, and its counts with it. For an engine with other writers the counts are those
// of this process alone.)
//
// Tables are by hash: names would take several times the space, and two of one 64-bit hash would be
// counted as one. An open operation takes about 30 bytes, a scope about 150. Scopes without open
// operations are forgotten when there are many, which costs them no more than a fresh burst.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_TENANT_USAGE_H_
#define IDEMPOTENCY_KEYSTORE_TENANT_USAGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/quota.h"
#include "keystore/token_bucket.h"

namespace idempotency::keystore {

// How long bytes that were asked for are taken as still right.
inline constexpr core::Duration kBytesAskedAgain = std::chrono::seconds(1);
// More scopes without open operations than that, and than there are others, are forgotten.
inline constexpr size_t kMaxIdleTenants = 16'384;

class TenantUsage {
 public:
  // Bytes of a namespace (no scope given) or of a scope; nothing where the engine cannot say.
  using StoredBytes = std::function<std::optional<uint64_t>(std::string_view name_space,
                                                            std::optional<std::string_view> scope)>;

  // Before the first question; without it nothing is known of bytes.
  void AskBytesOf(StoredBytes stored_bytes) { stored_bytes_ = std::move(stored_bytes); }

  // The operation is PENDING or UNRESOLVED now, or it is not; either may be said again.
  void SetOpen(const core::Key& key, bool open) ABSL_LOCKS_EXCLUDED(mutex_);

  // Which quota speaks against a new operation at this key. `counts`: it is a Reserve that was not
  // asked about before, and takes its share of those of its second.
  std::optional<QuotaExcess> Ask(const core::Key& key, const core::Policy& policy, core::Time now,
                                 bool counts) ABSL_LOCKS_EXCLUDED(mutex_);

  // Without a scope: of all the namespace.
  uint64_t OpenIn(std::string_view name_space, std::optional<std::string_view> scope) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Namespaces and scopes that are known.
  size_t tenants() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Tenant {
    uint64_t open = 0;
    Tenant* name_space = nullptr;  // of a scope; null: it is a namespace itself
    TokenBucket reserves;
    uint64_t stored_bytes = 0;
    core::Time bytes_asked;  // unset: not yet
  };
  // Tenants stay where they are.
  using Tenants = absl::node_hash_map<uint64_t, Tenant>;

  Tenant& TenantOf(std::string_view name_space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Tenant& TenantOf(std::string_view name_space, std::string_view scope)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<QuotaExcess> AskOne(Tenant* tenant, const core::Quota& quota, const core::Key& key,
                                    bool of_scope, core::Time now, bool counts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StoredBytes stored_bytes_;
  mutable absl::Mutex mutex_;
  // The scopes of open operations, by the hash of their key.
  absl::flat_hash_map<uint64_t, Tenant*> open_ ABSL_GUARDED_BY(mutex_);
  Tenants namespaces_ ABSL_GUARDED_BY(mutex_);
  Tenants scopes_ ABSL_GUARDED_BY(mutex_);
  size_t open_scopes_ ABSL_GUARDED_BY(mutex_) = 0;  // that have open operations
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_TENANT_USAGE_H_
