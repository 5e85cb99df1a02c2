// What the server, and the programs that run instead of it, are given: flags, log, audit,
// configuration, clock, and how the store is opened.
//
// Thread safety: made and filled by one thread; log, metrics, audit and clock are then for all.
#ifndef IDEMPOTENCY_SERVICE_PROCESS_SETUP_H_
#define IDEMPOTENCY_SERVICE_PROCESS_SETUP_H_

#include <atomic>
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/clock.h"
#include "keystore/engine/open_engine.h"
#include "service/audit_log.h"
#include "service/config.h"
#include "service/exporter/service_metrics.h"
#include "service/flags.h"
#include "service/log.h"

namespace idempotency::service {

// Where the clock of a store of files keeps its mark.
std::string ClockMarkPath(const std::string& data_dir);

class Setup {
 public:
  // Fills bytes with what nobody can guess, or does not return.
  using RandomBytes = void (*)(char* bytes, size_t size);

  // gRPC has one log for the process: it goes to log() while this lives. One at a time. `errors`,
  // which must outlive it, is for whoever typed a wrong command.
  Setup(Flags flags, RandomBytes random_bytes, std::ostream* errors);
  ~Setup();
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  const Flags& flags() const { return flags_; }
  Log* log() { return &log_; }
  ServiceMetrics* metrics() { return &metrics_; }
  // Null before OpenAudit, ReadConfig and StartClock.
  AuditLog* audit() { return audit_.get(); }
  ConfigHolder* config() { return config_.get(); }
  keystore::GuardedClock* clock() { return clock_.get(); }

  bool keeps_files() const { return flags_.engine == "rocksdb"; }
  // Empty where nothing is kept in files.
  std::string data_dir() const { return keeps_files() ? flags_.data_dir : std::string(); }
  std::string clock_mark_path() const;

  // INVALID_ARGUMENT for a file that is not a configuration.
  absl::Status ReadConfig();
  // Once; further calls change nothing.
  absl::Status OpenAudit();
  // An act that the process itself is asked for, by whoever may start it or send it signals; end it
  // with audit()->End. UNAVAILABLE: it could not be written, and so must not be done.
  absl::StatusOr<AuditLog::Act> BeginAct(std::string_view action, std::string_view detail);
  void StartClock();

  // How the store is opened; refers to this. StartClock first. Nothing that has expired is removed
  // from it before AllowReclaim: a store that was moved away stays what was moved, also where a
  // start is refused.
  keystore::EngineOptions StoreOptions();
  void AllowReclaim() { may_reclaim_ = true; }

  // Tells why, whoever typed a wrong command in words and all others in the log, and returns the
  // exit code.
  int CannotStart(const absl::Status& status);

 private:
  const Flags flags_;
  const RandomBytes random_bytes_;
  std::ostream* const errors_;
  Log log_;
  ServiceMetrics metrics_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<ConfigHolder> config_;
  std::unique_ptr<keystore::GuardedClock> clock_;
  std::atomic<bool> may_reclaim_{false};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_PROCESS_SETUP_H_
