#include "service/config.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "idempotency/config/v1/config.pb.h"
#include "service/config_access.h"
#include "service/config_identity.h"
#include "service/config_problems.h"
#include "service/config_rules.h"
#include "service/config_yaml.h"
#include "service/namespace_rows.h"
#include "service/presets.h"

namespace idempotency::service {
namespace {

using config::v1::Namespace;

void TakeDuration(bool set, const google::protobuf::Duration& from, core::Duration* to) {
  if (set) *to = core::Duration{from.seconds() * 1000 + from.nanos() / 1'000'000};
}

template <typename T>
void Take(bool set, T from, T* to) {
  if (set) *to = from;
}

void Apply(const config::v1::Quota& from, core::Quota* to) {
  Take<uint64_t>(from.has_reserves_per_second(), from.reserves_per_second(),
                 &to->reserves_per_second);
  Take<uint64_t>(from.has_reserve_burst(), from.reserve_burst(), &to->reserve_burst);
  Take<uint64_t>(from.has_open_operations(), from.open_operations(), &to->open_operations);
  Take<uint64_t>(from.has_stored_bytes(), from.stored_bytes(), &to->stored_bytes);
}

google::protobuf::Duration ToProto(core::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(duration.count() / 1000);
  proto.set_nanos(static_cast<int32_t>(duration.count() % 1000) * 1'000'000);
  return proto;
}

// What `from` sets goes over what is in `to`.
void Apply(const Namespace& from, core::Policy* to) {
  Take(from.has_scope_optional(), from.scope_optional(), &to->scope_optional);
  Take(from.has_fingerprint_optional(), from.fingerprint_optional(), &to->fingerprint_optional);
  TakeDuration(from.has_default_lease_duration(), from.default_lease_duration(),
               &to->default_lease);
  TakeDuration(from.has_max_lease_duration(), from.max_lease_duration(), &to->max_lease);
  TakeDuration(from.has_max_hold_duration(), from.max_hold_duration(), &to->max_hold);
  TakeDuration(from.has_max_wait_duration(), from.max_wait_duration(), &to->max_wait);
  TakeDuration(from.has_max_retention(), from.max_retention(), &to->max_retention);
  TakeDuration(from.has_expired_memory(), from.expired_memory(), &to->expired_memory);
  Take(from.has_max_key_bytes(), from.max_key_bytes(), &to->max_key_bytes);
  Take(from.has_max_response_bytes(), from.max_response_bytes(), &to->max_response_bytes);
  Take(from.key_check() != 0, static_cast<core::KeyCheck>(from.key_check()), &to->key_check);
  core::Terms& terms = to->terms;
  Take(from.unknown_outcome() != 0, static_cast<core::UnknownOutcome>(from.unknown_outcome()),
       &terms.unknown_outcome);
  TakeDuration(from.has_protection_window(), from.protection_window(), &terms.protection_window);
  Take(from.has_max_attempts(), from.max_attempts(), &terms.max_attempts);
  TakeDuration(from.has_initial_backoff(), from.initial_backoff(), &terms.initial_backoff);
  TakeDuration(from.has_max_backoff(), from.max_backoff(), &terms.max_backoff);
  TakeDuration(from.has_settle_duration(), from.settle_duration(), &terms.settle);
  TakeDuration(from.has_retention(), from.retention(), &terms.retention);
  Apply(from.quota(), &to->quota);
  Apply(from.scope_quota(), &to->scope_quota);
}

void Apply(const idempotency::v1::ProviderContract& from, idempotency::v1::ProviderContract* to) {
  // The whole list is replaced, where merging would add to it.
  if (from.endpoints_size() > 0) to->clear_endpoints();
  to->MergeFrom(from);
}

// The file's bytes, at most one more than are allowed.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat(path, ": cannot be opened: check the path given with --config"));
  }
  std::string text(kMaxConfigFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat(path, ": cannot be read: check that it is a file of text"));
  }
  return text;
}

}  // namespace

