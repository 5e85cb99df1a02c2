#include "service/exporter/service_metrics.h"

#include <algorithm>

namespace idempotency::service {

ServiceMetrics::ServiceMetrics() {
  for (auto& histogram : durations_) {
    histogram = std::make_unique<DurationHistogram>(&kDurationBounds);
  }
}

ServiceMetrics::~ServiceMetrics() {
  for (std::atomic<Row*>& row : rows_) delete row.load();
}

ServiceMetrics::Row& ServiceMetrics::RowOf(uint32_t namespace_row) {
  std::atomic<Row*>& place = rows_[namespace_row];
  Row* row = place.load(std::memory_order_acquire);
  if (row != nullptr) return *row;
  auto made = std::make_unique<Row>();
  // Another thread may have been faster: then `row` is its.
  if (place.compare_exchange_strong(row, made.get(), std::memory_order_acq_rel)) {
    row = made.release();
  }
  return *row;
}

void ServiceMetrics::OnOutcome(Verb verb, CallOutcome outcome, uint32_t namespace_row) {
  Add(RowOf(namespace_row).counts[static_cast<size_t>(verb)][outcome.number()]);
}

uint64_t ServiceMetrics::outcomes(uint32_t namespace_row, Verb verb, size_t outcome) const {
  const Row* const row = rows_[namespace_row].load(std::memory_order_acquire);
  return row == nullptr ? 0 : row->counts[static_cast<size_t>(verb)][outcome].load();
}

uint64_t ServiceMetrics::bodies_omitted(uint32_t namespace_row) const {
  const Row* const row = rows_[namespace_row].load(std::memory_order_acquire);
  return row == nullptr ? 0 : row->bodies_omitted.load();
}

void ServiceMetrics::OnTook(Verb verb, std::chrono::nanoseconds took, bool has_waited) {
  const auto nanos = static_cast<uint64_t>(std::max<int64_t>(took.count(), 0));
  has_waited ? waits_.Observe(nanos) : durations_[static_cast<size_t>(verb)]->Observe(nanos);
}

void ServiceMetrics::OnCommit(size_t commands, size_t writes, std::chrono::nanoseconds took) {
  batches_.Observe(commands);
  if (writes == 0) return;
  Add(written_records_, writes);
  commits_.Observe(static_cast<uint64_t>(std::max<int64_t>(took.count(), 0)));
}

void ServiceMetrics::OnSensitive(std::string_view field) {
  for (size_t i = 0; i < kSensitiveFields; ++i) {
    if (field == kSensitiveFieldNames[i]) Add(sensitive_[i]);
  }
}

void ServiceMetrics::OnCredentialFile(std::string_view what, bool good) {
  for (size_t i = 0; i < kCredentialFiles; ++i) {
    if (what == kCredentialFileNames[i]) Add(credential_files_[i][good ? 1 : 0]);
  }
}

}  // namespace idempotency::service
