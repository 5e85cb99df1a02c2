// The command line of idempotencyd.
#ifndef IDEMPOTENCY_SERVICE_FLAGS_H_
#define IDEMPOTENCY_SERVICE_FLAGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "keystore/engine/open_engine.h"
#include "service/log.h"

namespace idempotency::service {

struct Flags {
  std::string data_dir;
  std::string listen;
  std::string config;
  bool check_config = false;
  std::string engine;
  LogLevel log_level = LogLevel::kInfo;
  bool version = false;
  bool help = false;
  bool trust_clock = false;
  int block_cache_mb = 0;
  int memtable_mb = 0;
  int ballast_mb = 0;
  std::string port_file;
};

// Reads `arguments`, the program's name not among them. INVALID_ARGUMENT, in words for whoever
// typed them, for a flag that does not exist, a value that is not one, or anything else.
absl::Status ParseFlags(const std::vector<std::string>& arguments, Flags* flags);

// What --help prints.
std::string HelpText();

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FLAGS_H_
