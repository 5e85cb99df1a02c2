// What the service counts while it works, in atomic numbers that a scrape reads. What it can be
// asked for at any time (waiters, disk, clock) is not here: see exposition.h.
//
// Thread safety: all methods may be called from any thread; none takes a lock.
#ifndef IDEMPOTENCY_SERVICE_EXPORTER_SERVICE_METRICS_H_
#define IDEMPOTENCY_SERVICE_EXPORTER_SERVICE_METRICS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "service/call_outcome.h"
#include "service/exporter/striped_histogram.h"
#include "service/metrics.h"
#include "service/namespace_rows.h"
#include "service/verb.h"

namespace idempotency::service {

// In nanoseconds: 100 us to 10 s.
inline constexpr std::array<uint64_t, 16> kDurationBounds{
    100'000,       250'000,       500'000,       1'000'000,     2'500'000,   5'000'000,
    10'000'000,    25'000'000,    50'000'000,    100'000'000,   250'000'000, 500'000'000,
    1'000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000};
// Waits: 10 ms to 60 s.
inline constexpr std::array<uint64_t, 10> kWaitBounds{
    10'000'000,    50'000'000,    100'000'000,    500'000'000,    1'000'000'000,
    2'500'000'000, 5'000'000'000, 10'000'000'000, 30'000'000'000, 60'000'000'000};
// Commands of a batch.
inline constexpr std::array<uint64_t, 11> kBatchBounds{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

using DurationHistogram = StripedHistogram<kDurationBounds.size()>;
using WaitHistogram = StripedHistogram<kWaitBounds.size()>;
using BatchHistogram = StripedHistogram<kBatchBounds.size()>;

class ServiceMetrics final : public Metrics {
 public:
  static constexpr size_t kSensitiveFields = 4;
  static constexpr size_t kCredentialFiles = 3;
  static constexpr std::array<std::string_view, kSensitiveFields> kSensitiveFieldNames{
      "id.key", "id.scope", "labels", "owner.operation_ref"};
  static constexpr std::array<std::string_view, kCredentialFiles> kCredentialFileNames{
      "tls", "tokens", "jwks"};

  ServiceMetrics();
  ~ServiceMetrics() override;

  void OnOutcome(Verb verb, CallOutcome outcome, uint32_t namespace_row) override;
  void OnTook(Verb verb, std::chrono::nanoseconds took, bool has_waited) override;
  void OnResponseStored(size_t bytes) override { Add(stored_bytes_, bytes); }
  void OnResponseReplayed(size_t bytes) override { Add(replayed_bytes_, bytes); }
  void OnBodyOmitted(uint32_t namespace_row) override { Add(RowOf(namespace_row).bodies_omitted); }
  void OnLapsed(core::State became) override { Add(lapsed_[static_cast<size_t>(became)]); }
  void OnLateCompletion() override { Add(late_completions_); }
  void OnUnreadable() override { Add(unreadable_); }
  void OnSensitive(std::string_view field) override;
  void OnCommit(size_t commands, size_t writes, std::chrono::nanoseconds took) override;
  void OnUnauthenticated(AuthFault fault) override {
    Add(unauthenticated_[static_cast<size_t>(fault)]);
  }
  void OnCredentialFile(std::string_view what, bool good) override;
  void OnAudit(AuditLine line, bool written) override {
    Add(audit_[static_cast<size_t>(line)][written ? 1 : 0]);
  }
  void OnBackup(bool whole) override { Add(backups_[whole ? 1 : 0]); }
  void OnNewestBackup(core::Time made, uint64_t bytes) override {
    newest_backup_ms_ = made.time_since_epoch().count();
    newest_backup_bytes_ = bytes;
  }
  void OnQuotaExceeded(const keystore::QuotaExcess& excess) override {
    Add(quotas_exceeded_[excess.of_scope ? 1 : 0][static_cast<size_t>(excess.kind)]);
  }

  // How many commands and calls of this kind ended so.
  uint64_t outcomes(uint32_t namespace_row, Verb verb, size_t outcome) const;
  uint64_t bodies_omitted(uint32_t namespace_row) const;
  const DurationHistogram& durations(Verb verb) const {
    return *durations_[static_cast<size_t>(verb)];
  }
  const WaitHistogram& waits() const { return waits_; }
  const BatchHistogram& batches() const { return batches_; }
  const DurationHistogram& commits() const { return commits_; }
  uint64_t written_records() const { return written_records_; }
  uint64_t stored_bytes() const { return stored_bytes_; }
  uint64_t replayed_bytes() const { return replayed_bytes_; }
  uint64_t lapsed(core::State became) const { return lapsed_[static_cast<size_t>(became)]; }
  uint64_t late_completions() const { return late_completions_; }
  uint64_t unreadable() const { return unreadable_; }
  uint64_t sensitive(size_t field) const { return sensitive_[field]; }
  uint64_t unauthenticated(AuthFault fault) const {
    return unauthenticated_[static_cast<size_t>(fault)];
  }
  uint64_t credential_files(size_t file, bool good) const {
    return credential_files_[file][good ? 1 : 0];
  }
  uint64_t audit(AuditLine line, bool written) const {
    return audit_[static_cast<size_t>(line)][written ? 1 : 0];
  }
  uint64_t backups(bool whole) const { return backups_[whole ? 1 : 0]; }
  // Unset: there is none, or it is not known yet.
  core::Time newest_backup() const { return core::Time(core::Duration(newest_backup_ms_.load())); }
  uint64_t newest_backup_bytes() const { return newest_backup_bytes_; }
  uint64_t quotas_exceeded(bool of_scope, keystore::QuotaKind kind) const {
    return quotas_exceeded_[of_scope ? 1 : 0][static_cast<size_t>(kind)];
  }

 private:
  using Counter = std::atomic<uint64_t>;
  struct Row {
    // By verb and number of the outcome.
    std::array<std::array<Counter, CallOutcome::kCount>, kVerbs> counts{};
    Counter bodies_omitted{0};
  };

  static void Add(Counter& counter, uint64_t n = 1) {
    counter.fetch_add(n, std::memory_order_relaxed);
  }
  Row& RowOf(uint32_t namespace_row);

  // Made when something is counted there for the first time.
  std::array<std::atomic<Row*>, kMaxNamespaceRows> rows_{};
  std::array<std::unique_ptr<DurationHistogram>, kVerbs> durations_;
  WaitHistogram waits_{&kWaitBounds};
  BatchHistogram batches_{&kBatchBounds};
  DurationHistogram commits_{&kDurationBounds};
  Counter written_records_{0};
  Counter stored_bytes_{0};
  Counter replayed_bytes_{0};
  std::array<Counter, 6> lapsed_{};  // by number of the state
  Counter late_completions_{0};
  Counter unreadable_{0};
  std::array<Counter, kSensitiveFields> sensitive_{};
  std::array<Counter, kAuthFaults> unauthenticated_{};
  std::array<std::array<Counter, 2>, kCredentialFiles> credential_files_{};
  std::array<std::array<Counter, 2>, kAuditLines> audit_{};
  std::array<Counter, 2> backups_{};
  std::atomic<int64_t> newest_backup_ms_{0};
  Counter newest_backup_bytes_{0};
  std::array<std::array<Counter, keystore::kQuotaKinds>, 2> quotas_exceeded_{};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_EXPORTER_SERVICE_METRICS_H_
