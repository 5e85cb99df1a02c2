// TLS from outside: whose certificates are taken, which versions are spoken, and what becomes of
// new files.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/server/commands.h"
#include "tests/service/server/secure_service.h"
#include "tests/support/http2_frames.h"

namespace idempotency::testing {
namespace {

using grpc::StatusCode;
using std::chrono::hours;
using ::testing::HasSubstr;
using What = service::TlsFiles::What;

// A client without certificates that looks at none, and says what it speaks.
class RawTlsClient {
 public:
  RawTlsClient(int port, int most_version, const std::string& protocol = "h2") {
    // OpenSSL would have whoever writes to an ended connection killed.
    signal(SIGPIPE, SIG_IGN);
    SSL_CTX_set_max_proto_version(context_.get(), most_version);
    const std::string protocols = static_cast<char>(protocol.size()) + protocol;
    SSL_CTX_set_alpn_protos(context_.get(),
                            reinterpret_cast<const unsigned char*>(protocols.data()),
                            static_cast<unsigned int>(protocols.size()));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd_);
    agreed_ = SSL_connect(ssl_.get()) == 1;
  }
  ~RawTlsClient() { close(fd_); }
  RawTlsClient(const RawTlsClient&) = delete;
  RawTlsClient& operator=(const RawTlsClient&) = delete;

  // Which version it has come to with the server; empty: none.
  std::string version() const { return agreed_ ? SSL_get_version(ssl_.get()) : ""; }
  bool Send(const std::string& bytes) {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  }

 private:
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()),
                                                                   &SSL_CTX_free};
  const int fd_ = socket(AF_INET, SOCK_STREAM, 0);
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
  bool agreed_ = false;
};

std::string Handshake(int port, int most) { return RawTlsClient(port, most).version(); }

