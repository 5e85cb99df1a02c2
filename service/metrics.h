// What is counted. An exporter implements Metrics; CountingMetrics keeps the numbers in memory.
#ifndef IDEMPOTENCY_SERVICE_METRICS_H_
#define IDEMPOTENCY_SERVICE_METRICS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "keystore/core/outcome.h"
#include "keystore/core/record.h"
#include "keystore/quota.h"
#include "service/call_outcome.h"
#include "service/identity/authenticator.h"
#include "service/verb.h"

namespace idempotency::service {

// What the audit writes.
enum class AuditLine : uint8_t {
  kAct,     // an administrative act begins
  kResult,  // how it ended
  kDenial,  // or how many of them were not told one by one
};
inline constexpr size_t kAuditLines = 3;

// Thread safety: called from any thread, also for every command; must not block.
class Metrics {
 public:
  virtual ~Metrics() = default;
  // A command was answered and not refused.
  virtual void OnAnswered(Verb verb) {}
  // Reserve also says with what.
  virtual void OnReserved(core::ReserveOutcome outcome) {}
  virtual void OnRefused(Verb verb, core::Reason reason) {}
  // Any of the three, at once; by the row of the namespace (namespace_rows.h).
  virtual void OnOutcome(Verb verb, CallOutcome outcome, uint32_t namespace_row) {}
  // How long it took from the request to its answer. `has_waited`: a lease's end was waited for.
  virtual void OnTook(Verb verb, std::chrono::nanoseconds took, bool has_waited) {}
  // A completion came with a response that is now stored; a stored one was replayed.
  virtual void OnResponseStored(size_t bytes) {}
  virtual void OnResponseReplayed(size_t bytes) {}
  // A response is stored without its body, since the engine takes none so large.
  virtual void OnBodyOmitted(uint32_t namespace_row) {}
  // A lease ended before its owner reported; `became` is what its end left.
  virtual void OnLapsed(core::State became) {}
  // A superseded owner reported a completion: the effect may have happened twice.
  virtual void OnLateCompletion() {}
  virtual void OnUnreadable() {}
  // A new operation was made with a text that looks like personal data or a credential, in this
  // field: "id.key", "id.scope", "labels" or "owner.operation_ref".
  virtual void OnSensitive(std::string_view field) {}
  // `took`: until the writes were durable.
  virtual void OnCommit(size_t commands, size_t writes, std::chrono::nanoseconds took) {}
  // A call was refused because nobody is known to make it; also told by OnRefused.
  virtual void OnUnauthenticated(AuthFault fault) {}
  // A file with credentials has changed: "tls", "tokens" or "jwks". Not good: it cannot be used,
  // and what was there before is.
  virtual void OnCredentialFile(std::string_view what, bool good) {}
  // A line of the audit was written, or could not be. An act is refused then.
  virtual void OnAudit(AuditLine line, bool written) {}
  // A backup was asked for and begun; whole: it was read back.
  virtual void OnBackup(bool whole) {}
  // The newest of all that are kept, those of earlier runs included.
  virtual void OnNewestBackup(core::Time made, uint64_t bytes) {}
  // A new key was refused since a quota is used up; also told by OnRefused.
  virtual void OnQuotaExceeded(const keystore::QuotaExcess& excess) {}
};

// Thread safety: all methods may be called from any thread.
class CountingMetrics final : public Metrics {
 public:
  struct Snapshot {
    std::array<uint64_t, kVerbs> answered{};
    std::array<uint64_t, 9> reserved{};  // by number of the outcome
    std::array<uint64_t, 20> refused{};  // by number of the reason, over all verbs
    uint64_t lapsed = 0;
    uint64_t late_completions = 0;
    uint64_t unreadable = 0;
    uint64_t sensitive = 0;
    uint64_t commits = 0;
    uint64_t committed_writes = 0;
    std::array<uint64_t, kAuthFaults> unauthenticated{};  // by number of the fault
    uint64_t credential_files_taken_up = 0;
    uint64_t credential_files_kept = 0;
    std::array<uint64_t, kAuditLines> audited{};
    std::array<uint64_t, kAuditLines> audit_failures{};
    uint64_t quotas_exceeded = 0;
  };

  void OnAnswered(Verb verb) override { Add(answered_[static_cast<size_t>(verb)]); }
  void OnReserved(core::ReserveOutcome outcome) override {
    Add(reserved_[static_cast<size_t>(outcome)]);
  }
  void OnRefused(Verb, core::Reason reason) override { Add(refused_[static_cast<size_t>(reason)]); }
  void OnLapsed(core::State) override { Add(lapsed_); }
  void OnLateCompletion() override { Add(late_completions_); }
  void OnUnreadable() override { Add(unreadable_); }
  void OnSensitive(std::string_view) override { Add(sensitive_); }
  void OnCommit(size_t, size_t writes, std::chrono::nanoseconds) override {
    Add(commits_);
    Add(committed_writes_, writes);
  }
  void OnUnauthenticated(AuthFault fault) override {
    Add(unauthenticated_[static_cast<size_t>(fault)]);
  }
  void OnCredentialFile(std::string_view, bool good) override {
    Add(good ? credential_files_taken_up_ : credential_files_kept_);
  }
  void OnAudit(AuditLine line, bool written) override {
    Add((written ? audited_ : audit_failures_)[static_cast<size_t>(line)]);
  }
  void OnQuotaExceeded(const keystore::QuotaExcess&) override { Add(quotas_exceeded_); }

  // Each number is right by itself; together they may be of slightly different moments.
  Snapshot Read() const {
    Snapshot snapshot;
    for (size_t i = 0; i < answered_.size(); ++i) snapshot.answered[i] = answered_[i];
    for (size_t i = 0; i < reserved_.size(); ++i) snapshot.reserved[i] = reserved_[i];
    for (size_t i = 0; i < refused_.size(); ++i) snapshot.refused[i] = refused_[i];
    snapshot.lapsed = lapsed_;
    snapshot.late_completions = late_completions_;
    snapshot.unreadable = unreadable_;
    snapshot.sensitive = sensitive_;
    snapshot.commits = commits_;
    snapshot.committed_writes = committed_writes_;
    for (size_t i = 0; i < kAuthFaults; ++i) snapshot.unauthenticated[i] = unauthenticated_[i];
    snapshot.credential_files_taken_up = credential_files_taken_up_;
    snapshot.credential_files_kept = credential_files_kept_;
    for (size_t i = 0; i < kAuditLines; ++i) {
      snapshot.audited[i] = audited_[i];
      snapshot.audit_failures[i] = audit_failures_[i];
    }
    snapshot.quotas_exceeded = quotas_exceeded_;
    return snapshot;
  }

 private:
  using Counter = std::atomic<uint64_t>;
  static void Add(Counter& counter, uint64_t n = 1) {
    counter.fetch_add(n, std::memory_order_relaxed);
  }

  std::array<Counter, kVerbs> answered_{};
  std::array<Counter, 9> reserved_{};
  std::array<Counter, 20> refused_{};
  Counter lapsed_{0};
  Counter late_completions_{0};
  Counter unreadable_{0};
  Counter sensitive_{0};
  Counter commits_{0};
  Counter committed_writes_{0};
  std::array<Counter, kAuthFaults> unauthenticated_{};
  Counter credential_files_taken_up_{0};
  Counter credential_files_kept_{0};
  std::array<Counter, kAuditLines> audited_{};
  std::array<Counter, kAuditLines> audit_failures_{};
  Counter quotas_exceeded_{0};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_METRICS_H_
