#include "service/exporter/exposition.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "keystore/clock.h"
#include "keystore/core/names.h"
#include "service/exporter/process_stats.h"
#include "service/identity/authenticator.h"

namespace idempotency::service {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Label = ClientMetric::Label;
using Labels = std::vector<Label>;

constexpr double kNanosecond = 1e-9;
// "namespace" is what Prometheus in Kubernetes calls the namespace of the pod that it scrapes.
constexpr char kNamespaceLabel[] = "idempotency_namespace";

double Seconds(core::Duration span) { return static_cast<double>(span.count()) / 1000; }

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// The families of one scrape, in the order in which they are made.
class Families {
 public:
  void Begin(const char* name, const char* help, MetricType type) {
    families_.push_back(MetricFamily{name, help, type, {}});
  }
  // One more of the family that was begun last.
  template <typename Number>
  void Put(Labels labels, Number number) {
    MetricFamily& family = families_.back();
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = std::move(labels);
    const auto value = static_cast<double>(number);
    (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  }
  template <size_t kBounds>
  void Put(Labels labels, const StripedHistogram<kBounds>& histogram, double unit) {
    ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    const auto snapshot = histogram.Read();
    ClientMetric::Histogram& out = metric.histogram;
    for (size_t i = 0; i <= kBounds; ++i) {
      out.sample_count += snapshot.counts[i];
      const double bound = i == kBounds ? std::numeric_limits<double>::infinity()
                                        : static_cast<double>(histogram.bounds()[i]) * unit;
      out.bucket.push_back({out.sample_count, bound});
    }
    out.sample_sum = static_cast<double>(snapshot.sum) * unit;
  }

  template <typename Number>
  void Counter(const char* name, const char* help, Number value) {
    Begin(name, help, MetricType::Counter);
    Put({}, value);
  }
  template <typename Number>
  void Gauge(const char* name, const char* help, Number value) {
    Begin(name, help, MetricType::Gauge);
    Put({}, value);
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

// --- What was counted
// -----------------------------------------------------------------------------

// Those that are there with a zero before they happen, so that their first is seen as a rise.
bool IsUsual(Verb verb, size_t outcome) {
  switch (verb) {
    case Verb::kReserve:
      return outcome > 0 && outcome <= CallOutcome::kReserveOutcomes;
    case Verb::kRenew:
    case Verb::kComplete:
    case Verb::kRelease:
    case Verb::kMarkUnresolved:
    case Verb::kGet:
      return outcome == CallOutcome().number();
    default:
      return false;
  }
}

// The rows of namespaces that the configuration names now, and of all others.
std::vector<bool> RowsInForce(const std::vector<std::string>& rows, const Config* config) {
  std::vector<bool> in_force(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    in_force[row] = row == 0 || (config != nullptr && config->Find(rows[row]) != nullptr);
  }
  return in_force;
}

void AddRequests(const ServiceMetrics& metrics, const Config* config, Families* out) {
  out->Begin("idempotency_requests_total",
             "Commands and calls that were answered, by how they ended.", MetricType::Counter);
  const std::vector<std::string> rows = NamespaceRowNames();
  const std::vector<bool> in_force = RowsInForce(rows, config);
  for (uint32_t row = 0; row < rows.size(); ++row) {
    for (size_t verb = 0; verb < kVerbs; ++verb) {
      for (size_t outcome = 0; outcome < CallOutcome::kCount; ++outcome) {
        const auto of = static_cast<Verb>(verb);
        const uint64_t count = metrics.outcomes(row, of, outcome);
        if (count == 0 && !(in_force[row] && IsUsual(of, outcome))) continue;
        out->Put({{"method", std::string(Name(of))},
                  {"outcome", CallOutcome::NameOf(outcome)},
                  {kNamespaceLabel, rows[row]}},
                 count);
      }
    }
  }
}

void AddOmittedBodies(const ServiceMetrics& metrics, const Config* config, Families* out) {
  out->Begin("idempotency_bodies_omitted_total",
             "Responses stored without their body, since the engine takes none so large.",
             MetricType::Counter);
  const std::vector<std::string> rows = NamespaceRowNames();
  const std::vector<bool> in_force = RowsInForce(rows, config);
  for (uint32_t row = 0; row < rows.size(); ++row) {
    const uint64_t count = metrics.bodies_omitted(row);
    if (count > 0 || in_force[row]) out->Put({{kNamespaceLabel, rows[row]}}, count);
  }
}

void AddDurations(const ServiceMetrics& metrics, Families* out) {
  out->Begin("idempotency_request_duration_seconds",
             "Time from a request to its answer inside the service, but for those that waited.",
             MetricType::Histogram);
  for (size_t verb = 0; verb < kVerbs; ++verb) {
    const auto of = static_cast<Verb>(verb);
    // The one is a command of our own, the other a stream, whose commands count by themselves.
    if (of == Verb::kReclaim || of == Verb::kPipeline) continue;
    out->Put({{"method", std::string(Name(of))}}, metrics.durations(of), kNanosecond);
  }
  out->Begin("idempotency_wait_duration_seconds",
             "Time to the answer of requests that waited for another attempt to end.",
             MetricType::Histogram);
  out->Put({}, metrics.waits(), kNanosecond);
}

void AddProtocol(const ServiceMetrics& metrics, Families* out) {
  out->Begin("idempotency_lapses_total",
             "Leases that ended before their owner reported, by what the operation became.",
             MetricType::Counter);
  for (const core::State became : {core::State::kUnresolved, core::State::kFreed}) {
    out->Put({{"became", LowerCase(core::Name(became))}}, metrics.lapsed(became));
  }
  out->Counter("idempotency_late_completions_total",
               "Completions reported by superseded owners: the effect may have happened twice.",
               metrics.late_completions());
  out->Counter("idempotency_response_stored_bytes_total",
               "Bytes of responses that completions have stored.", metrics.stored_bytes());
  out->Counter("idempotency_response_replayed_bytes_total",
               "Bytes of stored responses that were replayed.", metrics.replayed_bytes());
  out->Counter("idempotency_unreadable_reads_total",
               "Reads of records whose stored bytes are damaged.", metrics.unreadable());
  out->Begin("idempotency_sensitive_texts_total",
             "New operations with a text that looks like personal data or a credential.",
             MetricType::Counter);
  for (size_t i = 0; i < ServiceMetrics::kSensitiveFields; ++i) {
    out->Put({{"field", std::string(ServiceMetrics::kSensitiveFieldNames[i])}},
             metrics.sensitive(i));
  }
}

void AddIdentity(const ServiceMetrics& metrics, Families* out) {
  out->Begin("idempotency_unauthenticated_total",
             "Calls refused because nobody is known to make them, by what was wrong.",
             MetricType::Counter);
  for (size_t i = 1; i < kAuthFaults; ++i) {
    const auto fault = static_cast<AuthFault>(i);
    out->Put({{"fault", LowerCase(FaultName(fault))}}, metrics.unauthenticated(fault));
  }
  out->Begin("idempotency_credential_reloads_total",
             "Files with credentials that have changed, by whether they could be used.",
             MetricType::Counter);
  for (size_t i = 0; i < ServiceMetrics::kCredentialFiles; ++i) {
    for (const bool good : {true, false}) {
      out->Put({{"file", std::string(ServiceMetrics::kCredentialFileNames[i])},
                {"result", good ? "taken_up" : "kept_the_old"}},
               metrics.credential_files(i, good));
    }
  }
}

void AddBackups(const ServiceMetrics& metrics, Families* out) {
  out->Begin("idempotency_backups_total", "Backups that were begun, by how they ended.",
             MetricType::Counter);
  out->Put({{"result", "whole"}}, metrics.backups(true));
  out->Put({{"result", "failed"}}, metrics.backups(false));
  out->Begin("idempotency_newest_backup_timestamp_seconds",
             "When the newest backup that is kept was begun; 0: there is none.", MetricType::Gauge);
  out->Put({}, Seconds(metrics.newest_backup().time_since_epoch()));
  out->Begin("idempotency_newest_backup_bytes", "How large it is.", MetricType::Gauge);
  out->Put({}, metrics.newest_backup_bytes());
}

void AddAudit(const ServiceMetrics& metrics, Families* out) {
  constexpr std::pair<AuditLine, const char*> kLines[] = {
      {AuditLine::kAct, "act"}, {AuditLine::kResult, "result"}, {AuditLine::kDenial, "denial"}};
  out->Begin("idempotency_audit_lines_total", "Lines that the audit has written.",
             MetricType::Counter);
  for (const auto& [line, name] : kLines) out->Put({{"line", name}}, metrics.audit(line, true));
  out->Begin("idempotency_audit_failures_total",
             "Lines that the audit could not write; an act without its line is refused.",
             MetricType::Counter);
  for (const auto& [line, name] : kLines) out->Put({{"line", name}}, metrics.audit(line, false));
}

void AddQuotas(const ServiceMetrics& metrics, Families* out) {
  using keystore::QuotaKind;
  constexpr std::pair<QuotaKind, const char*> kKinds[] = {
      {QuotaKind::kReserves, "reserves_per_second"},
      {QuotaKind::kOpenOperations, "open_operations"},
      {QuotaKind::kStoredBytes, "stored_bytes"}};
  out->Begin("idempotency_quota_refusals_total",
             "New keys that were refused because a quota is used up, by which and whose.",
             MetricType::Counter);
  for (const bool of_scope : {false, true}) {
    for (const auto& [kind, name] : kKinds) {
      out->Put({{"quota", name}, {"of", of_scope ? "scope" : "namespace"}},
               metrics.quotas_exceeded(of_scope, kind));
    }
  }
}

void AddCommits(const ServiceMetrics& metrics, Families* out) {
  out->Begin("idempotency_commit_commands", "Commands that were decided together, in one batch.",
             MetricType::Histogram);
  out->Put({}, metrics.batches(), 1);
  out->Begin("idempotency_commit_duration_seconds",
             "Time to make the writes of one batch durable, the disk's sync included.",
             MetricType::Histogram);
  out->Put({}, metrics.commits(), kNanosecond);
  out->Counter("idempotency_committed_records_total", "Records that were made durable.",
               metrics.written_records());
}

// --- How it stands
// --------------------------------------------------------------------------------

void AddUnresolved(const ServerReading& reading, const Config& config, Families* out) {
  std::map<std::string, keystore::UnresolvedCount> by_name;
  by_name[kOtherNamespaces];
  for (const std::string& name : config.Names()) by_name[name];
  for (const keystore::UnresolvedCount& count : reading.unresolved) {
    const auto known = by_name.find(count.name_space);
    keystore::UnresolvedCount& sum =
        known == by_name.end() ? by_name[kOtherNamespaces] : known->second;
    sum.oldest = sum.operations == 0 ? count.oldest : std::min(sum.oldest, count.oldest);
    sum.operations += count.operations;
  }
  out->Begin("idempotency_unresolved_operations",
             "Operations whose outcome is unknown, to be settled.", MetricType::Gauge);
  for (const auto& [name, count] : by_name) out->Put({{kNamespaceLabel, name}}, count.operations);
  out->Begin("idempotency_unresolved_oldest_age_seconds",
             "For how long the oldest unresolved operation has been so; zero where there is none.",
             MetricType::Gauge);
  for (const auto& [name, count] : by_name) {
    const core::Duration age =
        count.operations == 0 ? core::Duration::zero() : reading.now.latest - count.oldest;
    out->Put({{kNamespaceLabel, name}}, Seconds(std::max(age, core::Duration::zero())));
  }
}

void AddServer(const ServerReading& reading, const Config& config, Families* out) {
  out->Gauge("idempotency_queued_commands", "Commands that are queued to be decided.",
             reading.queued);
  out->Gauge("idempotency_queued_commands_limit",
             "Above how many queued commands every command but a finishing one is refused.",
             config.limits().max_queued_commands);
  out->Gauge("idempotency_waiters", "Requests that wait for another attempt to end.",
             reading.waiters);
  out->Gauge("idempotency_waiters_limit", "How many requests may wait.",
             config.limits().max_waiters);
  out->Gauge("idempotency_pending_operations", "Operations with a live lease.", reading.pending);
  AddUnresolved(reading, config, out);
  out->Gauge("idempotency_clock_in_doubt",
             "1 where the clock has jumped: nothing expires, and no unknown outcome is attempted.",
             reading.now.in_doubt);
  out->Gauge("idempotency_clock_offset_seconds",
             "How far the service's guarded clock is ahead of the machine's wall clock.",
             // Not reading.now.wall, which is never behind guarded time.
             Seconds(reading.now.latest - keystore::ReadKernelTime().wall));
}

void AddStore(const keystore::Pressure& pressure, const keystore::StoreStats& store,
              Families* out) {
  out->Gauge("idempotency_store_alive", "0 once a write has failed for good.", pressure.alive);
  out->Gauge("idempotency_store_stalled",
             "1 while the store slows writes down or has stopped them; new work is refused.",
             pressure.stalled);
  out->Gauge("idempotency_store_full", "1 while new keys are refused for want of disk space.",
             pressure.full);
  out->Gauge("idempotency_store_ballast_held",
             "1 while there is a ballast file to give up when the disk is full.",
             store.ballast_held);
  out->Gauge("idempotency_store_keys", "Keys in the store, as it estimates.", store.estimated_keys);
  out->Gauge("idempotency_store_table_bytes", "Bytes in table files.", store.table_bytes);
  out->Gauge("idempotency_store_memtable_bytes", "Bytes gathered in memory for table files.",
             store.memtable_bytes);
  out->Gauge("idempotency_store_cache_bytes", "Bytes of table blocks cached in memory.",
             store.cache_bytes);
}

void AddCompaction(const keystore::StoreStats& store, Families* out) {
  out->Gauge("idempotency_store_level0_files", "Table files that no compaction has taken up.",
             store.level0_files);
  out->Gauge("idempotency_store_pending_compaction_bytes",
             "Bytes that compactions have still to rewrite, as the store estimates.",
             store.pending_compaction_bytes);
  out->Gauge("idempotency_store_compactions_running", "Compactions that run now.",
             store.running_compactions);
  out->Gauge("idempotency_store_flushes_running", "Flushes that run now.", store.running_flushes);
  out->Counter("idempotency_store_compaction_read_bytes_total",
               "Bytes read by compactions since the start.", store.compaction_read_bytes);
  out->Counter("idempotency_store_compaction_written_bytes_total",
               "Bytes written by flushes and compactions since the start.",
               store.compaction_written_bytes);
  out->Counter("idempotency_store_compaction_seconds_total",
               "Time spent in flushes and compactions since the start.", store.compaction_seconds);
  out->Counter("idempotency_store_wal_written_bytes_total",
               "Bytes written to the write-ahead log since the start.", store.wal_written_bytes);
  out->Counter("idempotency_store_stalled_seconds_total",
               "Time that writes were held up by the store since the start.",
               store.stalled_seconds);
  out->Counter("idempotency_store_background_errors_total",
               "Errors of flushes and compactions since the start.", store.background_errors);
}

void AddDisk(const std::string& data_dir, Families* out) {
  const DiskStats disk =
      data_dir.empty() ? DiskStats{} : ReadDiskStats(data_dir).value_or(DiskStats{});
  out->Gauge("idempotency_disk_free_bytes",
             "Free bytes on the volume of --data_dir, for this process.", disk.free_bytes);
  out->Gauge("idempotency_disk_size_bytes", "Size of the volume of --data_dir.", disk.size_bytes);
}

void AddProcess(core::Time started, Families* out) {
  const ProcessStats stats = ReadProcessStats();
  out->Counter("idempotency_process_cpu_seconds_total", "Processor time that the process took.",
               stats.cpu_seconds);
  out->Gauge("idempotency_process_resident_memory_bytes", "Memory of the process that is in RAM.",
             stats.resident_bytes);
  out->Gauge("idempotency_process_virtual_memory_bytes", "Address space of the process.",
             stats.virtual_bytes);
  out->Gauge("idempotency_process_open_fds", "Open file descriptors.", stats.open_descriptors);
  out->Gauge("idempotency_process_max_fds", "How many file descriptors may be open.",
             stats.max_descriptors);
  out->Gauge("idempotency_process_threads", "Threads of the process.", stats.threads);
  out->Gauge("idempotency_process_start_time_seconds",
             "When the process started, in seconds since 1970.",
             Seconds(started.time_since_epoch()));
}

}  // namespace

void Exposition::Attach(const Server* server, const ConfigHolder* config) {
  absl::MutexLock lock(&mutex_);
  server_ = server;
  config_ = config;
}

void Exposition::OnConfigRead(bool good, core::Time wall) {
  config_good_ = good;
  if (good) config_read_ms_ = wall.time_since_epoch().count();
}

bool Exposition::ready() const {
  absl::ReaderMutexLock lock(&mutex_);
  return server_ != nullptr && server_->serving();
}

std::vector<MetricFamily> Exposition::Collect() const {
  Families out;
  absl::ReaderMutexLock lock(&mutex_);
  const std::shared_ptr<const Config> config = config_ == nullptr ? nullptr : config_->Get();
  AddRequests(*metrics_, config.get(), &out);
  AddDurations(*metrics_, &out);
  AddProtocol(*metrics_, &out);
  AddOmittedBodies(*metrics_, config.get(), &out);
  AddIdentity(*metrics_, &out);
  out.Gauge("idempotency_certificate_expiry_timestamp_seconds",
            "Until when the server's certificate holds, in seconds since 1970; 0 without TLS.",
            Seconds(core::Duration(certificate_end_ms_.load())));
  AddAudit(*metrics_, &out);
  AddBackups(*metrics_, &out);
  AddQuotas(*metrics_, &out);
  AddCommits(*metrics_, &out);
  out.Gauge("idempotency_ready", "Whether the service answers: as /readyz and gRPC's health say.",
            server_ != nullptr && server_->serving());
  if (server_ != nullptr) {
    const ServerReading reading = server_->Read();
    AddServer(reading, *config, &out);
    AddStore(reading.pressure, reading.store, &out);
    AddCompaction(reading.store, &out);
  }
  AddDisk(facts_.data_dir, &out);
  out.Gauge("idempotency_config_last_reload_successful",
            "Whether the configuration was read when it was last to be.", config_good_.load());
  out.Gauge("idempotency_config_last_reload_success_timestamp_seconds",
            "When the configuration in force was read, in seconds since 1970.",
            Seconds(core::Duration(config_read_ms_.load())));
  out.Counter("idempotency_log_lines_dropped_total", "Lines of the log that its sink did not take.",
              log_->dropped());
  AddProcess(facts_.started, &out);
  out.Begin("idempotency_build_info", "1; what runs is in the labels.", MetricType::Gauge);
  out.Put({{"version", facts_.version}, {"engine", facts_.engine}}, 1);
  return out.Take();
}

}  // namespace idempotency::service
