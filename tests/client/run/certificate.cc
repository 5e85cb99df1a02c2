#include "tests/client/run/certificate.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

namespace idempotency::testing {
namespace {

std::string Text(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);  // NOLINT: OpenSSL's type
  return std::string(bytes, static_cast<size_t>(size));
}

}  // namespace

Certificate MakeCertificate() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), &X509_free);
  X509_set_version(x509.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x509.get()), 24 * 3600);
  X509_set_pubkey(x509.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(x509.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(x509.get(), name);
  X509_EXTENSION* const names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(x509.get(), names, -1);
  X509_EXTENSION_free(names);
  X509_sign(x509.get(), key.get(), EVP_sha256());

  const std::unique_ptr<BIO, decltype(&BIO_free)> certificate(BIO_new(BIO_s_mem()), &BIO_free);
  PEM_write_bio_X509(certificate.get(), x509.get());
  const std::unique_ptr<BIO, decltype(&BIO_free)> private_key(BIO_new(BIO_s_mem()), &BIO_free);
  PEM_write_bio_PrivateKey(private_key.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return Certificate{Text(certificate.get()), Text(private_key.get())};
}

}  // namespace idempotency::testing
