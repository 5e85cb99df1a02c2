// OpenSSL's objects, each freed as it wants to be.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_OPENSSL_PTR_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_OPENSSL_PTR_H_

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/x509v3.h>

#include <memory>

namespace idempotency::service {

struct OpensslFree {
  void operator()(BIGNUM* p) const { BN_free(p); }
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(ECDSA_SIG* p) const { ECDSA_SIG_free(p); }
  void operator()(EVP_MD_CTX* p) const { EVP_MD_CTX_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(EVP_PKEY_CTX* p) const { EVP_PKEY_CTX_free(p); }
  void operator()(GENERAL_NAMES* p) const { GENERAL_NAMES_free(p); }
  void operator()(OSSL_PARAM* p) const { OSSL_PARAM_free(p); }
  void operator()(OSSL_PARAM_BLD* p) const { OSSL_PARAM_BLD_free(p); }
  void operator()(X509* p) const { X509_free(p); }
};

template <typename T>
using OpensslPtr = std::unique_ptr<T, OpensslFree>;

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_OPENSSL_PTR_H_
