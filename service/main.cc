// idempotencyd: the service as a process. Flags, signals and exit codes are here; what is served
// is in server.h.
#include <openssl/rand.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpc/support/log.h"
#include "keystore/clock.h"
#include "keystore/engine/backup.h"
#include "keystore/engine/open_any_engine.h"
#include "keystore/engine/open_engine.h"
#include "prometheus/text_serializer.h"
#include "service/audit_log.h"
#include "service/config.h"
#include "service/exporter/exposition.h"
#include "service/exporter/http_listener.h"
#include "service/exporter/service_metrics.h"
#include "service/flags.h"
#include "service/identity/authenticator.h"
#include "service/identity/tls_server.h"
#include "service/listen_address.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/server.h"

namespace idempotency::service {
namespace {

constexpr int kExitStopped = 0;
constexpr int kExitCannotStart = 1;
constexpr int kExitWrongUsage = 2;
constexpr int kExitEngineDead = 70;
// Accepted commands were still running when the drain had to end. All that was acknowledged is
// durable; the rest is unknown to its callers, who send it again.
constexpr int kExitNotDrained = 71;

constexpr size_t kMebibyte = size_t{1024} * 1024;
// Shorter than what supervisors usually grant between SIGTERM and SIGKILL.
constexpr absl::Duration kDrainTimeout = absl::Seconds(25);

#ifndef IDEMPOTENCY_VERSION
#define IDEMPOTENCY_VERSION "unknown"
#endif

// Raised by ourselves, to wake the thread that waits for signals.
constexpr int kEngineDeadSignal = SIGUSR2;

// Blocks the signals that are waited for, in this thread and all that it starts.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, kEngineDeadSignal}) {
    sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A log that nobody reads any more, or a client that has gone, is no reason to die; and a file
  // that may not grow is an error of the store, which knows what to do.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  return signals;
}

// A second SIGTERM or Ctrl-C ends the process at once. Nothing else that may come does: not a
// reload, and not the news that the engine has died, which the exit code tells.
void LetSignalsEndTheDrain() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

// What responses are sealed with must not be guessed: rather no service than a bad one.
void FillWithRandomBytes(char* bytes, size_t size) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes), static_cast<int>(size)) != 1) abort();
}

// Memory holds answers, progress, credentials and keys: none of it goes into a core dump, and no
// other process of the same user looks at it.
void KeepMemoryPrivate() {
  constexpr rlimit kNone{.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &kNone);
  prctl(PR_SET_DUMPABLE, 0);
}

// Every connection takes descriptors: as many as the system lets us have. The lower, usual limit
// is for programs that use select.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

ConnectionLimits ConnectionLimitsOf(const Flags& flags) {
  ConnectionLimits limits;
  limits.max_connections = static_cast<uint32_t>(flags.max_connections);
  limits.max_connections_per_peer = static_cast<uint32_t>(flags.max_connections_per_peer);
  limits.max_cancelled_calls = static_cast<uint32_t>(flags.max_cancelled_calls);
  limits.max_calls = MaxCallsFor(static_cast<uint32_t>(flags.max_streams_per_connection));
  return limits;
}

TransportLimits TransportLimitsOf(const Flags& flags) {
  TransportLimits limits;
  limits.max_streams_per_connection = flags.max_streams_per_connection;
  limits.max_metadata_bytes = flags.max_metadata_kb * 1024;
  limits.handshake_timeout = absl::Seconds(flags.handshake_timeout_s);
  limits.max_connection_idle = absl::Seconds(flags.max_connection_idle_s);
  limits.max_connection_age = absl::Seconds(flags.max_connection_age_s);
  limits.keepalive = absl::Seconds(flags.keepalive_s);
  limits.min_ping_interval = absl::Seconds(flags.min_ping_interval_s);
  return limits;
}

