// Whose turn it is: namespaces take turns, and in each of them its scopes, so that nobody waits for
// all that somebody else has sent. A pure decision; it knows commands by numbers.
//
//   order.Push(tenant, 17, 1);
//   ...
//   uint64_t next = order.Pop();      // of each tenant in the order in which it pushed
//
// Deficit round robin, by what commands cost: whoever is visited gets kQuantum of credit and is
// served for as long as it has any; what the last command costs above that is owed. A tenant that
// has nothing queued loses its credit, and not its debt.
//
// Thread safety: none.
#ifndef IDEMPOTENCY_KEYSTORE_FAIR_ORDER_H_
#define IDEMPOTENCY_KEYSTORE_FAIR_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"

namespace idempotency::keystore {

// Who has sent a command, by hashes of names: two of one hash share a turn.
struct TenantId {
  uint64_t name_space = 0;
  uint64_t scope = 0;  // of both names; 0: no tenant is known

  friend bool operator==(const TenantId&, const TenantId&) = default;
};

class FairOrder {
 public:
  // How much of a tenant is served before the next one's turn, in the unit of costs.
  static constexpr int64_t kQuantum = 8;
  // Tenants without commands are forgotten when there are more of them.
  static constexpr size_t kMaxIdleTenants = 1024;
  static constexpr size_t kLongLine = 16;

  // `cost`: at least 1.
  void Push(const TenantId& tenant, uint64_t number, uint32_t cost);
  // There must be one.
  uint64_t Pop();
  // Forgets the numbers that are not `wanted` any more.
  void Keep(absl::FunctionRef<bool(uint64_t number)> wanted);

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  // Whether more than one tenant has something.
  bool is_shared() const {
    return namespaces_.turns.size() > 1 ||
           (!namespaces_.turns.empty() && namespaces_.turns.front()->scopes.turns.size() > 1);
  }
  // Whether those who have something have much each: a few tenants with long lines, and not many
  // with short ones.
  bool has_long_lines() const { return size_ > kLongLine * busy_scopes_; }
  size_t QueuedOf(const TenantId& tenant) const;
  // At most how many are served before what this tenant would push now, as long as nobody else
  // pushes, if all cost the same.
  size_t AheadOf(const TenantId& tenant) const;
  // Tenants that are known.
  size_t tenants() const { return scopes_.size(); }

 private:
  // Those with something to do, the next one in front.
  template <typename Child>
  struct Round {
    std::deque<Child*> turns;

    // Whose turn it is; there must be one.
    Child* Next();
  };

  struct Entry {
    uint64_t number = 0;
    uint32_t cost = 1;
  };
  struct Namespace;
  struct Scope {
    Namespace* name_space = nullptr;
    std::deque<Entry> entries;
    int64_t credit = 0;
  };
  struct Namespace {
    Round<Scope> scopes;
    int64_t credit = 0;
  };

  Scope* ScopeOf(const TenantId& tenant);
  const Scope* Find(const TenantId& tenant) const;
  void ForgetIdle();

  Round<Namespace> namespaces_;
  // Nodes stay where they are.
  absl::node_hash_map<uint64_t, Namespace> by_namespace_;
  absl::node_hash_map<uint64_t, Scope> scopes_;
  // The one that pushed last: mostly the next one, too.
  uint64_t last_id_ = 0;
  Scope* last_ = nullptr;
  size_t busy_scopes_ = 0;  // that have entries
  size_t size_ = 0;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_FAIR_ORDER_H_
