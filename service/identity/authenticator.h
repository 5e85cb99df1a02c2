// Who calls: from the client certificate of the connection, or a bearer token.
//
//   auto authenticator = Authenticator::Open(settings, /*certificates=*/true, report);
//   Authentication who = (*authenticator)->Authenticate({.certificate = pem}, now);
//   if (who.fault == AuthFault::kNone) Use(who.principal);
//
// A token that is sent decides, and not the certificate: it is the more particular of the two. A
// bad one is refused, whatever the certificate says. Nothing else that a caller can send is ever
// looked at.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_AUTHENTICATOR_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_AUTHENTICATOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/time.h"
#include "service/identity/certificate.h"
#include "service/identity/jwt.h"
#include "service/identity/principal.h"
#include "service/identity/settings.h"
#include "service/identity/static_tokens.h"
#include "service/identity/watched_file.h"

namespace idempotency::service {

// How many verified tokens, and how many certificates, are remembered.
inline constexpr size_t kMaxRememberedCredentials = 4096;

// What a call brings along; the texts are read during the call alone.
struct Credentials {
  // The client's certificate in PEM, which the transport has verified. Empty: none.
  std::string_view certificate;
  // The metadata `authorization`. Empty: none.
  std::string_view authorization;
  // It stands there more than once.
  bool several_authorizations = false;
  // Nobody on the way can have read it: TLS, a loopback address or a Unix socket.
  bool private_transport = false;
};

// Why nobody is known to call.
enum class AuthFault : uint8_t {
  kNone,
  kNoCredentials,
  kTokenOverPlaintext,
  kNotBearer,      // `authorization` is of another scheme, or there are several
  kTokenNotValid,  // unknown, malformed, badly signed, of an unknown issuer
  kTokenExpired,
  kTokenNotYetValid,
  kTokenWrongAudience,
  kCertificateExpired,  // since the connection was made
  kCertificateNames,    // names nobody, or several
};
inline constexpr size_t kAuthFaults = 10;

// One sentence with the next step; never a part of a credential.
std::string_view SentenceOf(AuthFault fault);
// For logs and metrics: "TOKEN_EXPIRED".
std::string_view FaultName(AuthFault fault);

struct Authentication {
  Principal principal;
  AuthFault fault = AuthFault::kNone;
  // More of it where a JWT was refused, for the log.
  TokenFault token_fault = TokenFault::kNone;
};

// A file with credentials has changed, and what became of it.
struct FileReport {
  std::string_view what;  // "tls", "tokens" or "jwks"
  std::string path;
  absl::Status status;  // not OK: what there was is kept
};
using ReportFile = std::function<void(const FileReport&)>;

// Thread safety: all methods may be called from any thread. Authenticate never waits for a file.
class Authenticator {
 public:
  // `certificates`: whether the transport asks clients for theirs. Errors name the file at fault.
  // `report` is called for every change of a file from then on.
  static absl::StatusOr<std::unique_ptr<Authenticator>> Open(const IdentitySettings& settings,
                                                             bool certificates, ReportFile report);
  ~Authenticator();

  // Reads all files that the new settings name. Where one is bad, what held before goes on, and
  // the status says why.
  absl::Status Apply(const IdentitySettings& settings) ABSL_LOCKS_EXCLUDED(mutex_);

  // Looks whether files have changed. Blocks as long as reading them takes.
  void Refresh() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether callers have to prove who they are; where not, there is nothing to ask.
  bool required() const { return certificates_ || takes_tokens_; }
  // Whether `authorization` is looked at at all.
  bool takes_tokens() const { return takes_tokens_; }

  Authentication Authenticate(const Credentials& credentials, core::Time now) const
      ABSL_LOCKS_EXCLUDED(mutex_, memory_mutex_);

 private:
  struct Sources;
  // What tokens are judged by, at one moment.
  struct State {
    std::shared_ptr<const StaticTokens> tokens;  // null: none
    std::vector<JwtIssuer> issuers;
  };
  // What was found of a credential, and in which time that holds.
  struct Remembered {
    Authentication found;
    core::Time begin;
    core::Time end = core::kMaxTime;
  };

  Authenticator(bool certificates, ReportFile report);

  void PutInForce(const Sources& sources) ABSL_LOCKS_EXCLUDED(memory_mutex_);
  Authentication JudgeToken(std::string_view token, core::Time now) const;
  Remembered ReadToken(std::string_view token, const TokenDigest& digest, const State& state,
                       core::Time now) const;
  Authentication JudgeCertificate(std::string_view pem, core::Time now) const;

  const bool certificates_;
  const ReportFile report_;
  std::atomic<bool> takes_tokens_{false};

  // Held while files are read.
  absl::Mutex mutex_ ABSL_ACQUIRED_BEFORE(memory_mutex_);
  std::shared_ptr<Sources> sources_ ABSL_GUARDED_BY(mutex_);

  mutable absl::Mutex memory_mutex_;
  std::shared_ptr<const State> state_ ABSL_GUARDED_BY(memory_mutex_);
  // Only what was found to be good: guesses cannot push it out.
  mutable absl::flat_hash_map<std::string, Remembered> tokens_seen_ ABSL_GUARDED_BY(memory_mutex_);
  mutable absl::flat_hash_map<std::string, Remembered> certificates_seen_
      ABSL_GUARDED_BY(memory_mutex_);
};

// The file with static tokens, the key set of an issuer, and what a server needs for TLS, read and
// checked. Errors begin with the path of the file at fault.
absl::StatusOr<std::shared_ptr<const StaticTokens>> LoadStaticTokens(const std::string& path);
absl::StatusOr<std::shared_ptr<const KeySet>> LoadJwks(const std::string& path);
absl::StatusOr<std::shared_ptr<const TlsMaterial>> LoadTlsMaterial(const TlsSettings& settings,
                                                                   core::Time now);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_AUTHENTICATOR_H_
