// The service over real TLS, with files that a test rewrites, and clients that know its authority.
#ifndef IDEMPOTENCY_TESTS_SERVICE_SERVER_SECURE_SERVICE_H_
#define IDEMPOTENCY_TESTS_SERVICE_SERVER_SECURE_SERVICE_H_

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "keystore/clock.h"
#include "service/access.h"
#include "service/identity/authenticator.h"
#include "service/identity/tls_server.h"
#include "tests/support/service_fixture.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_authority.h"

namespace idempotency::testing {

// Lets everybody do everything, and notes who did.
class NotePrincipals final : public service::AccessPolicy {
 public:
  bool Allows(const service::Principal& principal, service::Permission, std::string_view,
              std::optional<std::string_view>) const override {
    absl::MutexLock lock(&mutex_);
    last_ = principal;
    return true;
  }
  service::Principal last() const {
    absl::MutexLock lock(&mutex_);
    return last_;
  }

 private:
  mutable absl::Mutex mutex_;
  mutable service::Principal last_ ABSL_GUARDED_BY(mutex_);
};

class SecureService {
 public:
  struct Options {
    bool tls = true;
    // Whether clients are asked for certificates, and must show one.
    bool client_certificates = false;
    bool client_certificate_required = true;
    service::TlsVersion least = service::TlsVersion::k13;
    std::string tokens;  // of the tokens file; empty: none
    std::vector<service::JwtIssuerSettings> jwt_issuers;
    std::string listen = "127.0.0.1:0";
    // With the rules of who may do what; empty: everybody may do everything.
    std::string config;
  };

  explicit SecureService(Options options) : options_(std::move(options)) {
    WritePair(authority_.Issue({.names = kServerNames}));
    Write("clients", clients_.certificate());
    service::IdentitySettings identity;
    identity.jwt_issuers = options_.jwt_issuers;
    if (!options_.tokens.empty()) {
      Write("tokens", options_.tokens);
      identity.tokens_file = Path("tokens");
    }
    auto authenticator =
        service::Authenticator::Open(identity, options_.client_certificates,
                                     [this](const service::FileReport& file) { Note(file); });
    EXPECT_TRUE(authenticator.ok()) << authenticator.status();
    authenticator_ = *std::move(authenticator);
    settings_ = {Path("certificate"), Path("key"),
                 options_.client_certificates ? Path("clients") : "",
                 options_.client_certificate_required};
    tls_ = service::WatchTls(settings_, [] { return keystore::ReadKernelTime().wall; });
    EXPECT_TRUE(tls_->Open().ok());
    fixture_ = std::make_unique<ServiceFixture>(
        ServiceFixture::Options{.config = options_.config,
                                .access = options_.config.empty() ? &principals_ : nullptr,
                                .adjust = [this](service::ServerParts* parts) { Adjust(parts); },
                                .listen = options_.listen,
                                .channel_credentials = Client()});
    // Certificates hold by the machine's clock.
    fixture_->clock()->Set(core::At(keystore::ReadKernelTime().wall));
  }

  // What a client of this service knows, with a certificate or without.
  std::shared_ptr<grpc::ChannelCredentials> Client(const TestCertificate& certificate = {}) const {
    if (!options_.tls) return grpc::InsecureChannelCredentials();
    return ClientOf(authority_, certificate);
  }
  static std::shared_ptr<grpc::ChannelCredentials> ClientOf(
      const TestAuthority& trusted, const TestCertificate& certificate = {}) {
    return grpc::SslCredentials(
        {trusted.certificate(), certificate.private_key, certificate.certificate});
  }

  struct Outcome {
    grpc::Status status;
    std::string reason;
    std::string principal;  // who the service took the caller for; empty: it was not asked
  };
  // One call on a connection of its own.
  Outcome Call(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
               const std::vector<std::string>& authorizations = {}) {
    return CallOn(fixture_->NewChannel(credentials), authorizations);
  }
  Outcome CallOn(const std::shared_ptr<grpc::Channel>& channel,
                 const std::vector<std::string>& authorizations = {}) {
    grpc::ClientContext context;
    for (const std::string& text : authorizations) context.AddMetadata("authorization", text);
    v1::GetNamespaceRequest request;
    request.set_name("payments");
    v1::GetNamespaceResponse response;
    const grpc::Status status = Api(channel).GetNamespace(&context, request, &response);
    const auto result = ReadResult(status, context, response);
    return {status, result.reason, status.ok() ? principals_.last().name : ""};
  }

  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name) + ".new") << text;
    std::filesystem::rename(Path(name) + ".new", Path(name));
  }
  void WritePair(const TestCertificate& pair) const {
    Write("certificate", pair.certificate);
    Write("key", pair.private_key);
  }

  ServiceFixture& fixture() { return *fixture_; }
  service::TlsFiles& tls() { return *tls_; }
  service::Authenticator& authenticator() { return *authenticator_; }
  // Of the server's certificate, and of those of clients.
  const TestAuthority& authority() const { return authority_; }
  const TestAuthority& clients() const { return clients_; }
  service::Principal last() const { return principals_.last(); }

  static constexpr char kServerNames[] = "DNS:localhost,IP:127.0.0.1";

 private:
  void Adjust(service::ServerParts* parts) {
    parts->authenticator = authenticator_.get();
    if (options_.tls) {
      parts->credentials = service::MakeTlsCredentials(tls_.get(), settings_, options_.least);
    }
  }
  void Note(const service::FileReport& file) { reports_.push_back(std::string(file.what)); }

  const Options options_;
  const TempDirectory directory_;
  const TestAuthority authority_{"servers"};
  const TestAuthority clients_{"clients"};
  const NotePrincipals principals_;
  service::TlsSettings settings_;
  std::vector<std::string> reports_;
  std::unique_ptr<service::TlsFiles> tls_;
  std::unique_ptr<service::Authenticator> authenticator_;
  std::unique_ptr<ServiceFixture> fixture_;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SERVICE_SERVER_SECURE_SERVICE_H_