bool IsNamespaceName(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_allowed = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= core::kMaxNamespaceBytes && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

idempotency::v1::Namespace ToProto(const NamespaceConfig& config) {
  const core::Policy& policy = config.policy;
  const core::Terms& terms = policy.terms;
  idempotency::v1::Namespace proto;
  proto.set_name(config.name);
  proto.set_description(config.description);
  proto.set_scope_optional(policy.scope_optional);
  proto.set_fingerprint_optional(policy.fingerprint_optional);
  *proto.mutable_default_lease_duration() = ToProto(policy.default_lease);
  *proto.mutable_max_lease_duration() = ToProto(policy.max_lease);
  *proto.mutable_max_hold_duration() = ToProto(policy.max_hold);
  *proto.mutable_max_wait_duration() = ToProto(policy.max_wait);
  *proto.mutable_retention() = ToProto(terms.retention);
  *proto.mutable_max_retention() = ToProto(policy.max_retention);
  *proto.mutable_expired_memory() = ToProto(policy.expired_memory);
  proto.set_unknown_outcome(
      static_cast<idempotency::v1::UnknownOutcomePolicy>(terms.unknown_outcome));
  // Zero is none: a window that had no length would promise something else.
  if (terms.protection_window > core::Duration::zero()) {
    *proto.mutable_protection_window() = ToProto(terms.protection_window);
  }
  proto.set_max_attempts(terms.max_attempts);
  *proto.mutable_initial_backoff() = ToProto(terms.initial_backoff);
  *proto.mutable_max_backoff() = ToProto(terms.max_backoff);
  *proto.mutable_settle_duration() = ToProto(terms.settle);
  proto.set_max_key_bytes(policy.max_key_bytes);
  proto.set_max_response_bytes(policy.max_response_bytes);
  proto.set_key_check(static_cast<idempotency::v1::KeyCheck>(policy.key_check));
  if (config.provider.ByteSizeLong() > 0) *proto.mutable_provider() = config.provider;
  return proto;
}

// Makes a Config of what the file says, and collects what is wrong with it.
class ConfigBuilder {
 public:
  static std::shared_ptr<Config> Empty() {
    std::shared_ptr<Config> config(new Config());
    config->defaults_ = std::make_shared<const NamespaceConfig>();
    return config;
  }

  explicit ConfigBuilder(std::string_view text) { ReadYaml(text, &file_, &lines_, &problems_); }

  // What the file says; good only where nothing is wrong.
  std::shared_ptr<const Config> Build() {
    TakeDefaults();
    if (file_.namespaces_size() > kMaxConfigNamespaces) {
      problems_.Add(LineOf(lines_, "namespaces"), "namespaces",
                    absl::StrCat(file_.namespaces_size(), " are too many: write at most ",
                                 kMaxConfigNamespaces));
    }
    for (int i = 0; i < std::min(file_.namespaces_size(), kMaxConfigNamespaces); ++i) {
      TakeNamespace(i);
    }
    TakeUnlisted();
    TakeLimits();
    config_->tls_ = TakeTls(file_, lines_, &problems_);
    config_->identity_ = TakeIdentity(file_, lines_, &problems_);
    config_->access_ = TakeAccess(file_, lines_, &problems_);
    return config_;
  }

  const ConfigProblems& problems() const { return problems_; }

 private:
  void TakeDefaults() {
    const Place place{"defaults", LineOf(lines_, "defaults")};
    for (const char* field : {"name", "description", "preset"}) {
      const std::string path = absl::StrCat(place.path, ".", field);
      if (lines_.find(path) == lines_.end()) continue;
      problems_.Add(LineOf(lines_, path), path,
                    "belongs to one namespace: move it there, or remove it");
    }
    CheckValues(file_.defaults(), place, lines_, &problems_);
    NamespaceConfig defaults;
    Apply(file_.defaults(), &defaults.policy);
    Apply(file_.defaults().provider(), &defaults.provider);
    for (Contradiction& contradiction : FindContradictions(defaults.policy)) {
      if (!IsNoise(contradiction, place)) {
        problems_.Add(place.line, place.path, contradiction.sentence);
      }
      told_of_defaults_.insert(std::move(contradiction.sentence));
    }
    config_->defaults_ = std::make_shared<const NamespaceConfig>(std::move(defaults));
  }

  void TakeNamespace(int index) {
    const Namespace& from = file_.namespaces(index);
    Place place{absl::StrCat("namespaces[", index, "]"), 0};
    place.line = LineOf(lines_, place.path);
    CheckValues(from, place, lines_, &problems_);
    const bool named = CheckName(from, place);
    NamespaceConfig taken = *config_->defaults_;
    taken.name = from.name();
    taken.description = from.description();
    TakePreset(from, place, &taken);
    Apply(from, &taken.policy);
    Apply(from.provider(), &taken.provider);
    for (const Contradiction& contradiction : FindContradictions(taken.policy)) {
      if (IsNoise(contradiction, place) || told_of_defaults_.count(contradiction.sentence) > 0) {
        continue;
      }
      problems_.Add(place.line, place.path, contradiction.sentence);
    }
    if (!named) return;
    taken.policy.tally.row = NamespaceRow(taken.name);
    config_->namespaces_.emplace(from.name(),
                                 std::make_shared<const NamespaceConfig>(std::move(taken)));
  }

  // False where it has no name to be found by.
  bool CheckName(const Namespace& from, const Place& place) {
    const std::string path = absl::StrCat(place.path, ".name");
    if (problems_.Has(path)) return false;
    if (!from.has_name()) {
      if (!problems_.Has(place.path)) problems_.Add(place.line, path, "missing: give it a name");
      return false;
    }
    if (!IsNamespaceName(from.name())) {
      problems_.Add(LineOf(lines_, path), path,
                    absl::StrCat(Quoted(from.name()),
                                 " is no name for a namespace: write 1-64 of a-z, 0-9, '.', '_' "
                                 "and '-', a letter first"));
      return false;
    }
    const auto [first, is_new] = name_lines_.emplace(from.name(), LineOf(lines_, path));
    if (is_new) return true;
    problems_.Add(LineOf(lines_, path), path,
                  absl::StrCat(Quoted(from.name()), " is already defined on line ", first->second,
                               ": rename or remove one of the two"));
    return false;
  }

  void TakePreset(const Namespace& from, const Place& place, NamespaceConfig* to) {
    if (!from.has_preset()) return;
    to->preset = from.preset();
    if (ApplyPreset(from.preset(), &to->policy, &to->provider)) return;
    const std::string path = absl::StrCat(place.path, ".preset");
    problems_.Add(LineOf(lines_, path), path,
                  absl::StrCat(Quoted(from.preset()), " is not known: write one of ",
                               absl::StrJoin(PresetNames(), ", ")));
  }

  // Whether one of the values that a rule is about has a problem of its own, here or in the
  // defaults, or comes from a preset that could not be applied.
  bool IsNoise(const Contradiction& contradiction, const Place& place) const {
    const auto has = [&](std::string_view field) {
      const std::string below = absl::StrCat(".", std::string(field));
      return problems_.Has(place.path + below) || problems_.Has("defaults" + below);
    };
    return problems_.Has(absl::StrCat(place.path, ".preset")) ||
           std::any_of(contradiction.fields.begin(), contradiction.fields.end(), has);
  }

  void TakeUnlisted() {
    const config::v1::UnlistedNamespaces unlisted = file_.unlisted_namespaces();
    config_->accepts_unlisted_ = unlisted == config::v1::UNLISTED_NAMESPACES_ALLOW;
    // A file that was emptied or cut short by accident must not stop all work.
    if (unlisted != config::v1::UNLISTED_NAMESPACES_UNSPECIFIED || !problems_.empty() ||
        file_.namespaces_size() > 0) {
      return;
    }
    problems_.Add(0, "",
                  "no namespace would accept anything: list some below namespaces, or write "
                  "unlisted_namespaces: ALLOW (or REFUSE, if that is what is meant)");
  }

  void TakeLimits() {
    const config::v1::Limits& limits = file_.limits();
    CheckLimits(limits, lines_, &problems_);
    ServerLimits& to = config_->limits_;
    Take(limits.has_max_waiters(), limits.max_waiters(), &to.max_waiters);
    to.max_waiters_per_key = std::min(to.max_waiters_per_key, to.max_waiters);
    Take(limits.has_max_waiters_per_key(), limits.max_waiters_per_key(), &to.max_waiters_per_key);
    Take(limits.has_max_queued_commands(), limits.max_queued_commands(), &to.max_queued_commands);
  }

  config::v1::Config file_;
  FieldLines lines_;
  ConfigProblems problems_;
  std::shared_ptr<Config> config_ = Empty();
  std::set<std::string> told_of_defaults_;
  std::map<std::string, int> name_lines_;
};

std::shared_ptr<const Config> Config::BuiltIn() { return ConfigBuilder::Empty(); }

absl::StatusOr<std::shared_ptr<const Config>> Config::Load(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  return LoadText(*text, path);
}

absl::StatusOr<std::shared_ptr<const Config>> Config::LoadText(std::string_view text,
                                                               std::string_view file_name) {
  if (text.size() > kMaxConfigFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(file_name), ": larger than ",
                                                   kMaxConfigFileBytes, " bytes: shorten it"));
  }
  ConfigBuilder builder(text);
  std::shared_ptr<const Config> config = builder.Build();
  if (!builder.problems().empty()) {
    return absl::InvalidArgumentError(builder.problems().Tell(file_name));
  }
  return config;
}

