#include "service/identity/authenticator.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace idempotency::service {
namespace {

constexpr std::string_view kScheme = "Bearer ";

struct FaultText {
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array<FaultText, kAuthFaults> kFaults = {{
    {"NONE", ""},
    {"NO_CREDENTIALS",
     "The call does not say who makes it; connect with a client certificate that this service "
     "accepts, or send a bearer token in the metadata authorization."},
    {"TOKEN_OVER_PLAINTEXT",
     "A token must not travel unencrypted; connect over TLS, and replace this token, which others "
     "may have read."},
    {"NOT_BEARER", "The metadata authorization is not one \"Bearer\" token; send exactly one."},
    {"TOKEN_NOT_VALID",
     "The bearer token is none that this service accepts; get one from the issuer that it is "
     "configured for."},
    {"TOKEN_EXPIRED", "The bearer token has expired; get a new one and send the call again."},
    {"TOKEN_NOT_YET_VALID",
     "The bearer token does not hold yet; check the clocks of its issuer and of this service."},
    {"TOKEN_WRONG_AUDIENCE",
     "The bearer token is meant for another service; ask its issuer for one with the audience "
     "that this service is configured for."},
    {"CERTIFICATE_EXPIRED",
     "The client certificate of this connection has expired; connect again with a new one."},
    {"CERTIFICATE_NAMES",
     "The client certificate does not say who calls; it needs exactly one URI, or a DNS name, as "
     "subject alternative name."},
}};
static_assert(static_cast<size_t>(AuthFault::kCertificateNames) + 1 == kAuthFaults);

Authentication Refuse(AuthFault fault) { return Authentication{{}, fault, TokenFault::kNone}; }

AuthFault ToAuthFault(TokenFault fault) {
  switch (fault) {
    case TokenFault::kNone:
      return AuthFault::kNone;
    case TokenFault::kExpired:
      return AuthFault::kTokenExpired;
    case TokenFault::kNotYetValid:
      return AuthFault::kTokenNotYetValid;
    case TokenFault::kWrongAudience:
      return AuthFault::kTokenWrongAudience;
    case TokenFault::kTooLarge:
    case TokenFault::kMalformed:
    case TokenFault::kUnknownIssuer:
    case TokenFault::kCritical:
    case TokenFault::kWrongType:
    case TokenFault::kAlgorithm:
    case TokenFault::kUnknownKey:
    case TokenFault::kSignature:
      break;
  }
  return AuthFault::kTokenNotValid;
}

// The token behind "Bearer "; nothing where there is none. The scheme may be written in any case.
std::optional<std::string_view> TokenOf(std::string_view authorization) {
  const absl::string_view text(authorization.data(), authorization.size());
  if (!absl::StartsWithIgnoreCase(text, absl::string_view(kScheme.data(), kScheme.size()))) {
    return std::nullopt;
  }
  authorization.remove_prefix(kScheme.size());
  if (authorization.empty()) return std::nullopt;
  return authorization;
}

// Tells of the problem behind the path of its file.
absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

// Room for one more. What is forgotten is found out again.
template <typename Map>
void MakeRoom(Map* map) {
  if (map->size() >= kMaxRememberedCredentials) map->clear();
}

template <typename Content>
void Look(std::string_view what, const std::string& path, Watched<Content>* file,
          const ReportFile& report) {
  const auto checked = file->Check();
  if (checked.what != Watched<Content>::What::kNothing) report({what, path, checked.status});
}

}  // namespace

std::string_view SentenceOf(AuthFault fault) {
  return kFaults[static_cast<size_t>(fault)].sentence;
}
std::string_view FaultName(AuthFault fault) { return kFaults[static_cast<size_t>(fault)].name; }

// --- Files ---------------------------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<const StaticTokens>> LoadStaticTokens(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxTokensFileBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::shared_ptr<const StaticTokens>> tokens = ParseStaticTokens(*text);
  if (!tokens.ok()) return In(path, tokens.status());
  return tokens;
}

absl::StatusOr<std::shared_ptr<const KeySet>> LoadJwks(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxJwksBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::shared_ptr<const KeySet>> keys = ParseJwks(*text);
  if (!keys.ok()) return In(path, keys.status());
  return keys;
}

