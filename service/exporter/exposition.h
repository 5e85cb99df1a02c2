// Everything that a scrape says, in Prometheus' terms. deploy/README.md lists it, each metric with
// what to do about it; a test compares the two.
//
// Every name begins with idempotency_. Labels have few values: methods, outcomes, and namespaces of
// the configuration (any other is "_other"); never a scope, a key or anything else that a caller
// chooses.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_SERVICE_EXPORTER_EXPOSITION_H_
#define IDEMPOTENCY_SERVICE_EXPORTER_EXPOSITION_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/time.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "service/config.h"
#include "service/exporter/service_metrics.h"
#include "service/log.h"
#include "service/server.h"

namespace idempotency::service {

class Exposition final : public prometheus::Collectable {
 public:
  struct Facts {
    std::string version;
    std::string engine;
    std::string data_dir;  // empty: there is none
    core::Time started;    // by the wall clock
  };

  // Both must outlive it.
  Exposition(const ServiceMetrics* metrics, const Log* log, Facts facts)
      : metrics_(metrics), log_(log), facts_(std::move(facts)) {}

  // From now on the server and its configuration are asked, too; both must outlive the next
  // Detach. Until then nothing is ready.
  void Attach(const Server* server, const ConfigHolder* config) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when no scrape uses them any more.
  void Detach() ABSL_LOCKS_EXCLUDED(mutex_) { Attach(nullptr, nullptr); }

  // The configuration was read, at start or again, at this time by the wall clock.
  void OnConfigRead(bool good, core::Time wall);

  // The server's certificate holds until then.
  void OnCertificate(core::Time end) { certificate_end_ms_ = end.time_since_epoch().count(); }

  // Whether the server answers what is asked of it: what gRPC's health service says.
  bool ready() const ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<prometheus::MetricFamily> Collect() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const ServiceMetrics* const metrics_;
  const Log* const log_;
  const Facts facts_;
  std::atomic<bool> config_good_{true};
  std::atomic<int64_t> config_read_ms_{0};
  std::atomic<int64_t> certificate_end_ms_{0};

  mutable absl::Mutex mutex_;
  const Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
  const ConfigHolder* config_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_EXPORTER_EXPOSITION_H_