const NamespaceConfig* Config::Find(std::string_view name) const {
  const auto found = namespaces_.find(name);
  return found == namespaces_.end() ? nullptr : found->second.get();
}

std::shared_ptr<const core::Policy> Config::PolicyFor(std::string_view name) const {
  const auto found = namespaces_.find(name);
  const std::shared_ptr<const NamespaceConfig>& config =
      found == namespaces_.end() ? defaults_ : found->second;
  return {config, &config->policy};
}

NamespaceConfig Config::Describe(std::string_view name) const {
  if (const NamespaceConfig* found = Find(name); found != nullptr) return *found;
  NamespaceConfig config = *defaults_;
  config.name = name;
  return config;
}

bool Config::Accepts(std::string_view name) const {
  return accepts_unlisted_ || namespaces_.find(name) != namespaces_.end();
}

std::vector<std::string> Config::Names() const {
  std::vector<std::string> names;
  names.reserve(namespaces_.size());
  for (const auto& [name, config] : namespaces_) names.push_back(name);
  return names;
}

absl::StatusOr<std::unique_ptr<ConfigHolder>> ConfigHolder::Open(std::string path) {
  std::shared_ptr<const Config> config = Config::BuiltIn();
  if (!path.empty()) {
    absl::StatusOr<std::shared_ptr<const Config>> loaded = Config::Load(path);
    if (!loaded.ok()) return loaded.status();
    config = *std::move(loaded);
  }
  return std::unique_ptr<ConfigHolder>(new ConfigHolder(std::move(path), std::move(config)));
}

std::shared_ptr<const Config> ConfigHolder::Get() const {
  absl::ReaderMutexLock lock(&mutex_);
  return config_;
}

absl::Status ConfigHolder::Reload(const TakeUp& take_up) {
  if (path_.empty()) return absl::OkStatus();
  absl::MutexLock reload_lock(&reload_mutex_);
  absl::StatusOr<std::shared_ptr<const Config>> loaded = Config::Load(path_);
  if (!loaded.ok()) return loaded.status();
  if (take_up) {
    if (absl::Status status = take_up(**loaded); !status.ok()) return status;
  }
  absl::MutexLock lock(&mutex_);
  config_ = *std::move(loaded);
  return absl::OkStatus();
}

}  // namespace idempotency::service