keystore::EtcdOptions EtcdOptionsOf(const Flags& flags) {
  keystore::EtcdOptions etcd;
  etcd.endpoints = absl::StrSplit(flags.etcd_endpoints, ',', absl::SkipEmpty());
  etcd.prefix = flags.etcd_prefix;
  etcd.ca_file = flags.etcd_ca;
  etcd.certificate_file = flags.etcd_certificate;
  etcd.key_file = flags.etcd_key;
  etcd.user = flags.etcd_user;
  etcd.password_file = flags.etcd_password_file;
  etcd.max_request_bytes = static_cast<size_t>(flags.etcd_max_request_kb) * 1024;
  etcd.quota_bytes = static_cast<uint64_t>(flags.etcd_quota_mb) * kMebibyte;
  etcd.clock_skew = core::Duration(flags.clock_skew_ms);
  return etcd;
}

keystore::PostgresOptions PostgresOptionsOf(const Flags& flags) {
  keystore::PostgresOptions postgres;
  postgres.uri = flags.postgres_uri;
  postgres.connections = static_cast<size_t>(flags.postgres_connections);
  postgres.allow_plaintext = flags.allow_plaintext;
  postgres.clock_skew = core::Duration(flags.clock_skew_ms);
  return postgres;
}

int Complain(const absl::Status& wrong_usage) {
  std::cerr << "idempotencyd: " << std::string(wrong_usage.message()) << std::endl;
  return kExitWrongUsage;
}

// gRPC has one log for the process. Set while there is a log to write it to.
std::atomic<Log*> grpc_log{nullptr};

void WriteGrpcLog(gpr_log_func_args* line) {
  Log* const log = grpc_log;
  if (log == nullptr) return;
  const LogLevel level = line->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarning
                         : line->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  log->Write(level, "grpc", {{"line", WithoutMetadataValue(line->message)}});
}

// Ends the process where stopping takes too long: everything acknowledged is durable.
class Watchdog {
 public:
  Watchdog()
      : thread_([this] {
          if (!done_.WaitForNotificationWithTimeout(kDrainTimeout)) _exit(kExitNotDrained);
        }) {}
  ~Watchdog() {
    done_.Notify();
    thread_.join();
  }

 private:
  absl::Notification done_;
  std::thread thread_;
};

class Daemon {
 public:
  explicit Daemon(Flags flags)
      : flags_(std::move(flags)),
        signals_(BlockSignals()),
        log_(Log::Options{ParseLogLevel(flags_.log_level).value_or(LogLevel::kInfo)}) {
    grpc_log = &log_;
    gpr_set_log_function(&WriteGrpcLog);
  }
  ~Daemon() { grpc_log = nullptr; }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  int Run() {
    RaiseDescriptorLimit();
    if (const absl::Status status = Start(); !status.ok()) return CannotStart(status);
    const int exit_code = WaitForEnd();
    LetSignalsEndTheDrain();
    Watchdog watchdog;
    server_->Drain();
    exposition_.Detach();
    // What has died is not closed: there is nothing to save, and closing may end in an assertion of
    // RocksDB's (keystore/README.md).
    if (!engine_dead_) server_.reset();
    const int last_word = engine_dead_ ? kExitEngineDead : exit_code;
    log_.Write(LogLevel::kInfo, "stopped", {{"exit_code", last_word}});
    if (!engine_dead_) return last_word;
    log_.Finish();
    _exit(last_word);
  }

  // Instead of Run: reads a backup back.
  int VerifyBackup() {
    const auto act = BeginProcessAct("verify_backup", flags_.backup_dir);
    if (!act.ok()) return CannotStart(act.status());
    StartClock();
    const auto done =
        keystore::VerifyBackup(flags_.backup_dir, BackupId(flags_.verify_backup), StoreOptions(),
                               [this](const auto& progress) { TellBackup(progress); });
    audit_->End(*act, done.ok() ? "OK" : "FAILED");
    if (!done.ok()) return CannotStart(done.status());
    TellBackupDone("backup_is_whole", *done);
    return kExitStopped;
  }

