// What --engine=etcd is told. Plain values: whoever reads flags needs nothing else of the engine.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_OPTIONS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keystore/core/time.h"

namespace idempotency::keystore {

struct EtcdOptions {
  // HOST:PORT each, of members of one cluster; at least one.
  std::vector<std::string> endpoints;
  // In front of every key of ours. Servers with the same prefix share one store.
  std::string prefix = "idempotency/";

  // PEM files. With `ca_file` the connection is TLS, and the members must be certified by it;
  // certificate and key are ours, and given together or not at all. Read at start.
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  // Where etcd asks who is calling: the user, and a file whose first line is the password.
  std::string user;
  std::string password_file;

  // What etcd takes in one request (its --max-request-bytes). An answer that does not fit is
  // stored without its body.
  size_t max_request_bytes = size_t{1536} * 1024;
  // How large etcd's database may grow (its --quota-backend-bytes), where etcd does not say it
  // itself. New keys are refused when six sevenths of it are in use.
  uint64_t quota_bytes = uint64_t{2} * 1024 * 1024 * 1024;

  // How far the clocks of the servers that share the store may be apart.
  core::Duration clock_skew = std::chrono::milliseconds(500);
  // For one call; a read asks up to three times.
  core::Duration call_timeout = std::chrono::seconds(2);
  // How often what has expired is looked for. Zero: never.
  core::Duration sweep_interval = std::chrono::minutes(1);
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_OPTIONS_H_
