// Keys and tokens made in the test: right ones, and ones that are wrong in one way.
#ifndef IDEMPOTENCY_TESTS_SERVICE_IDENTITY_JWT_MAKER_H_
#define IDEMPOTENCY_TESTS_SERVICE_IDENTITY_JWT_MAKER_H_

#include <openssl/evp.h>

#include <string>
#include <string_view>

#include "service/identity/openssl_ptr.h"

namespace idempotency::testing {

std::string Base64Url(std::string_view bytes);

// A private key, and its public half as a JSON Web Key.
class SigningKey {
 public:
  static SigningKey Rsa(std::string kid, unsigned bits = 2048);
  static SigningKey P256(std::string kid);
  // Of a curve that is not used here.
  static SigningKey P384(std::string kid);

  // `extra`: members to put in, such as "\"use\":\"sig\"".
  std::string Jwk(const std::string& extra = "") const;
  // As JWS wants it: RSA PKCS #1 v1.5, or r and s.
  std::string Sign(std::string_view text) const;
  // The signature as OpenSSL makes it.
  std::string SignDer(std::string_view text) const;
  std::string PublicPem() const;

  const std::string& kid() const { return kid_; }
  std::string_view algorithm() const { return is_rsa_ ? "RS256" : "ES256"; }

  // A token of these parts as they are.
  std::string Token(std::string_view header, std::string_view payload) const;
  // A token with the usual header.
  std::string Token(std::string_view payload) const;

 private:
  SigningKey(std::string kid, EVP_PKEY* key, bool is_rsa)
      : kid_(std::move(kid)), key_(key), is_rsa_(is_rsa) {}

  std::string kid_;
  service::OpensslPtr<EVP_PKEY> key_;
  bool is_rsa_;
};

// {"keys":[...]}
std::string Jwks(std::initializer_list<std::string> keys);

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SERVICE_IDENTITY_JWT_MAKER_H_