  // Instead of Run: makes a store out of a backup.
  int RestoreBackup() {
    const auto act = BeginProcessAct(
        "restore_backup",
        absl::StrCat(flags_.restore_backup, " of ", flags_.backup_dir, " to ", flags_.data_dir));
    if (!act.ok()) return CannotStart(act.status());
    StartClock();
    keystore::EngineOptions options = StoreOptions();
    // What has expired stays until a server with its configuration sees to it.
    options.may_reclaim = [](std::string_view) { return false; };
    const auto done =
        keystore::RestoreBackup(flags_.backup_dir, BackupId(flags_.restore_backup), options,
                                [this](const auto& progress) { TellBackup(progress); });
    audit_->End(*act, done.ok() ? "OK" : "FAILED");
    if (!done.ok()) return CannotStart(done.status());
    // Time does not run backwards to before what the backup knows.
    absl::Status marked = keystore::ClockMark(ClockMarkPath()).Store(done->backup.facts.made);
    if (!marked.ok()) return CannotStart(marked);
    TellBackupDone("restored", *done);
    return kExitStopped;
  }

  // Instead of Run: seals what is stored with the current key.
  int Rewrap() {
    auto config = ConfigHolder::Open(flags_.config);
    if (!config.ok()) return CannotStart(absl::InvalidArgumentError(config.status().message()));
    config_ = std::move(*config);
    const auto act = BeginProcessAct("rewrap", flags_.data_dir);
    if (!act.ok()) return CannotStart(act.status());
    StartClock();
    const auto done = keystore::RewrapStore(
        StoreOptions(), [this](const auto& progress) { TellRewrap("rewrapping", progress); });
    audit_->End(*act, done.ok() ? "OK" : "FAILED");
    if (!done.ok()) return CannotStart(done.status());
    TellRewrap("rewrapped", *done);
    return kExitStopped;
  }

 private:
  int CannotStart(const absl::Status& status) {
    // Whoever typed a wrong flag reads words; whoever supervises the process reads its log.
    if (absl::IsInvalidArgument(status)) return Complain(status);
    log_.Write(LogLevel::kError, "cannot_start", {{"error", std::string(status.message())}});
    return kExitCannotStart;
  }

  absl::Status Start() {
    auto config = ConfigHolder::Open(flags_.config);
    if (!config.ok()) return absl::InvalidArgumentError(config.status().message());
    config_ = std::move(*config);
    const Config& read = *config_->Get();
    if (absl::Status status = CheckProtection(read); !status.ok()) return status;
    if (absl::Status status = OpenCredentials(read); !status.ok()) {
      return absl::InvalidArgumentError(status.message());
    }
    if (absl::Status status = AuditOverrides(); !status.ok()) return status;
    StartClock();
    // Before the store, which may take a while to open: the process is alive meanwhile.
    if (absl::Status status = StartExporter(); !status.ok()) return status;
    auto engine = keystore::OpenAnyEngine({.engine = StoreOptions(),
                                           .etcd = EtcdOptionsOf(flags_),
                                           .postgres = PostgresOptionsOf(flags_)});
    if (!engine.ok()) return engine.status();
    auto server = Server::Start(Parts(std::move(*engine)), Options());
    if (!server.ok()) return server.status();
    server_ = std::move(*server);
    exposition_.Attach(server_.get(), config_.get());
    log_.Write(LogLevel::kInfo, "started",
               {{"version", IDEMPOTENCY_VERSION},
                {"listen", flags_.listen},
                {"port", server_->port()},
                {"engine", flags_.engine},
                {"data_dir", KeepsFiles() ? flags_.data_dir : std::string()},
                {"config", flags_.config},
                {"tls", tls_ != nullptr},
                {"identity", authenticator_->required()},
                {"pid", getpid()}});
    WarnOfOpenDoors();
    return WritePortFile();
  }

