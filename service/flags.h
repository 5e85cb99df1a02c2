// The command line of idempotencyd.
#ifndef IDEMPOTENCY_SERVICE_FLAGS_H_
#define IDEMPOTENCY_SERVICE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace idempotency::service {

// Each member is the flag of its name, with its default.
struct Flags {
  // A backup's name that stands for the newest.
  static constexpr char kLatestBackup[] = "latest";

  std::string data_dir = "./var/idempotencyd";
  std::string listen = "127.0.0.1:7420";
  bool allow_plaintext = false;
  bool allow_anonymous = false;
  std::string tls_min_version = "1.3";
  std::string config;
  bool check_config = false;
  std::string engine = "rocksdb";
  std::string etcd_endpoints;
  std::string etcd_prefix = "idempotency/";
  std::string etcd_ca;
  std::string etcd_certificate;
  std::string etcd_key;
  std::string etcd_user;
  std::string etcd_password_file;
  int etcd_max_request_kb = 1'536;
  int etcd_quota_mb = 2'048;
  std::string postgres_uri;
  int postgres_connections = 4;
  int clock_skew_ms = 500;
  std::string log_level = "info";
  std::string audit_log = "stderr";
  std::string port_file;
  std::string metrics_listen;
  int ballast_mb = 64;
  int block_cache_mb = 256;
  int memtable_mb = 64;
  int log_ahead_mb = 0;
  int max_connections = 10'000;
  int max_connections_per_peer = 1'000;
  int max_cancelled_calls = 10'000;
  int max_streams_per_connection = 1'250;
  int max_metadata_kb = 8;
  int handshake_timeout_s = 10;
  int max_connection_idle_s = 1'800;
  int max_connection_age_s = 7'200;
  int keepalive_s = 120;
  int min_ping_interval_s = 10;
  bool trust_clock = false;
  int accept_loss = 0;
  std::string response_keys;
  std::string lost_response_keys;
  bool rewrap = false;
  std::string backup_dir;
  int backups_kept = 7;
  std::string verify_backup;
  std::string restore_backup;
  std::string transfer;
  std::string progress = "auto";
  bool core_dumps = false;
  bool version = false;
  bool help = false;
};

// Reads `arguments`, the program's name not among them: "--name=value", "--name value", and
// "--name" or "--noname" of a truth value. INVALID_ARGUMENT, in words for whoever typed them, for
// a flag that does not exist, a value that is not one of its values, or anything else.
absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments);

// What --help prints.
std::string HelpText();

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FLAGS_H_
