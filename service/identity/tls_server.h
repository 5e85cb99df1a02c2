// TLS for gRPC's server: certificates that are exchanged while it runs, and no old versions.
//
//   std::unique_ptr<TlsFiles> files = WatchTls(settings, wall_clock);
//   absl::Status status = files->Open();
//   parts.credentials = MakeTlsCredentials(files.get(), settings, TlsVersion::k13);
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_TLS_SERVER_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_TLS_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "grpcpp/security/server_credentials.h"
#include "service/identity/authenticator.h"
#include "service/identity/certificate.h"
#include "service/identity/settings.h"
#include "service/identity/watched_file.h"

namespace idempotency::service {

using TlsFiles = Watched<TlsMaterial>;

// The files of `settings`, which are watched together: a certificate and its key change as one.
// `wall_clock` is asked whether the certificate holds; it must outlive the result.
std::unique_ptr<TlsFiles> WatchTls(const TlsSettings& settings,
                                   std::function<core::Time()> wall_clock);

enum class TlsVersion : uint8_t { k12, k13 };

// For one port of one server, whose connections are handed over on one thread. `files` must be
// open; they and the credentials must outlive the server. Each handshake uses what the files hold
// then; connections that exist go on. No version below `least` is spoken.
std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const TlsFiles* files,
                                                            const TlsSettings& settings,
                                                            TlsVersion least);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_TLS_SERVER_H_
