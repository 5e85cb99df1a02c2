// A certificate for "localhost", made anew and signed by itself.
#ifndef IDEMPOTENCY_TESTS_CLIENT_RUN_CERTIFICATE_H_
#define IDEMPOTENCY_TESTS_CLIENT_RUN_CERTIFICATE_H_

#include <string>

namespace idempotency::testing {

struct Certificate {
  std::string certificate;  // PEM
  std::string private_key;  // PEM
};

Certificate MakeCertificate();

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_RUN_CERTIFICATE_H_