absl::StatusOr<std::shared_ptr<const TlsMaterial>> LoadTlsMaterial(const TlsSettings& settings,
                                                                   core::Time now) {
  TlsMaterial material;
  const std::pair<const std::string&, std::string*> files[] = {
      {settings.certificate_file, &material.certificate_chain},
      {settings.private_key_file, &material.private_key},
      {settings.client_ca_file, &material.client_ca}};
  for (const auto& [path, content] : files) {
    if (path.empty()) continue;
    absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxPemBytes);
    if (!text.ok()) return text.status();
    *content = *std::move(text);
  }
  // An empty file must not become a server that asks nobody for a certificate.
  if (!settings.client_ca_file.empty() && material.client_ca.empty()) {
    material.client_ca.push_back('\n');
  }
  if (absl::Status status = CheckTlsMaterial(material, now); !status.ok()) {
    return In(settings.certificate_file, status);
  }
  return std::make_shared<const TlsMaterial>(std::move(material));
}

struct Authenticator::Sources {
  using Tokens = Watched<StaticTokens>;
  using Keys = Watched<KeySet>;

  explicit Sources(IdentitySettings from) : settings(std::move(from)) {
    if (!settings.tokens_file.empty()) {
      const std::string path = settings.tokens_file;
      tokens = std::make_unique<Tokens>(std::vector<std::string>{path},
                                        [path] { return LoadStaticTokens(path); });
    }
    for (const JwtIssuerSettings& issuer : settings.jwt_issuers) {
      const std::string path = issuer.jwks_file;
      keys.push_back(std::make_unique<Keys>(std::vector<std::string>{path},
                                            [path] { return LoadJwks(path); }));
    }
  }

