// One key in the test double's ledger, and what time alone does to it.
#ifndef IDEMPOTENCY_CLIENT_SRC_TESTING_LEDGER_ENTRY_H_
#define IDEMPOTENCY_CLIENT_SRC_TESTING_LEDGER_ENTRY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "idempotency/testing/in_process_connection.h"

namespace idempotency::testing {

enum class End : uint8_t { kNone, kLapsed, kCompleted, kReleased, kReleasedToUnknown, kMarked };

// One acquisition of the key.
struct Try {
  uint64_t token = 0;
  uint32_t number = 0;  // of the operation's attempts, from 1
  std::string id;
  End end = End::kNone;  // kNone: it holds the lease
  std::string said;      // what its ending verb reported, to recognise repeats

  friend bool operator==(const Try&, const Try&) = default;
};

struct Unknown {
  UnresolvedCause cause = UnresolvedCause::kOther;
  uint32_t attempt = 0;
  SystemTime since;
  SystemTime not_before;  // the earliest next attempt
  bool reconcile_first = false;
};

// When another attempt is granted. `at` unset: never.
struct Grant {
  std::optional<SystemTime> at;
  std::optional<SystemTime> lease_limit;

  bool IsNow(SystemTime now) const { return at.has_value() && *at <= now; }
};

// Thread safety: none.
struct Entry {
  // Fields that are shown as they are kept; state, times and what depends on who asks are put in
  // by View.
  Operation kept;
  OperationState state = OperationState::kPending;
  // Oldest first, the newest 8 and the one that holds the lease. Never empty.
  std::vector<Try> tries;
  uint64_t changes = 0;
  std::optional<std::string> progress;

  SystemTime acquire_time;
  SystemTime lease_end;
  // Whether the newest attempt's call may have started.
  bool started = false;
  std::optional<Unknown> unknown;  // UNRESOLVED
  std::optional<Unknown> earlier;  // what the newest attempt goes back to if it did nothing
  std::optional<SystemTime> response_end;
  std::optional<SystemTime> forget;
  std::optional<ResolveRequest::Resolution> resolution;
  std::string resolution_said;

  Try& newest() { return tries.back(); }
  const Try& newest() const { return tries.back(); }
  bool has_fingerprint() const { return kept.fingerprint != Fingerprint{}; }
  const Try* FindTry(uint64_t token) const;
  bool HasEnded(const std::string& attempt_id) const;

  void Touch(SystemTime at);
  void EndNewest(End end, std::string said);
  void BecomeUnknown(Unknown what, const NamespacePolicy& policy, SystemTime at);
  void ReturnToEarlier(const NamespacePolicy& policy, SystemTime at);
  void Free(SystemTime at, Duration memory);
  // COMPLETE, or FREED where nothing is kept.
  void Finish(Verdict verdict, std::optional<CachedResponse> response, Duration retention,
              const NamespacePolicy& policy, SystemTime at);
};

inline constexpr Duration kFreedMemory = std::chrono::minutes(10);

// What waits before the attempt after this one.
Duration Backoff(const NamespacePolicy& policy, uint32_t attempt);

// False: nothing is known of the key any more.
bool Observe(Entry& entry, const NamespacePolicy& policy, SystemTime now);

Grant AssessGrant(const Entry& entry, const NamespacePolicy& policy, SystemTime now);
std::optional<SystemTime> ProtectionEnd(const Entry& entry, const NamespacePolicy& policy);

struct Shown {
  bool digest = false;
  bool response = false;
};
Operation View(const Entry& entry, const NamespacePolicy& policy, SystemTime now, Shown shown);

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_CLIENT_SRC_TESTING_LEDGER_ENTRY_H_