  absl::Status OpenAudit() {
    if (audit_ != nullptr) return absl::OkStatus();
    AuditLog::Options options;
    options.path = flags_.audit_log;
    options.now = [] { return keystore::ReadKernelTime().wall; };
    options.metrics = &metrics_;
    auto audit = AuditLog::Open(std::move(options));
    if (!audit.ok()) return audit.status();
    audit_ = std::move(*audit);
    return absl::OkStatus();
  }

  // What the process itself is asked for, by whoever may start it or send it signals.
  absl::StatusOr<AuditLog::Act> BeginProcessAct(std::string_view action, std::string_view detail) {
    if (absl::Status status = OpenAudit(); !status.ok()) return status;
    const std::string who = absl::StrCat("process:uid=", getuid());
    AuditEntry entry;
    entry.action = action;
    entry.who = who;
    entry.detail = detail;
    std::optional<AuditLog::Act> act = audit_->BeginAndWait(entry);
    if (act) return *std::move(act);
    return absl::UnavailableError(absl::StrCat(
        "the audit cannot be written, and so nothing was done: mend --audit_log=", flags_.audit_log,
        "."));
  }

  // A start is an act only where it overrides what the service would do by itself.
  absl::Status AuditOverrides() {
    std::string overrides;
    if (flags_.accept_loss != 0) absl::StrAppend(&overrides, "--accept_loss=", flags_.accept_loss);
    if (flags_.trust_clock) absl::StrAppend(&overrides, " --trust_clock");
    if (!flags_.lost_response_keys.empty()) {
      absl::StrAppend(&overrides, " --lost_response_keys=", flags_.lost_response_keys);
    }
    if (overrides.empty()) return OpenAudit();
    const auto act = BeginProcessAct("start", overrides);
    if (act.ok()) audit_->End(*act, "OK");
    return act.status();
  }

  absl::Status StartExporter() {
    exposition_.OnConfigRead(true, keystore::ReadKernelTime().wall);
    if (flags_.metrics_listen.empty()) return absl::OkStatus();
    HttpListener::Pages pages;
    pages.metrics = [this] {
      return prometheus::TextSerializer().Serialize(exposition_.Collect());
    };
    pages.ready = [this] { return exposition_.ready(); };
    auto listener = HttpListener::Start(flags_.metrics_listen, std::move(pages));
    if (!listener.ok()) return listener.status();
    watched_by_ = std::move(*listener);
    log_.Write(LogLevel::kInfo, "metrics_listening",
               {{"metrics_listen", flags_.metrics_listen}, {"port", watched_by_->port()}});
    return absl::OkStatus();
  }

  static bool AsksForCertificates(const Config& config) {
    return config.tls() && !config.tls()->client_ca_file.empty();
  }

  Protection ProtectionBy(const Config& config) const {
    Protection protection;
    protection.tls = config.tls().has_value();
    protection.identity = AsksForCertificates(config) || config.identity().takes_tokens();
    protection.allow_plaintext = flags_.allow_plaintext;
    protection.allow_anonymous = flags_.allow_anonymous;
    return protection;
  }

  absl::Status CheckProtection(const Config& config) const {
    return CheckListenAddress(flags_.listen, ProtectionBy(config)).status();
  }

  absl::Status OpenCredentials(const Config& config) {
    tls_settings_ = config.tls();
    if (tls_settings_) {
      tls_ = WatchTls(*tls_settings_, [] { return keystore::ReadKernelTime().wall; });
      if (absl::Status status = tls_->Open(); !status.ok()) return status;
      TellCertificate();
    }
    auto authenticator = Authenticator::Open(config.identity(), AsksForCertificates(config),
                                             [this](const FileReport& file) { Report(file); });
    if (!authenticator.ok()) return authenticator.status();
    authenticator_ = std::move(*authenticator);
    return absl::OkStatus();
  }