  absl::Status Open() {
    if (tokens != nullptr) {
      if (absl::Status status = tokens->Open(); !status.ok()) return status;
    }
    for (const std::unique_ptr<Keys>& set : keys) {
      if (absl::Status status = set->Open(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const IdentitySettings settings;
  std::unique_ptr<Tokens> tokens;           // null: none
  std::vector<std::unique_ptr<Keys>> keys;  // one for each issuer
};

Authenticator::Authenticator(bool certificates, ReportFile report)
    : certificates_(certificates), report_(std::move(report)) {}

Authenticator::~Authenticator() = default;

absl::StatusOr<std::unique_ptr<Authenticator>> Authenticator::Open(const IdentitySettings& settings,
                                                                   bool certificates,
                                                                   ReportFile report) {
  std::unique_ptr<Authenticator> authenticator(new Authenticator(certificates, std::move(report)));
  if (absl::Status status = authenticator->Apply(settings); !status.ok()) return status;
  return authenticator;
}

absl::Status Authenticator::Apply(const IdentitySettings& settings) {
  auto sources = std::make_shared<Sources>(settings);
  if (absl::Status status = sources->Open(); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  sources_ = std::move(sources);
  PutInForce(*sources_);
  return absl::OkStatus();
}

void Authenticator::Refresh() {
  absl::MutexLock lock(&mutex_);
  bool changed = false;
  const ReportFile report = [&](const FileReport& file) {
    changed = changed || file.status.ok();
    report_(file);
  };
  const IdentitySettings& settings = sources_->settings;
  if (sources_->tokens != nullptr) {
    Look("tokens", settings.tokens_file, sources_->tokens.get(), report);
  }
  for (size_t i = 0; i < sources_->keys.size(); ++i) {
    Look("jwks", settings.jwt_issuers[i].jwks_file, sources_->keys[i].get(), report);
  }
  if (changed) PutInForce(*sources_);
}

void Authenticator::PutInForce(const Sources& sources) {
  auto state = std::make_shared<State>();
  if (sources.tokens != nullptr) state->tokens = sources.tokens->Get();
  for (size_t i = 0; i < sources.keys.size(); ++i) {
    const JwtIssuerSettings& from = sources.settings.jwt_issuers[i];
    state->issuers.push_back(
        {from.name, from.issuer, from.audiences, from.clock_skew, sources.keys[i]->Get()});
  }
  takes_tokens_ = sources.settings.takes_tokens();
  absl::MutexLock lock(&memory_mutex_);
  state_ = std::move(state);
  // What they were judged by has changed.
  tokens_seen_.clear();
}

// --- Calls ---------------------------------------------------------------------------------------

Authentication Authenticator::Authenticate(const Credentials& credentials, core::Time now) const {
  if (!required()) return {};
  const bool sent = !credentials.authorization.empty() || credentials.several_authorizations;
  if (sent && takes_tokens()) {
    if (!credentials.private_transport) return Refuse(AuthFault::kTokenOverPlaintext);
    const std::optional<std::string_view> token = TokenOf(credentials.authorization);
    if (credentials.several_authorizations || !token) return Refuse(AuthFault::kNotBearer);
    return JudgeToken(*token, now);
  }
  if (!credentials.certificate.empty()) return JudgeCertificate(credentials.certificate, now);
  return Refuse(AuthFault::kNoCredentials);
}

Authentication Authenticator::JudgeToken(std::string_view token, core::Time now) const {
  if (token.size() > kMaxTokenBytes) {
    return Authentication{{}, AuthFault::kTokenNotValid, TokenFault::kTooLarge};
  }
  const TokenDigest digest = DigestToken(token);
  const std::string key(digest.begin(), digest.end());
  std::shared_ptr<const State> state;
  {
    absl::MutexLock lock(&memory_mutex_);
    state = state_;
    const auto seen = tokens_seen_.find(key);
    if (seen != tokens_seen_.end()) {
      const Remembered& remembered = seen->second;
      if (now >= remembered.begin && now < remembered.end) return remembered.found;
      tokens_seen_.erase(seen);
    }
  }
  Remembered found = ReadToken(token, digest, *state, now);
  if (found.found.fault != AuthFault::kNone) return found.found;
  absl::MutexLock lock(&memory_mutex_);
  // Judged by what holds no longer: not to be remembered.
  if (state != state_) return found.found;
  MakeRoom(&tokens_seen_);
  return tokens_seen_.insert_or_assign(key, std::move(found)).first->second.found;
}

Authenticator::Remembered Authenticator::ReadToken(std::string_view token,
                                                   const TokenDigest& digest, const State& state,
                                                   core::Time now) const {
  Remembered result;
  if (state.tokens != nullptr && token.size() >= kMinStaticTokenBytes) {
    const std::string_view name = state.tokens->Find(digest);
    if (!name.empty()) {
      result.found.principal = {absl::StrCat("token:", std::string(name)),
                                PrincipalKind::kStaticToken};
      return result;
    }
  }
  if (state.issuers.empty()) {
    result.found = Refuse(AuthFault::kTokenNotValid);
    return result;
  }
  const VerifiedJwt verified = VerifyJwt(token, state.issuers, now);
  result.found.fault = ToAuthFault(verified.fault);
  result.found.token_fault = verified.fault;
  if (verified.fault != TokenFault::kNone) return result;
  result.begin = verified.claims.begin;
  result.end = verified.claims.end;
  result.found.principal = {
      absl::StrCat("jwt:", verified.claims.issuer_name, ":", verified.claims.subject),
      PrincipalKind::kJwt};
  return result;
}

Authentication Authenticator::JudgeCertificate(std::string_view pem, core::Time now) const {
  Remembered found;
  {
    absl::MutexLock lock(&memory_mutex_);
    const auto seen = certificates_seen_.find(absl::string_view(pem.data(), pem.size()));
    if (seen != certificates_seen_.end()) {
      // Connections outlive the certificates that they were made with.
      if (now >= seen->second.end) return Refuse(AuthFault::kCertificateExpired);
      return seen->second.found;
    }
  }
  const std::optional<CertificateNames> names = ReadCertificate(pem);
  const std::optional<Principal> principal = names ? PrincipalOf(*names) : std::nullopt;
  if (names) found.end = names->end;
  found.found = principal ? Authentication{*principal, AuthFault::kNone, TokenFault::kNone}
                          : Refuse(AuthFault::kCertificateNames);
  if (now >= found.end) return Refuse(AuthFault::kCertificateExpired);
  absl::MutexLock lock(&memory_mutex_);
  MakeRoom(&certificates_seen_);
  // Whoever could connect has one that an authority has signed: refusals are kept, too.
  certificates_seen_.insert_or_assign(std::string(pem), found);
  return found.found;
}

}  // namespace idempotency::service
