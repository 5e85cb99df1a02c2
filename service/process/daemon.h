// idempotencyd while it serves: starts everything in the order in which it must be there, waits for
// the signals that mean something to it, and drains.
//
// SIGTERM, SIGINT: drain and end. SIGHUP: read the configuration, the credentials and the audit's
// path again. The engine has died: drain, and end with kExitEngineDead.
#ifndef IDEMPOTENCY_SERVICE_PROCESS_DAEMON_H_
#define IDEMPOTENCY_SERVICE_PROCESS_DAEMON_H_

#include <signal.h>

#include <atomic>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "keystore/engine/engine.h"
#include "service/exporter/exposition.h"
#include "service/exporter/http_listener.h"
#include "service/identity/authenticator.h"
#include "service/identity/tls_server.h"
#include "service/process/setup.h"
#include "service/server.h"

namespace idempotency::service {

class Daemon {
 public:
  // `signals` are blocked (process.h). `setup` must outlive it. `version` is told to whoever asks.
  Daemon(Setup* setup, const sigset_t& signals, std::string version);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until a signal ends it, and returns the exit code; once. Where the engine has died it
  // ends the process itself.
  int Run();

 private:
  // --- Starting
  absl::Status Start();
  absl::Status AuditOverrides();
  absl::Status StartExporter();
  absl::Status WritePortFile() const;
  void WarnOfOpenDoors();
  void WarnOfIdleQuotas(const Config& config);
  ServerParts Parts(std::unique_ptr<keystore::Engine> engine);
  ServerOptions Options() const;

  // --- Who may connect, and how it is known who it is
  Protection ProtectionBy(const Config& config) const;
  absl::Status CheckProtection(const Config& config) const;
  absl::Status OpenCredentials(const Config& config);
  // Takes up what has changed in the files with certificates, keys and tokens.
  void RefreshCredentials();
  void TellCertificate();
  void Report(const FileReport& file);

  // --- Being told something
  void NoteEngineDead();
  // Until something ends the service; the exit code says what.
  int WaitForEnd();
  void Reload();
  absl::Status ReloadConfig();
  // What else follows from a new configuration. It comes into force with all of this or not at
  // all.
  absl::Status TakeUp(const Config& next);

  Setup* const setup_;
  const Flags& flags_;
  Log& log_;
  const sigset_t signals_;
  const std::string version_;
  Exposition exposition_;
  std::optional<TlsSettings> tls_settings_;  // of the start
  std::unique_ptr<TlsFiles> tls_;            // null: plaintext
  std::unique_ptr<Authenticator> authenticator_;
  std::atomic<bool> engine_dead_{false};
  std::unique_ptr<Server> server_;
  std::unique_ptr<HttpListener> watched_by_;  // null: nobody watches
};

// Whether the files that the configuration names are what they have to be.
absl::Status CheckCredentialFiles(const Config& config);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_PROCESS_DAEMON_H_
