#include "service/process/flag_options.h"

#include <cstdint>

#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace idempotency::service {

ConnectionLimits ConnectionLimitsOf(const Flags& flags) {
  ConnectionLimits limits;
  limits.max_connections = static_cast<uint32_t>(flags.max_connections);
  limits.max_connections_per_peer = static_cast<uint32_t>(flags.max_connections_per_peer);
  limits.max_cancelled_calls = static_cast<uint32_t>(flags.max_cancelled_calls);
  limits.max_streams = static_cast<uint32_t>(flags.max_streams_per_connection);
  limits.max_metadata_bytes = static_cast<uint32_t>(flags.max_metadata_kb) * 1024;
  return limits;
}

TransportLimits TransportLimitsOf(const Flags& flags) {
  TransportLimits limits;
  limits.max_streams_per_connection = flags.max_streams_per_connection;
  limits.max_metadata_bytes = flags.max_metadata_kb * 1024;
  limits.handshake_timeout = absl::Seconds(flags.handshake_timeout_s);
  limits.max_connection_idle = absl::Seconds(flags.max_connection_idle_s);
  limits.max_connection_age = absl::Seconds(flags.max_connection_age_s);
  limits.keepalive = absl::Seconds(flags.keepalive_s);
  limits.min_ping_interval = absl::Seconds(flags.min_ping_interval_s);
  return limits;
}

keystore::EtcdOptions EtcdOptionsOf(const Flags& flags) {
  keystore::EtcdOptions etcd;
  etcd.endpoints = absl::StrSplit(flags.etcd_endpoints, ',', absl::SkipEmpty());
  etcd.prefix = flags.etcd_prefix;
  etcd.ca_file = flags.etcd_ca;
  etcd.certificate_file = flags.etcd_certificate;
  etcd.key_file = flags.etcd_key;
  etcd.user = flags.etcd_user;
  etcd.password_file = flags.etcd_password_file;
  etcd.max_request_bytes = static_cast<size_t>(flags.etcd_max_request_kb) * 1024;
  etcd.quota_bytes = static_cast<uint64_t>(flags.etcd_quota_mb) * kMebibyte;
  etcd.clock_skew = core::Duration(flags.clock_skew_ms);
  return etcd;
}

keystore::PostgresOptions PostgresOptionsOf(const Flags& flags) {
  keystore::PostgresOptions postgres;
  postgres.uri = flags.postgres_uri;
  postgres.connections = static_cast<size_t>(flags.postgres_connections);
  postgres.allow_plaintext = flags.allow_plaintext;
  postgres.clock_skew = core::Duration(flags.clock_skew_ms);
  return postgres;
}

}  // namespace idempotency::service