  // Takes up what has changed in the files with certificates, keys and tokens.
  void RefreshCredentials() {
    if (tls_ != nullptr) {
      const TlsFiles::Checked checked = tls_->Check();
      if (checked.what != TlsFiles::What::kNothing) {
        Report({"tls", tls_settings_->certificate_file, checked.status});
        TellCertificate();
      }
    }
    authenticator_->Refresh();
  }

  void TellCertificate() {
    const auto names = ReadCertificate(tls_->Get()->certificate_chain);
    if (names) exposition_.OnCertificate(names->end);
  }

  void Report(const FileReport& file) {
    metrics_.OnCredentialFile(file.what, file.status.ok());
    if (file.status.ok()) {
      log_.Write(LogLevel::kInfo, "credentials_taken_up",
                 {{"what", file.what}, {"file", file.path}});
      return;
    }
    log_.Write(LogLevel::kError, "credentials_kept",
               {{"what", file.what},
                {"error", std::string(file.status.message())},
                {"next_step", "what held before goes on; put the right files in place"}});
  }

  // Said once, where an operator has chosen it.
  void WarnOfOpenDoors() {
    if (IsLocalAddress(flags_.listen)) return;
    if (tls_ == nullptr) {
      log_.Write(LogLevel::kWarning, "plaintext",
                 {{"listen", flags_.listen},
                  {"next_step", "configure tls: others on the network can read all of it"}});
    }
    if (!authenticator_->required()) {
      log_.Write(LogLevel::kWarning, "anonymous",
                 {{"listen", flags_.listen},
                  {"next_step", "configure identity: whoever can connect can do everything"}});
    }
  }

  bool KeepsFiles() const { return flags_.engine == "rocksdb"; }
  std::string ClockMarkPath() const {
    return KeepsFiles() ? absl::StrCat(flags_.data_dir, "/CLOCK") : std::string();
  }

  void StartClock() {
    core::Time high_water;
    if (KeepsFiles()) {
      const absl::Status status = keystore::ClockMark(ClockMarkPath()).Load(&high_water);
      // Without it time is the wall clock's; no lease depends on it.
      if (!status.ok()) {
        log_.Write(LogLevel::kWarning, "clock_mark_unreadable",
                   {{"error", std::string(status.message())}});
      }
    }
    clock_ = std::make_unique<keystore::GuardedClock>(high_water);
    if (flags_.trust_clock) clock_->Confirm();
  }

  keystore::EngineOptions StoreOptions() {
    // Who has named no directory gets one. A named one must have its parent, or a volume that
    // is not mounted would go unnoticed.
    if (KeepsFiles() && flags_.data_dir == Flags().data_dir) {
      std::error_code ignored;  // the engine says what is wrong
      std::filesystem::create_directories(std::filesystem::path(flags_.data_dir).parent_path(),
                                          ignored);
    }
    keystore::EngineOptions options;
    options.engine = flags_.engine;
    options.data_dir = flags_.data_dir;
    options.block_cache_bytes = static_cast<size_t>(flags_.block_cache_mb) * kMebibyte;
    options.memtable_bytes = static_cast<size_t>(flags_.memtable_mb) * kMebibyte;
    options.ballast_bytes = static_cast<size_t>(flags_.ballast_mb) * kMebibyte;
    options.accept_loss = static_cast<uint64_t>(flags_.accept_loss);
    options.response_keys = flags_.response_keys;
    options.lost_response_keys = absl::StrSplit(flags_.lost_response_keys, ',', absl::SkipEmpty());
    options.random_bytes = &FillWithRandomBytes;
    options.now = [this] { return clock_->Read(); };
    options.may_reclaim = [this](std::string_view name_space) {
      return config_->Get()->Accepts(name_space);
    };
    options.log = [this](int level, std::string_view line) {
      log_.Write(static_cast<LogLevel>(level), "engine", {{"line", line}});
    };
    return options;
  }

