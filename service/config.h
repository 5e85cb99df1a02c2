// The server's configuration: which namespaces there are, what holds in each, and the limits
// of the whole server. Its file is YAML with idempotency.config.v1.Config as its schema; that
// proto says what each field means, deploy/config.example.yaml shows all of them.
//
//   auto config = Config::Load("/etc/idempotencyd.yaml");
//   if (!config.ok()) ...                // every problem, one a line, with file and line
//   (*config)->Accepts("payments")       // may new keys be made there?
//   (*config)->PolicyFor("payments")     // what holds there; never null
#ifndef IDEMPOTENCY_SERVICE_CONFIG_H_
#define IDEMPOTENCY_SERVICE_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/core/limits.h"
#include "keystore/core/policy.h"
#include "service/access_rules.h"
#include "service/identity/settings.h"

namespace idempotency::service {

inline constexpr size_t kMaxConfigFileBytes = 1024 * 1024;

struct NamespaceConfig {
  std::string name;
  std::string description;
  core::Policy policy;
  idempotency::v1::ProviderContract provider;
  std::string preset;  // empty: none
};

// Every duration is filled in, also where it is zero.
idempotency::v1::Namespace ToProto(const NamespaceConfig& config);

// Whether a namespace may be called so: [a-z][a-z0-9._-]{0,63}.
bool IsNamespaceName(std::string_view name);

// Of the whole server; read once, when it starts.
struct ServerLimits {
  uint32_t max_waiters = core::kMaxWaiters;
  uint32_t max_waiters_per_key = core::kMaxWaitersPerKey;
  uint32_t max_queued_commands = core::kMaxQueuedCommands;

  friend bool operator==(const ServerLimits&, const ServerLimits&) = default;
};

// Immutable, so that any thread may read it without a lock for as long as it holds it.
class Config {
 public:
  // What holds without a file: every namespace works under the built-in defaults.
  static std::shared_ptr<const Config> BuiltIn();

  // NOT_FOUND where there is no such file; PERMISSION_DENIED and the like where it cannot be
  // read; INVALID_ARGUMENT where something in it is wrong: then the message holds every
  // problem, one a line.
  static absl::StatusOr<std::shared_ptr<const Config>> Load(const std::string& path);

  // As Load, of a text that was read from `file_name`.
  static absl::StatusOr<std::shared_ptr<const Config>> LoadText(std::string_view text,
                                                                std::string_view file_name);

  // Null where the file does not name it. Lives as long as the Config.
  const NamespaceConfig* Find(std::string_view name) const;

  // What holds in `name`: the defaults where the file does not name it. Never null, and good
  // for longer than the Config.
  std::shared_ptr<const core::Policy> PolicyFor(std::string_view name) const;

  // As Find, but of a namespace that the file does not name it gives the defaults.
  NamespaceConfig Describe(std::string_view name) const;

  // Whether new keys may be made in `name`. Where not, operations that are there already can
  // still be worked on, under PolicyFor.
  bool Accepts(std::string_view name) const;

  // Those that the file names, sorted.
  std::vector<std::string> Names() const;

  const ServerLimits& limits() const { return limits_; }

  // Nothing: plaintext.
  const std::optional<TlsSettings>& tls() const { return tls_; }
  const IdentitySettings& identity() const { return identity_; }
  // Empty: nobody who has to prove who they are may do anything.
  const AccessRules& access() const { return access_; }

 private:
  friend class ConfigBuilder;
  Config() = default;

  std::shared_ptr<const NamespaceConfig> defaults_;  // without a name
  std::map<std::string, std::shared_ptr<const NamespaceConfig>, std::less<>> namespaces_;
  bool accepts_unlisted_ = true;
  ServerLimits limits_;
  std::optional<TlsSettings> tls_;
  IdentitySettings identity_;
  AccessRules access_;
};

// The configuration in force, which a reload replaces. All methods may be called from any
// thread; Get never waits for a file.
class ConfigHolder {
 public:
  // path empty: there is no file, and reloading changes nothing. Errors are those of Config::Load.
  static absl::StatusOr<std::unique_ptr<ConfigHolder>> Open(std::string path);

  std::shared_ptr<const Config> Get() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Reads the file again. Where that fails, or `take_up` does, what held before goes on, and the
  // status says why. `take_up` prepares everything else that depends on the new configuration;
  // it is called right before that comes into force.
  using TakeUp = std::function<absl::Status(const Config&)>;
  absl::Status Reload(const TakeUp& take_up = {}) ABSL_LOCKS_EXCLUDED(reload_mutex_, mutex_);

 private:
  ConfigHolder(std::string path, std::shared_ptr<const Config> config)
      : path_(std::move(path)), config_(std::move(config)) {}

  const std::string path_;
  // Held while reading the file, so that the newest content wins.
  absl::Mutex reload_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Config> config_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_CONFIG_H_
