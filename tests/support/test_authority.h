// A certificate authority of the test's own, and what it issues. Certificates hold by the
// machine's clock, since handshakes ask no other.
//
//   TestAuthority authority("ca");
//   TestCertificate server = authority.Issue({.names = "DNS:localhost,IP:127.0.0.1"});
#ifndef IDEMPOTENCY_TESTS_SUPPORT_TEST_AUTHORITY_H_
#define IDEMPOTENCY_TESTS_SUPPORT_TEST_AUTHORITY_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <chrono>
#include <memory>
#include <string>

namespace idempotency::testing {

struct TestCertificate {
  std::string certificate;  // PEM
  std::string private_key;  // PEM
};

class TestAuthority {
 public:
  struct Request {
    // As OpenSSL's configuration writes them: "URI:spiffe://a/b,DNS:c"; empty: none.
    std::string names;
    std::string common_name = "test";
    // From now.
    std::chrono::seconds begin = std::chrono::hours(-1);
    std::chrono::seconds end = std::chrono::hours(24);
  };

  explicit TestAuthority(const std::string& name);

  TestCertificate Issue(const Request& request) const;
  const std::string& certificate() const { return certificate_; }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using X509Pointer = std::unique_ptr<X509, decltype(&X509_free)>;

  X509Pointer Make(const Request& request, EVP_PKEY* key, const X509* issuer) const;

  Key key_;
  X509Pointer x509_;
  std::string certificate_;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_TEST_AUTHORITY_H_