  // 0: the newest.
  static uint32_t BackupId(const std::string& name) {
    uint32_t id = 0;
    if (name != Flags::kLatestBackup) (void)absl::SimpleAtoi(name, &id);
    return id;
  }

  void TellBackup(const keystore::BackupProgress& progress) {
    log_.Write(LogLevel::kInfo,
               progress.stage == keystore::BackupStage::kRestoring ? "restoring" : "verifying",
               {{"bytes", progress.bytes},
                {"estimated_bytes", progress.estimated_bytes},
                {"records", progress.records},
                {"estimated_records", progress.estimated_records}});
  }

  void TellBackupDone(std::string_view event, const keystore::VerifiedBackup& done) {
    const keystore::BackupContents& contents = done.contents;
    log_.Write(LogLevel::kInfo, event,
               {{"backup", done.backup.id},
                {"made_ms", done.backup.facts.made.time_since_epoch().count()},
                {"bytes", done.backup.bytes},
                {"pending", contents.pending},
                {"unresolved", contents.unresolved},
                {"complete", contents.complete},
                {"expired", contents.expired},
                {"freed", contents.freed},
                {"key_missing", contents.key_missing}});
  }

  void TellRewrap(std::string_view event, const keystore::RewrapProgress& progress) {
    log_.Write(LogLevel::kInfo, event,
               {{"visited", progress.visited},
                {"estimated", progress.estimated},
                {"rewrapped", progress.rewrapped},
                {"key_missing", progress.key_missing},
                {"unreadable", progress.unreadable}});
  }

  ServerParts Parts(std::unique_ptr<keystore::Engine> engine) {
    ServerParts parts;
    parts.engine = std::move(engine);
    parts.clock = clock_.get();
    parts.config = config_.get();
    parts.log = &log_;
    parts.metrics = &metrics_;
    parts.authenticator = authenticator_.get();
    parts.audit = audit_.get();
    if (tls_ != nullptr) {
      parts.credentials =
          MakeTlsCredentials(tls_.get(), *tls_settings_,
                             flags_.tls_min_version == "1.2" ? TlsVersion::k12 : TlsVersion::k13);
    }
    parts.every_second = [this] { RefreshCredentials(); };
    parts.on_engine_dead = [this] { NoteEngineDead(); };
    return parts;
  }

  ServerOptions Options() const {
    ServerOptions options;
    options.listen = flags_.listen;
    options.connections = ConnectionLimitsOf(flags_);
    options.transport = TransportLimitsOf(flags_);
    options.protection = ProtectionBy(*config_->Get());
    options.clock_mark_path = ClockMarkPath();
    options.backup_dir = flags_.backup_dir;
    options.backups_kept = static_cast<size_t>(flags_.backups_kept);
    return options;
  }

  // Appears whole or not at all: whoever waits for it may read it as soon as it is there.
  absl::Status WritePortFile() {
    if (flags_.port_file.empty()) return absl::OkStatus();
    const std::string aside = flags_.port_file + ".new";
    std::ofstream file(aside, std::ios::trunc);
    file << server_->port() << "\n";
    file.close();
    if (file.good() && rename(aside.c_str(), flags_.port_file.c_str()) == 0) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(
        absl::StrCat("cannot write --port_file=", flags_.port_file, "; check its directory."));
  }

  void NoteEngineDead() {
    engine_dead_ = true;
    kill(getpid(), kEngineDeadSignal);
  }

  // Until something ends the service; the exit code says what.
  int WaitForEnd() {
    for (;;) {
      int signal = 0;
      sigwait(&signals_, &signal);
      if (engine_dead_) return kExitEngineDead;
      if (signal == SIGHUP) {
        Reload();
      } else if (signal != kEngineDeadSignal) {
        log_.Write(LogLevel::kInfo, "stopping", {{"signal", signal}});
        return kExitStopped;
      }
    }
  }