TEST(TlsTest, OldVersionsAreNotSpoken) {
  SecureService service({});
  EXPECT_EQ(Handshake(service.fixture().server()->port(), TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(Handshake(service.fixture().server()->port(), TLS1_2_VERSION), "");
  // Nor after the certificate has been exchanged.
  service.WritePair(service.authority().Issue({.names = SecureService::kServerNames}));
  ASSERT_EQ(service.tls().Check().what, What::kTakenUp);
  EXPECT_EQ(Handshake(service.fixture().server()->port(), TLS1_2_VERSION), "");
  EXPECT_EQ(Handshake(service.fixture().server()->port(), TLS1_3_VERSION), "TLSv1.3");
}

TEST(TlsTest, Version12IsSpokenWhereItIsAllowed) {
  SecureService service({.least = service::TlsVersion::k12});
  EXPECT_EQ(Handshake(service.fixture().server()->port(), TLS1_2_VERSION), "TLSv1.2");
  EXPECT_EQ(Handshake(service.fixture().server()->port(), TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(Handshake(service.fixture().server()->port(), TLS1_1_VERSION), "");
}

TEST(TlsTest, PlaintextIsNotSpoken) {
  SecureService service({});
  EXPECT_EQ(service.Call(grpc::InsecureChannelCredentials()).status.error_code(),
            StatusCode::UNAVAILABLE);
  EXPECT_TRUE(service.Call(service.Client()).status.ok());
}

// gRPC 1.51 speaks HTTP/2 under this name, too.
TEST(TlsTest, CutsOffAHeaderBlockWithoutAnEndWhateverItIsCalled) {
  for (const char* protocol : {"h2", "grpc-exp"}) {
    SecureService service({});
    const service::Server& server = *service.fixture().server();
    ASSERT_TRUE(service.Call(service.Client()).status.ok());
    RawTlsClient peer(server.port(), TLS1_3_VERSION, protocol);
    ASSERT_EQ(peer.version(), "TLSv1.3");
    ASSERT_TRUE(
        peer.Send(kPreface + Frame(kSettings, 0, 0, "") + Frame(kHeaders, 0, 1, CallFields())));
    // Fields of the table: nothing that looks from outside notices before it is megabytes.
    const std::string more = Frame(kContinuation, 0, 1, std::string(200, '\x8f'));
    size_t sent = 0;
    while (sent < 1'000'000 && peer.Send(more)) sent += more.size();
    while (server.connections().cut_off == 0) std::this_thread::yield();
    EXPECT_TRUE(service.Call(service.Client()).status.ok());
  }
}

// Here it is seen by what gRPC counts: frames are counted in the clear alone.
TEST(TlsTest, CutsOffWhoCancelsTooMuch) {
  SecureService service({});
  const service::Server& server = *service.fixture().server();
  RawTlsClient peer(server.port(), TLS1_3_VERSION);
  ASSERT_EQ(peer.version(), "TLSv1.3");
  const std::string frames = kPreface + Frame(kSettings, 0, 0, "") + CancelledCalls(100'000);
  for (size_t at = 0; at < frames.size() && peer.Send(frames.substr(at, 16'000)); at += 16'000) {
  }
  while (server.connections().cut_off == 0) std::this_thread::yield();
}

TEST(MutualTlsTest, ClientsAreCalledByTheirCertificate) {
  SecureService service({.client_certificates = true});
  const auto call = [&](const std::string& names) {
    return service.Call(service.Client(service.clients().Issue({.names = names})));
  };
  EXPECT_EQ(call("URI:spiffe://example.org/ns/payments/sa/api").principal,
            "spiffe://example.org/ns/payments/sa/api");
  EXPECT_EQ(service.last().kind, service::PrincipalKind::kUri);
  EXPECT_EQ(call("DNS:api.payments.svc").principal, "dns:api.payments.svc");
  const SecureService::Outcome nobody = call("");
  EXPECT_EQ(nobody.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(nobody.reason, "ACCESS_DENIED");
  EXPECT_THAT(nobody.status.error_message(), HasSubstr("subject alternative name"));
  EXPECT_EQ(call("URI:spiffe://a/b,URI:spiffe://a/c").status.error_code(),
            StatusCode::UNAUTHENTICATED);
}

TEST(MutualTlsTest, OthersCannotConnect) {
  SecureService service({.client_certificates = true});
  const TestAuthority stranger("strangers");
  // An authority of the same name, with a key of its own.
  const TestAuthority impostor("clients");
  const struct {
    const char* name;
    std::shared_ptr<grpc::ChannelCredentials> credentials;
  } kCases[] = {
      {"no certificate", service.Client()},
      {"of another authority", service.Client(stranger.Issue({.names = "DNS:a"}))},
      {"of an authority of the same name", service.Client(impostor.Issue({.names = "DNS:a"}))},
      {"expired", service.Client(service.clients().Issue(
                      {.names = "DNS:a", .begin = hours(-2), .end = hours(-1)}))},
      {"not yet", service.Client(service.clients().Issue(
                      {.names = "DNS:a", .begin = hours(1), .end = hours(2)}))},
      {"of the servers' authority", service.Client(service.authority().Issue({.names = "DNS:a"}))},
  };
  for (const auto& row : kCases) {
    EXPECT_EQ(service.Call(row.credentials).status.error_code(), StatusCode::UNAVAILABLE)
        << row.name;
  }
  EXPECT_TRUE(
      service.Call(service.Client(service.clients().Issue({.names = "DNS:a"}))).status.ok());
}

TEST(MutualTlsTest, WhereCertificatesAreOptionalABadOneIsNoneTheLessRefused) {
  SecureService service({.client_certificates = true, .client_certificate_required = false});
  const TestAuthority stranger("strangers");
  EXPECT_EQ(service.Call(service.Client(stranger.Issue({.names = "DNS:a"}))).status.error_code(),
            StatusCode::UNAVAILABLE);
  const SecureService::Outcome none = service.Call(service.Client());
  EXPECT_EQ(none.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(none.reason, "ACCESS_DENIED");
  EXPECT_EQ(service.Call(service.Client(service.clients().Issue({.names = "DNS:a"}))).principal,
            "dns:a");
}

// A connection outlives the certificate that it was made with; what it proves does not.
TEST(MutualTlsTest, AConnectionProvesNothingOnceItsCertificateHasEnded) {
  SecureService service({.client_certificates = true});
  const auto channel = service.fixture().NewChannel(
      service.Client(service.clients().Issue({.names = "DNS:a", .end = hours(1)})));
  EXPECT_EQ(service.CallOn(channel).principal, "dns:a");
  service.fixture().Advance(hours(2));
  const SecureService::Outcome ended = service.CallOn(channel);
  EXPECT_EQ(ended.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(ended.status.error_message(), HasSubstr("has expired; connect again"));
}

TEST(TlsReloadTest, ANewCertificateIsShownToNewConnections) {
  SecureService service({});
  const TestAuthority next("next");
  const auto old_channel = service.fixture().NewChannel(service.Client());
  ASSERT_TRUE(service.CallOn(old_channel).status.ok());
  service.WritePair(next.Issue({.names = SecureService::kServerNames}));
  EXPECT_EQ(service.tls().Check().what, What::kTakenUp);
  EXPECT_TRUE(service.Call(SecureService::ClientOf(next)).status.ok());
  EXPECT_EQ(service.Call(service.Client()).status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_TRUE(service.CallOn(old_channel).status.ok());
}

TEST(TlsReloadTest, ABadOrMismatchedPairLeavesTheLastGoodOne) {
  SecureService service({});
  const TestCertificate good = service.authority().Issue({.names = SecureService::kServerNames});
  const TestCertificate other = service.authority().Issue({.names = SecureService::kServerNames});
  const TestCertificate expired =
      service.authority().Issue({.names = SecureService::kServerNames, .end = hours(-1)});
  const struct {
    const char* name;
    TestCertificate pair;
    const char* problem;
  } kCases[] = {
      {"mismatched", {good.certificate, other.private_key}, "is not that of the first certificate"},
      {"empty", {"", ""}, "holds no certificate"},
      {"no key", {good.certificate, "nonsense"}, "holds no key"},
      {"cut short", {good.certificate.substr(0, 100), good.private_key}, "holds no certificate"},
      {"expired", expired, "has expired"},
  };
  // Each with another problem than the one before: the same is told once.
  for (const auto& row : kCases) {
    service.WritePair(row.pair);
    const service::TlsFiles::Checked checked = service.tls().Check();
    EXPECT_EQ(checked.what, What::kKept) << row.name;
    EXPECT_THAT(std::string(checked.status.message()), HasSubstr(row.problem)) << row.name;
    EXPECT_THAT(std::string(checked.status.message()), HasSubstr(service.Path("certificate")));
    EXPECT_TRUE(service.Call(service.Client()).status.ok()) << row.name;
  }
  std::filesystem::remove(service.Path("key"));
  EXPECT_EQ(service.tls().Check().what, What::kKept);
  EXPECT_TRUE(service.Call(service.Client()).status.ok());
  service.WritePair(good);
  EXPECT_EQ(service.tls().Check().what, What::kTakenUp);
  EXPECT_TRUE(service.Call(service.Client()).status.ok());
}

TEST(TlsReloadTest, ANewAuthorityOfClientsIsTakenUp) {
  SecureService service({.client_certificates = true});
  const TestAuthority next("next");
  const auto old_client = service.Client(service.clients().Issue({.names = "DNS:old"}));
  const auto new_client = service.Client(next.Issue({.names = "DNS:new"}));
  EXPECT_EQ(service.Call(old_client).principal, "dns:old");
  EXPECT_EQ(service.Call(new_client).status.error_code(), StatusCode::UNAVAILABLE);
  // Both, as in the middle of a change.
  service.Write("clients", service.clients().certificate() + next.certificate());
  EXPECT_EQ(service.tls().Check().what, What::kTakenUp);
  EXPECT_EQ(service.Call(old_client).principal, "dns:old");
  EXPECT_EQ(service.Call(new_client).principal, "dns:new");
  service.Write("clients", next.certificate());
  EXPECT_EQ(service.tls().Check().what, What::kTakenUp);
  EXPECT_EQ(service.Call(old_client).status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(service.Call(new_client).principal, "dns:new");
  // An empty file must not let everybody in.
  service.Write("clients", "");
  EXPECT_EQ(service.tls().Check().what, What::kKept);
  EXPECT_EQ(service.Call(old_client).status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(service.Call(service.Client()).status.error_code(), StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace idempotency::testing
