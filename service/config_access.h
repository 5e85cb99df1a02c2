// The section `access` of a configuration file.
#ifndef IDEMPOTENCY_SERVICE_CONFIG_ACCESS_H_
#define IDEMPOTENCY_SERVICE_CONFIG_ACCESS_H_

#include "idempotency/config/v1/config.pb.h"
#include "service/access_rules.h"
#include "service/config_problems.h"
#include "service/config_yaml.h"

namespace idempotency::service {

// What the file says; good only where no problem was added.
AccessRules TakeAccess(const config::v1::Config& file, const FieldLines& lines,
                       ConfigProblems* problems);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_CONFIG_ACCESS_H_