  // What else follows from a new configuration. It comes into force with all of this or not at
  // all.
  absl::Status TakeUp(const Config& next) {
    if (absl::Status status = CheckProtection(next); !status.ok()) return status;
    if (next.tls() != tls_settings_) {
      log_.Write(LogLevel::kWarning, "restart_needed",
                 {{"field", "tls"}, {"next_step", "restart: it is read at start only"}});
    }
    return authenticator_->Apply(next.identity());
  }

  absl::Status ReloadConfig() {
    const auto act = BeginProcessAct("reload", flags_.config);
    if (!act.ok()) return act.status();
    absl::Status status = config_->Reload([this](const Config& next) { return TakeUp(next); });
    audit_->End(*act, status.ok() ? "OK" : "FAILED");
    return status;
  }

  void Reload() {
    if (const absl::Status status = audit_->Reopen(); !status.ok()) {
      log_.Write(LogLevel::kError, "audit_log_kept",
                 {{"error", std::string(status.message())},
                  {"next_step", "lines go where they went; mend the path and send SIGHUP"}});
    }
    RefreshCredentials();
    const absl::Status status = ReloadConfig();
    exposition_.OnConfigRead(status.ok(), keystore::ReadKernelTime().wall);
    if (!status.ok()) {
      log_.Write(LogLevel::kError, "reload_failed",
                 {{"error", std::string(status.message())},
                  {"next_step", "what held before goes on; correct the file and send SIGHUP"}});
      return;
    }
    log_.Write(LogLevel::kInfo, "reloaded", {{"config", flags_.config}});
  }

  const Flags flags_;
  const sigset_t signals_;
  Log log_;
  ServiceMetrics metrics_;
  Exposition exposition_{&metrics_, &log_,
                         Exposition::Facts{IDEMPOTENCY_VERSION, flags_.engine,
                                           KeepsFiles() ? flags_.data_dir : std::string(),
                                           keystore::ReadKernelTime().wall}};
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<ConfigHolder> config_;
  std::optional<TlsSettings> tls_settings_;  // of the start
  std::unique_ptr<TlsFiles> tls_;            // null: plaintext
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<keystore::GuardedClock> clock_;
  std::atomic<bool> engine_dead_{false};
  std::unique_ptr<Server> server_;
  std::unique_ptr<HttpListener> watched_by_;  // null: nobody watches
};

// Whether the files that the configuration names are what they have to be.
absl::Status CheckFiles(const Config& config) {
  if (config.tls()) {
    const auto material = LoadTlsMaterial(*config.tls(), keystore::ReadKernelTime().wall);
    if (!material.ok()) return material.status();
  }
  return Authenticator::Open(config.identity(), false, [](const FileReport&) {}).status();
}

int CheckConfig(const std::string& path) {
  const auto config = Config::Load(path);
  if (!config.ok()) return Complain(config.status());
  if (const absl::Status status = CheckFiles(**config); !status.ok()) return Complain(status);
  std::cout << path << " is a valid configuration." << std::endl;
  return kExitStopped;
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Flags> flags = ParseFlags(std::vector<std::string>(argv + 1, argv + argc));
  if (!flags.ok()) return Complain(flags.status());
  if (flags->help) {
    std::cout << HelpText();
    return kExitStopped;
  }
  if (flags->version) {
    std::cout << "idempotencyd " << IDEMPOTENCY_VERSION << std::endl;
    return kExitStopped;
  }
  if (flags->check_config) return CheckConfig(flags->config);
  if (!flags->core_dumps) KeepMemoryPrivate();
  Daemon daemon(*flags);
  if (!flags->verify_backup.empty()) return daemon.VerifyBackup();
  if (!flags->restore_backup.empty()) return daemon.RestoreBackup();
  return flags->rewrap ? daemon.Rewrap() : daemon.Run();
}

}  // namespace
}  // namespace idempotency::service

int main(int argc, char** argv) {
  // Debian's abseil is built to follow the order of all locks; the tests do that for us.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return idempotency::service::Main(argc, argv);
}
