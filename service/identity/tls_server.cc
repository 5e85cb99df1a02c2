#include "service/identity/tls_server.h"

#include <openssl/ssl.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "service/identity/openssl_ptr.h"

namespace idempotency::service {
namespace {

// gRPC 1.51 speaks TLS 1.2, and cannot be told otherwise where certificates are fetched. OpenSSL
// can: whoever asks it to is called for each new connection object, before its handshake. Those
// that are to show one of the certificates noted here get the version that was noted with it;
// clients of this process, and other servers in it, go on as they are.
class OldestVersions {
 public:
  static OldestVersions& Get() {
    static OldestVersions* const kOnly = new OldestVersions();
    return *kOnly;
  }

  void Note(const std::string& certificate_pem, TlsVersion least) {
    const OpensslPtr<BIO> in(
        BIO_new_mem_buf(certificate_pem.data(), static_cast<int>(certificate_pem.size())));
    const OpensslPtr<X509> certificate(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
    absl::MutexLock lock(&mutex_);
    least_[DigestOf(certificate.get())] = least;
  }

 private:
  OldestVersions() { SSL_get_ex_new_index(0, nullptr, &OldestVersions::OnNew, nullptr, nullptr); }

  static std::string DigestOf(const X509* certificate) {
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned size = 0;
    X509_digest(certificate, EVP_sha256(), reinterpret_cast<unsigned char*>(digest.data()), &size);
    digest.resize(size);
    return digest;
  }

  static void OnNew(void* parent, void*, CRYPTO_EX_DATA*, int, long, void*) {  // NOLINT: theirs
    SSL* const ssl = static_cast<SSL*>(parent);
    const X509* const certificate = SSL_get_certificate(ssl);
    if (certificate != nullptr) Get().Apply(DigestOf(certificate), ssl);
  }

  void Apply(const std::string& digest, SSL* ssl) {
    absl::MutexLock lock(&mutex_);
    const auto noted = least_.find(digest);
    if (noted == least_.end()) return;
    SSL_set_min_proto_version(ssl,
                              noted->second == TlsVersion::k12 ? TLS1_2_VERSION : TLS1_3_VERSION);
  }

  absl::Mutex mutex_;
  // By SHA-256 of the certificate. As many as there have been certificates since the start.
  std::map<std::string, TlsVersion> least_ ABSL_GUARDED_BY(mutex_);
};

// What gRPC asks before each handshake. It keeps what it has where the new does not work; but that
// has been found out when the files were read. gRPC takes no lock for this: it is right because
// the listener hands all connections over on one thread.
class CertificateSource {
 public:
  CertificateSource(const TlsFiles* files, TlsVersion least) : files_(files), least_(least) {}

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<CertificateSource*>(self)->Next(config);
  }

 private:
  grpc_ssl_certificate_config_reload_status Next(grpc_ssl_server_certificate_config** config) {
    TlsFiles::Pointer material = files_->Get();
    if (material == given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    OldestVersions::Get().Note(material->certificate_chain, least_);
    const grpc_ssl_pem_key_cert_pair pair{material->private_key.c_str(),
                                          material->certificate_chain.c_str()};
    // gRPC insists on authorities, also where no client is asked for a certificate: then they are
    // never looked at.
    const std::string& authorities =
        material->client_ca.empty() ? material->certificate_chain : material->client_ca;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    given_ = std::move(material);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const TlsFiles* const files_;
  const TlsVersion least_;
  TlsFiles::Pointer given_;
};

// What grpc::SslServerCredentials is, around credentials that only gRPC's C API can make.
class ReloadingCredentials final : public grpc::ServerCredentials {
 public:
  ReloadingCredentials(const TlsFiles* files, grpc_ssl_client_certificate_request_type request,
                       TlsVersion least)
      : source_(files, least),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                request, &CertificateSource::Fetch, &source_))) {}
  ~ReloadingCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  CertificateSource source_;
  grpc_server_credentials* const credentials_;
};

grpc_ssl_client_certificate_request_type RequestOf(const TlsSettings& settings) {
  if (settings.client_ca_file.empty()) return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  return settings.client_certificate_required
             ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
}

}  // namespace

std::unique_ptr<TlsFiles> WatchTls(const TlsSettings& settings,
                                   std::function<core::Time()> wall_clock) {
  std::vector<std::string> paths{settings.certificate_file, settings.private_key_file};
  if (!settings.client_ca_file.empty()) paths.push_back(settings.client_ca_file);
  return std::make_unique<TlsFiles>(std::move(paths),
                                    [settings, wall_clock = std::move(wall_clock)] {
                                      return LoadTlsMaterial(settings, wall_clock());
                                    });
}

std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const TlsFiles* files,
                                                            const TlsSettings& settings,
                                                            TlsVersion least) {
  return std::make_shared<ReloadingCredentials>(files, RequestOf(settings), least);
}

}  // namespace idempotency::service
