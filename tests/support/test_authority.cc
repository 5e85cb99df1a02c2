#include "tests/support/test_authority.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>

namespace idempotency::testing {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

std::string Text(const Bio& bio) {
  char* bytes = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio.get(), &bytes));
  return std::string(bytes, size);
}

std::string ToPem(const X509* certificate) {
  const Bio out(BIO_new(BIO_s_mem()), &BIO_free);
  PEM_write_bio_X509(out.get(), certificate);
  return Text(out);
}

std::string ToPem(const EVP_PKEY* key) {
  const Bio out(BIO_new(BIO_s_mem()), &BIO_free);
  PEM_write_bio_PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return Text(out);
}

void Extend(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name)
    : key_(EVP_EC_gen("P-256"), &EVP_PKEY_free), x509_(nullptr, &X509_free) {
  x509_ = Make({.names = "", .common_name = name}, key_.get(), nullptr);
  certificate_ = ToPem(x509_.get());
}

TestAuthority::X509Pointer TestAuthority::Make(const Request& request, EVP_PKEY* key,
                                               const X509* issuer) const {
  static std::atomic<int> serial{1};
  X509Pointer made(X509_new(), &X509_free);
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), request.begin.count());
  X509_gmtime_adj(X509_getm_notAfter(made.get()), request.end.count());
  X509_set_pubkey(made.get(), key);
  X509_NAME* const name = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(request.common_name.c_str()),
                             -1, -1, 0);
  X509_set_issuer_name(made.get(), issuer != nullptr ? X509_get_subject_name(issuer) : name);
  if (issuer == nullptr) Extend(made.get(), NID_basic_constraints, "critical,CA:TRUE");
  if (!request.names.empty()) Extend(made.get(), NID_subject_alt_name, request.names);
  X509_sign(made.get(), key_.get(), EVP_sha256());
  return made;
}

TestCertificate TestAuthority::Issue(const Request& request) const {
  const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  return {ToPem(Make(request, key.get(), x509_.get()).get()), ToPem(key.get())};
}

}  // namespace idempotency::testing
