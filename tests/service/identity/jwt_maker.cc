#include "tests/service/identity/jwt_maker.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace idempotency::testing {
namespace {

using service::OpensslPtr;

std::string ToBytes(const BIGNUM* number, int size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()), size);
  return bytes;
}

std::string NumberOf(const EVP_PKEY* key, const char* name) {
  BIGNUM* raw = nullptr;
  EVP_PKEY_get_bn_param(key, name, &raw);
  const OpensslPtr<BIGNUM> number(raw);
  return Base64Url(ToBytes(raw, BN_num_bytes(raw)));
}

}  // namespace

std::string Base64Url(std::string_view bytes) {
  std::string text = absl::WebSafeBase64Escape(absl::string_view(bytes.data(), bytes.size()));
  while (!text.empty() && text.back() == '=') text.pop_back();
  return text;
}

SigningKey SigningKey::Rsa(std::string kid, unsigned bits) {
  return SigningKey(std::move(kid), EVP_RSA_gen(bits), true);
}

SigningKey SigningKey::P256(std::string kid) {
  return SigningKey(std::move(kid), EVP_EC_gen("P-256"), false);
}

SigningKey SigningKey::P384(std::string kid) {
  return SigningKey(std::move(kid), EVP_EC_gen("P-384"), false);
}

std::string SigningKey::Jwk(const std::string& extra) const {
  const std::string more = extra.empty() ? "" : "," + extra;
  if (is_rsa_) {
    return absl::StrCat(R"({"kty":"RSA","kid":")", kid_, R"(","n":")",
                        NumberOf(key_.get(), OSSL_PKEY_PARAM_RSA_N), R"(","e":")",
                        NumberOf(key_.get(), OSSL_PKEY_PARAM_RSA_E), "\"", more, "}");
  }
  std::string point(256, '\0');
  size_t size = 0;
  EVP_PKEY_get_octet_string_param(key_.get(), OSSL_PKEY_PARAM_PUB_KEY,
                                  reinterpret_cast<unsigned char*>(point.data()), point.size(),
                                  &size);
  const size_t half = (size - 1) / 2;
  return absl::StrCat(R"({"kty":"EC","crv":")", half == 32 ? "P-256" : "P-384", R"(","kid":")",
                      kid_, R"(","x":")", Base64Url(point.substr(1, half)), R"(","y":")",
                      Base64Url(point.substr(1 + half, half)), "\"", more, "}");
}

std::string SigningKey::SignDer(std::string_view text) const {
  const OpensslPtr<EVP_MD_CTX> context(EVP_MD_CTX_new());
  EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get());
  std::string signature(1024, '\0');
  size_t size = signature.size();
  EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                 reinterpret_cast<const unsigned char*>(text.data()), text.size());
  signature.resize(size);
  return signature;
}

std::string SigningKey::Sign(std::string_view text) const {
  const std::string der = SignDer(text);
  if (is_rsa_) return der;
  const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
  const OpensslPtr<ECDSA_SIG> pair(
      d2i_ECDSA_SIG(nullptr, &bytes, static_cast<long>(der.size())));  // NOLINT: OpenSSL's type
  const int size = (EVP_PKEY_get_bits(key_.get()) + 7) / 8;
  return ToBytes(ECDSA_SIG_get0_r(pair.get()), size) + ToBytes(ECDSA_SIG_get0_s(pair.get()), size);
}

std::string SigningKey::PublicPem() const {
  const OpensslPtr<BIO> out(BIO_new(BIO_s_mem()));
  PEM_write_bio_PUBKEY(out.get(), key_.get());
  char* bytes = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(out.get(), &bytes));
  return std::string(bytes, size);
}

std::string SigningKey::Token(std::string_view header, std::string_view payload) const {
  const std::string text = Base64Url(header) + "." + Base64Url(payload);
  return text + "." + Base64Url(Sign(text));
}

std::string SigningKey::Token(std::string_view payload) const {
  return Token(absl::StrCat(R"({"alg":")", std::string(algorithm()), R"(","kid":")", kid_, "\"}"),
               payload);
}

std::string Jwks(std::initializer_list<std::string> keys) {
  return absl::StrCat(R"({"keys":[)", absl::StrJoin(keys, ","), "]}");
}

}  // namespace idempotency::testing
