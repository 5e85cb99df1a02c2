#include "service/flags.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"

ABSL_FLAG(std::string, data_dir, "./var/idempotencyd",
          "Directory of the store; made if its parent exists. One process at a time.");
ABSL_FLAG(std::string, listen, "127.0.0.1:7420",
          "Where to listen: a loopback address with a port (0: any free one), or unix:/path. "
          "Plaintext, and whoever can connect may do everything.");
ABSL_FLAG(std::string, config, "",
          "YAML file of namespaces and limits; read again at SIGHUP. Empty: every namespace "
          "works under the built-in defaults.");
ABSL_FLAG(bool, check_config, false, "Check the file of --config, say what is wrong, and exit.");
ABSL_FLAG(std::string, engine, "rocksdb",
          "rocksdb, or memory: keeps nothing across a restart, for tests only.");
ABSL_FLAG(std::string, log_level, "info",
          "debug (a line for every command), info, warning or error; JSON lines on stderr.");
ABSL_FLAG(bool, version, false, "Print the version and exit.");
ABSL_FLAG(bool, help, false, "Print this and exit.");
ABSL_FLAG(bool, trust_clock, false,
          "The wall clock is right, however far it is ahead of the last run: leave the state in "
          "which nothing expires and no unknown outcome is attempted again.");
ABSL_FLAG(int, block_cache_mb, 256, "RocksDB's block cache, in MiB.");
ABSL_FLAG(int, memtable_mb, 64, "What RocksDB gathers of one column family in memory, in MiB.");
ABSL_FLAG(int, ballast_mb, 64,
          "Size in MiB of a file that is deleted when the disk is full, so that running "
          "operations can still be completed. 0: none.");
ABSL_FLAG(std::string, port_file, "",
          "Write the port that is listened on to this file, once calls are answered.");

namespace idempotency::service {
namespace {

constexpr int kMaxMegabytes = 1024 * 1024;

// In the order of the help text.
constexpr const char* kFlagNames[] = {
    "data_dir",    "listen",    "config",     "check_config",   "engine",
    "log_level",   "port_file", "ballast_mb", "block_cache_mb", "memtable_mb",
    "trust_clock", "version",   "help",
};

absl::Status Wrong(std::string message) {
  return absl::InvalidArgumentError(absl::StrCat(message, " Try idempotencyd --help."));
}

absl::CommandLineFlag* FindOurs(std::string_view name) {
  for (const char* ours : kFlagNames) {
    if (name == ours) return absl::FindCommandLineFlag(ours);
  }
  return nullptr;
}

// "--name=value", "--name value", "--name" and "--noname" of a truth value. Moves *next behind
// a value that stands by itself.
absl::Status ParseOne(const std::vector<std::string>& arguments, size_t* next) {
  const std::string& argument = arguments[(*next)++];
  const size_t dashes = argument.find_first_not_of('-');
  if (dashes != 1 && dashes != 2) return Wrong(absl::StrCat("\"", argument, "\" is not a flag."));
  const size_t equals = argument.find('=');
  const bool has_value = equals != std::string::npos;
  std::string name = argument.substr(dashes, has_value ? equals - dashes : std::string::npos);
  std::string value = has_value ? argument.substr(equals + 1) : std::string();
  absl::CommandLineFlag* flag = FindOurs(name);
  if (flag == nullptr && !has_value && name.rfind("no", 0) == 0) {
    flag = FindOurs(name.substr(2));
    if (flag != nullptr && !flag->IsOfType<bool>()) flag = nullptr;
    value = "false";
  } else if (flag != nullptr && !has_value && flag->IsOfType<bool>()) {
    value = "true";
  } else if (flag != nullptr && !has_value) {
    if (*next == arguments.size()) return Wrong(absl::StrCat("--", name, " needs a value."));
    value = arguments[(*next)++];
  }
  if (flag == nullptr) return Wrong(absl::StrCat("There is no flag --", name, "."));
  std::string why;
  if (!flag->ParseFrom(value, &why)) {
    return Wrong(absl::StrCat("--", name, "=", value, " is not a value of this flag."));
  }
  return absl::OkStatus();
}

absl::Status CheckMegabytes(const char* name, int value, int least) {
  if (value >= least && value <= kMaxMegabytes) return absl::OkStatus();
  return Wrong(absl::StrCat("--", name, "=", value, " is out of range; use ", least, " to ",
                            kMaxMegabytes, "."));
}

absl::Status Check(const Flags& flags) {
  if (flags.engine != "rocksdb" && flags.engine != "memory") {
    return Wrong(absl::StrCat("--engine=", flags.engine, " is neither rocksdb nor memory."));
  }
  if (flags.engine == "rocksdb" && flags.data_dir.empty()) {
    return Wrong("--data_dir must not be empty.");
  }
  if (flags.check_config && flags.config.empty()) {
    return Wrong("--check_config needs the file to check: --config=FILE.");
  }
  if (auto status = CheckMegabytes("block_cache_mb", flags.block_cache_mb, 1); !status.ok()) {
    return status;
  }
  if (auto status = CheckMegabytes("memtable_mb", flags.memtable_mb, 1); !status.ok()) {
    return status;
  }
  return CheckMegabytes("ballast_mb", flags.ballast_mb, 0);
}

}  // namespace

absl::Status ParseFlags(const std::vector<std::string>& arguments, Flags* flags) {
  const absl::FlagSaver defaults;  // what is parsed here is not kept anywhere else
  for (size_t next = 0; next < arguments.size();) {
    if (absl::Status status = ParseOne(arguments, &next); !status.ok()) return status;
  }
  const std::string log_level = absl::GetFlag(FLAGS_log_level);
  const std::optional<LogLevel> level = ParseLogLevel(log_level);
  if (!level) {
    return Wrong(
        absl::StrCat("--log_level=", log_level, " is none of debug, info, warning and error."));
  }
  *flags = Flags{absl::GetFlag(FLAGS_data_dir),    absl::GetFlag(FLAGS_listen),
                 absl::GetFlag(FLAGS_config),      absl::GetFlag(FLAGS_check_config),
                 absl::GetFlag(FLAGS_engine),      *level,
                 absl::GetFlag(FLAGS_version),     absl::GetFlag(FLAGS_help),
                 absl::GetFlag(FLAGS_trust_clock), absl::GetFlag(FLAGS_block_cache_mb),
                 absl::GetFlag(FLAGS_memtable_mb), absl::GetFlag(FLAGS_ballast_mb),
                 absl::GetFlag(FLAGS_port_file)};
  if (flags->help || flags->version) return absl::OkStatus();
  return Check(*flags);
}

std::string HelpText() {
  std::string text =
      "idempotencyd: keeps what services need to know to retry without doing things twice.\n"
      "\n"
      "  idempotencyd --data_dir=/var/lib/idempotencyd\n"
      "  idempotencyd --config=namespaces.yaml --check_config\n"
      "\n"
      "Flags:\n";
  for (const char* name : kFlagNames) {
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    absl::StrAppend(&text, "  --", name,
                    " (default: ", flag->DefaultValue().empty() ? "empty" : flag->DefaultValue(),
                    ")\n      ", flag->Help(), "\n");
  }
  return absl::StrCat(
      text,
      "\n"
      "Signals: SIGTERM and SIGINT finish what was accepted and stop; SIGHUP reads the\n"
      "configuration again, and keeps the old one where the new one is wrong.\n"
      "\n"
      "Exit codes: 0 stopped as asked, 1 could not start, 2 wrong flags or configuration,\n"
      "70 the store failed while running (start again to reopen it).\n");
}

}  // namespace idempotency::service
