#include "service/process/daemon.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "keystore/clock.h"
#include "keystore/engine/open_any_engine.h"
#include "prometheus/text_serializer.h"
#include "service/listen_address.h"
#include "service/process/exit_codes.h"
#include "service/process/flag_options.h"
#include "service/process/process.h"

namespace idempotency::service {
namespace {

bool AsksForCertificates(const Config& config) {
  return config.tls() && !config.tls()->client_ca_file.empty();
}

}  // namespace

Daemon::Daemon(Setup* setup, const sigset_t& signals, std::string version)
    : setup_(setup),
      flags_(setup->flags()),
      log_(*setup->log()),
      signals_(signals),
      version_(std::move(version)),
      exposition_(setup->metrics(), setup->log(),
                  Exposition::Facts{version_, flags_.engine, setup->data_dir(),
                                    keystore::ReadKernelTime().wall}) {}

int Daemon::Run() {
  RaiseDescriptorLimit();
  if (const absl::Status status = Start(); !status.ok()) return setup_->CannotStart(status);
  const int exit_code = WaitForEnd();
  LetSignalsEndIt();
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

// --- Starting -----------------------------------------------------------------------------------

absl::Status Daemon::Start() {
  if (absl::Status status = setup_->ReadConfig(); !status.ok()) return status;
  const Config& read = *setup_->config()->Get();
  if (absl::Status status = CheckProtection(read); !status.ok()) return status;
  if (absl::Status status = OpenCredentials(read); !status.ok()) {
    return absl::InvalidArgumentError(status.message());
  }
  if (absl::Status status = AuditOverrides(); !status.ok()) return status;
  setup_->StartClock();
  // Before the store, which may take a while to open: the process is alive meanwhile.
  if (absl::Status status = StartExporter(); !status.ok()) return status;
  auto engine = keystore::OpenAnyEngine({.engine = setup_->StoreOptions(),
                                         .etcd = EtcdOptionsOf(flags_),
                                         .postgres = PostgresOptionsOf(flags_)});
  if (!engine.ok()) return engine.status();
  auto server = Server::Start(Parts(std::move(*engine)), Options());
  if (!server.ok()) return server.status();
  server_ = std::move(*server);
  exposition_.Attach(server_.get(), setup_->config());
  log_.Write(LogLevel::kInfo, "started",
             {{"version", version_},
              {"listen", flags_.listen},
              {"port", server_->port()},
              {"engine", flags_.engine},
              {"transfer", flags_.transfer},
              {"data_dir", setup_->data_dir()},
              {"config", flags_.config},
              {"tls", tls_ != nullptr},
              {"identity", authenticator_->required()},
              {"pid", getpid()}});
  WarnOfOpenDoors();
  WarnOfIdleQuotas(read);
  return WritePortFile();
}

// A start is an act only where it overrides what the service would do by itself.
absl::Status Daemon::AuditOverrides() {
  std::string overrides;
  if (flags_.accept_loss != 0) absl::StrAppend(&overrides, "--accept_loss=", flags_.accept_loss);
  if (flags_.trust_clock) absl::StrAppend(&overrides, " --trust_clock");
  if (!flags_.transfer.empty()) absl::StrAppend(&overrides, " --transfer=", flags_.transfer);
  if (!flags_.lost_response_keys.empty()) {
    absl::StrAppend(&overrides, " --lost_response_keys=", flags_.lost_response_keys);
  }
  if (overrides.empty()) return setup_->OpenAudit();
  const auto act = setup_->BeginAct("start", overrides);
  if (act.ok()) setup_->audit()->End(*act, "OK");
  return act.status();
}

absl::Status Daemon::StartExporter() {
  exposition_.OnConfigRead(true, keystore::ReadKernelTime().wall);
  if (flags_.metrics_listen.empty()) return absl::OkStatus();
  HttpListener::Pages pages;
  pages.metrics = [this] { return prometheus::TextSerializer().Serialize(exposition_.Collect()); };
  pages.ready = [this] { return exposition_.ready(); };
  auto listener = HttpListener::Start(flags_.metrics_listen, std::move(pages));
  if (!listener.ok()) return listener.status();
  watched_by_ = std::move(*listener);
  log_.Write(LogLevel::kInfo, "metrics_listening",
             {{"metrics_listen", flags_.metrics_listen}, {"port", watched_by_->port()}});
  return absl::OkStatus();
}

// Appears whole or not at all: whoever waits for it may read it as soon as it is there.
absl::Status Daemon::WritePortFile() const {
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

// Said once, where an operator has chosen it.
void Daemon::WarnOfOpenDoors() {
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

// At each start and reload: a limit that is written down and is none.
void Daemon::WarnOfIdleQuotas(const Config& config) {
  if (setup_->keeps_files()) return;
  const auto is_idle = [](const core::Quota& quota) {
    return quota.stored_bytes != core::kUnlimited && quota.stored_bytes != 0;
  };
  for (const std::string& name : config.Names()) {
    const std::shared_ptr<const core::Policy> policy = config.PolicyFor(name);
    if (!is_idle(policy->quota) && !is_idle(policy->scope_quota)) continue;
    log_.Write(LogLevel::kWarning, "quota_not_enforced",
               {{"namespace", name},
                {"field", "stored_bytes"},
                {"engine", flags_.engine},
                {"next_step",
                 "only RocksDB knows how much a namespace has stored: limit reserves_per_second or "
                 "open_operations"}});
  }
}

ServerParts Daemon::Parts(std::unique_ptr<keystore::Engine> engine) {
  ServerParts parts;
  parts.engine = std::move(engine);
  parts.clock = setup_->clock();
  parts.config = setup_->config();
  parts.log = &log_;
  parts.metrics = setup_->metrics();
  parts.authenticator = authenticator_.get();
  parts.audit = setup_->audit();
  if (tls_ != nullptr) {
    parts.credentials =
        MakeTlsCredentials(tls_.get(), *tls_settings_,
                           flags_.tls_min_version == "1.2" ? TlsVersion::k12 : TlsVersion::k13);
  }
  parts.on_admitted = [this] { setup_->AllowReclaim(); };
  parts.every_second = [this] { RefreshCredentials(); };
  parts.on_engine_dead = [this] { NoteEngineDead(); };
  return parts;
}

ServerOptions Daemon::Options() const {
  ServerOptions options;
  options.listen = flags_.listen;
  options.connections = ConnectionLimitsOf(flags_);
  options.transport = TransportLimitsOf(flags_);
  options.protection = ProtectionBy(*setup_->config()->Get());
  options.clock_mark_path = setup_->clock_mark_path();
  options.backup_dir = flags_.backup_dir;
  options.backups_kept = static_cast<size_t>(flags_.backups_kept);
  // Checked with the flags.
  options.transfer = ParseTransferMode(flags_.transfer).value_or(TransferMode::kOff);
  options.engine_name = flags_.engine;
  // A large store takes longer than any connection may otherwise live.
  if (options.transfer != TransferMode::kOff) {
    options.transport.max_connection_age = absl::ZeroDuration();
  }
  return options;
}

// --- Who may connect, and how it is known who it is ---------------------------------------------

Protection Daemon::ProtectionBy(const Config& config) const {
  Protection protection;
  protection.tls = config.tls().has_value();
  protection.identity = AsksForCertificates(config) || config.identity().takes_tokens();
  protection.allow_plaintext = flags_.allow_plaintext;
  protection.allow_anonymous = flags_.allow_anonymous;
  return protection;
}

absl::Status Daemon::CheckProtection(const Config& config) const {
  return CheckListenAddress(flags_.listen, ProtectionBy(config)).status();
}

absl::Status Daemon::OpenCredentials(const Config& config) {
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

void Daemon::RefreshCredentials() {
  if (tls_ != nullptr) {
    const TlsFiles::Checked checked = tls_->Check();
    if (checked.what != TlsFiles::What::kNothing) {
      Report({"tls", tls_settings_->certificate_file, checked.status});
      TellCertificate();
    }
  }
  authenticator_->Refresh();
}

void Daemon::TellCertificate() {
  const auto names = ReadCertificate(tls_->Get()->certificate_chain);
  if (names) exposition_.OnCertificate(names->end);
}

void Daemon::Report(const FileReport& file) {
  setup_->metrics()->OnCredentialFile(file.what, file.status.ok());
  if (file.status.ok()) {
    log_.Write(LogLevel::kInfo, "credentials_taken_up", {{"what", file.what}, {"file", file.path}});
    return;
  }
  log_.Write(LogLevel::kError, "credentials_kept",
             {{"what", file.what},
              {"error", std::string(file.status.message())},
              {"next_step", "what held before goes on; put the right files in place"}});
}

// --- Being told something -----------------------------------------------------------------------

void Daemon::NoteEngineDead() {
  engine_dead_ = true;
  kill(getpid(), kEngineDeadSignal);
}

int Daemon::WaitForEnd() {
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

void Daemon::Reload() {
  if (const absl::Status status = setup_->audit()->Reopen(); !status.ok()) {
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
  WarnOfIdleQuotas(*setup_->config()->Get());
}

absl::Status Daemon::ReloadConfig() {
  const auto act = setup_->BeginAct("reload", flags_.config);
  if (!act.ok()) return act.status();
  absl::Status status =
      setup_->config()->Reload([this](const Config& next) { return TakeUp(next); });
  setup_->audit()->End(*act, status.ok() ? "OK" : "FAILED");
  return status;
}

absl::Status Daemon::TakeUp(const Config& next) {
  if (absl::Status status = CheckProtection(next); !status.ok()) return status;
  if (next.tls() != tls_settings_) {
    log_.Write(LogLevel::kWarning, "restart_needed",
               {{"field", "tls"}, {"next_step", "restart: it is read at start only"}});
  }
  return authenticator_->Apply(next.identity());
}

absl::Status CheckCredentialFiles(const Config& config) {
  if (config.tls()) {
    const auto material = LoadTlsMaterial(*config.tls(), keystore::ReadKernelTime().wall);
    if (!material.ok()) return material.status();
  }
  return Authenticator::Open(config.identity(), false, [](const FileReport&) {}).status();
}

}  // namespace idempotency::service
