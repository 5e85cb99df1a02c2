// The command line of idempotencyd.
#ifndef IDEMPOTENCY_SERVICE_FLAGS_H_
#define IDEMPOTENCY_SERVICE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace idempotency::service {

// Each member is the flag of its name, with its default.
struct Flags {
  std::string data_dir = "./var/idempotencyd";
  std::string listen = "127.0.0.1:7420";
  std::string config;
  bool check_config = false;
  std::string engine = "rocksdb";
  std::string log_level = "info";
  std::string port_file;
  int ballast_mb = 64;
  int block_cache_mb = 256;
  int memtable_mb = 64;
  bool trust_clock = false;
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
