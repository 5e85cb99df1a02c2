// The sections `tls` and `identity` of a configuration file.
#ifndef IDEMPOTENCY_SERVICE_CONFIG_IDENTITY_H_
#define IDEMPOTENCY_SERVICE_CONFIG_IDENTITY_H_

#include <optional>

#include "idempotency/config/v1/config.pb.h"
#include "service/config_problems.h"
#include "service/config_yaml.h"
#include "service/identity/settings.h"

namespace idempotency::service {

// What the file says; good only where no problem was added. Whether the files that are named are
// there, and what is in them, is not looked at. Nothing where the section is not there.
std::optional<TlsSettings> TakeTls(const config::v1::Config& file, const FieldLines& lines,
                                   ConfigProblems* problems);
IdentitySettings TakeIdentity(const config::v1::Config& file, const FieldLines& lines,
                              ConfigProblems* problems);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_CONFIG_IDENTITY_H_
